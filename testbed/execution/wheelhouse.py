# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheels of the execution environment, downloaded once for each lock: its image is built offline."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.process import run
from testbed.basics.progress import step

LOCK = Path(__file__).resolve().parents[2] / "requirements" / "ee.txt"
PYTHON, GLIBC = "3.13", 41
"""Debian 13's."""
INSIDE = "/wheels"
"""Where the image finds them while it is built."""
AT_ONCE = 6
DOWNLOAD_SECONDS = 600
PIP_CONF = f"[global]\nno-index = true\nfind-links = {INSIDE}\ndisable-pip-version-check = true\n"


def ensure() -> Path:
    """Download the wheels if needed; return their directory, which also holds a pip.conf that names it."""
    wanted = paths.cache() / "python" / f"ee-wheels-{files.sha256(LOCK)[:12]}"
    with files.lock(paths.cache() / "locks" / "ee-wheels"):
        if not wanted.is_dir():
            wanted.parent.mkdir(parents=True, exist_ok=True)
            with step("download the packages of the execution environment"):
                _download(wanted)
    return wanted


def parts(lock: str, count: int) -> list[str]:
    """The requirements of a lock, with their hashes, dealt out to so many locks."""
    whole: list[str] = []
    for line in lock.splitlines(keepends=True):
        if line.startswith((" ", "#")) and whole:
            whole[-1] += line
        else:
            whole.append(line)
    return ["".join(whole[start::count]) for start in range(min(count, len(whole)))]


def _download(wanted: Path) -> None:
    whole = Path(tempfile.mkdtemp(dir=wanted.parent, prefix=".new-"))
    try:
        with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(AT_ONCE) as pool:
            locks = []
            for number, text in enumerate(parts(LOCK.read_text(encoding="utf-8"), AT_ONCE)):
                locks.append(Path(work) / f"{number}.txt")
                locks[-1].write_text(text, encoding="utf-8")
            list(pool.map(lambda lock: _download_part(lock, whole), locks))
        (whole / "pip.conf").write_text(PIP_CONF, encoding="utf-8")
        whole.chmod(0o755)
        os.replace(whole, wanted)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise


def _download_part(lock: Path, to: Path) -> None:
    """pip waits most of the time, so several of them run at once."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "download"]
    target = [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in range(5, GLIBC + 1)]
    locked = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--progress-bar=off"]
    python = [f"--python-version={PYTHON}"]
    run([*pip, *locked, *python, *target, f"--dest={to}", f"--requirement={lock}"], timeout=DOWNLOAD_SECONDS)
