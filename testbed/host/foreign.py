# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of another architecture on this machine: the kernel gives them to QEMU (binfmt_misc)."""

from __future__ import annotations

from pathlib import Path

from testbed.basics import paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import run
from testbed.host import packages

REGISTER = Path("/proc/sys/fs/binfmt_misc/register")
INTERPRETERS = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}


def ensure(arch: str) -> None:
    """Make programs of an architecture run here, as the packages of a root file system need it."""
    if arch == paths.arch():
        return
    packages.FOREIGN[arch].ensure()
    if _runs(arch):
        return
    if not REGISTER.exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", REGISTER.parent], check=False)
    # A systemd machine that was stopped may have cleared the kernel's list, and Debian's does not know it.
    run(["update-binfmts", "--disable", INTERPRETERS[arch]], check=False)
    run(["update-binfmts", "--enable", INTERPRETERS[arch]], check=False)
    if not _runs(arch):
        raise TestbedError(
            f"programs of {arch} do not run here, and disks of such machines are made by them: "
            f"check that the kernel has binfmt_misc, and 'update-binfmts --display {INTERPRETERS[arch]}'"
        )


def _runs(arch: str) -> bool:
    return run(["arch-test", arch], check=False).returncode == 0
