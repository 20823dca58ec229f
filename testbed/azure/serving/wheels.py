# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python packages of the emulated Azure: installed once for each lock, for the container's Python."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.process import run
from testbed.basics.progress import step

LOCK = Path(__file__).resolve().parents[3] / "requirements" / "azure.txt"
PYTHON = "3.11"
GLIBC = "manylinux_2_36"
"""Debian 12's."""
INSTALL_SECONDS = 600


def directory(lock: Path = LOCK) -> Path:
    """Where the packages of a lock are; without one, those of the emulated Azure."""
    return paths.cache() / "python" / f"{lock.stem}-{files.sha256(lock)[:12]}"


def compiled() -> Path:
    """Where the container keeps byte code, so that only its first start has to compile."""
    place = paths.cache() / "python" / "bytecode"
    place.mkdir(parents=True, exist_ok=True)
    return place


def is_there() -> bool:
    """Whether the packages of the emulated Azure are installed."""
    return directory().is_dir()


def ensure() -> Path:
    """Install the packages of the emulated Azure if needed; return their directory."""
    target = ["--python-version", PYTHON, "--python-platform", f"{platform.machine()}-{GLIBC}"]
    return install(LOCK, "the packages of the emulated Azure", *target)


def install(lock: Path, what: str, *options: str) -> Path:
    """Install the packages of a lock into a directory of their own, once; return the directory."""
    wanted = directory(lock)
    if wanted.is_dir():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(paths.cache() / "locks" / f"{lock.stem}-wheels"):
        if not wanted.is_dir():
            with step(f"install {what}"):
                _install(lock, wanted, options)
    return wanted


def _install(lock: Path, wanted: Path, options: Sequence[str]) -> None:
    whole = Path(tempfile.mkdtemp(dir=wanted.parent, prefix=".new-"))
    locked = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(lock)]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    try:
        run([*uv, "--target", str(whole), *options, *locked], timeout=INSTALL_SECONDS)
        whole.chmod(0o755)
        os.replace(whole, wanted)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise
