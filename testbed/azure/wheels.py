# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python packages of the emulated Azure: installed once for each lock, for the container's Python."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from testbed import files, paths
from testbed.process import run
from testbed.progress import step

LOCK = Path(__file__).resolve().parents[2] / "requirements" / "azure.txt"
PYTHON = "3.11"
GLIBC = "manylinux_2_36"
"""Debian 12's."""
INSTALL_SECONDS = 600


def directory() -> Path:
    """Where the packages of the present lock are."""
    return paths.cache() / "python" / f"azure-{files.sha256(LOCK)[:12]}"


def compiled() -> Path:
    """Where the container keeps byte code, so that only its first start has to compile."""
    place = paths.cache() / "python" / "bytecode"
    place.mkdir(parents=True, exist_ok=True)
    return place


def ensure() -> Path:
    """Install the packages if needed; return their directory."""
    wanted = directory()
    if wanted.is_dir():
        return wanted
    wanted.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(paths.cache() / "locks" / "azure-wheels"):
        if not wanted.is_dir():
            with step("install the packages of the emulated Azure"):
                _install(wanted)
    return wanted


def _install(wanted: Path) -> None:
    whole = Path(tempfile.mkdtemp(dir=wanted.parent, prefix=".new-"))
    target = ["--python-version", PYTHON, "--python-platform", f"{platform.machine()}-{GLIBC}"]
    locked = ["--require-hashes", "--only-binary", ":all:", "--requirement", str(LOCK)]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", sys.executable]
    try:
        run([*uv, "--target", str(whole), *target, *locked], timeout=INSTALL_SECONDS)
        whole.chmod(0o755)
        os.replace(whole, wanted)  # appears whole or not at all
    except BaseException:
        shutil.rmtree(whole, ignore_errors=True)
        raise
