# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs of another architecture on this machine: the kernel gives them to QEMU (binfmt_misc)."""

from __future__ import annotations

import contextlib
from pathlib import Path

from testbed.basics import paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import run
from testbed.host import packages
from testbed.host.packages import BINFMT, INTERPRETERS

REGISTER = Path("/proc/sys/fs/binfmt_misc/register")


def ensure(arch: str) -> None:
    """Make programs of an architecture run here, as the packages of a root file system need it."""
    if arch == paths.arch():
        return
    packages.FOREIGN[arch].ensure()
    if _runs(arch):
        return
    if not REGISTER.exists():
        run(["mount", "-t", "binfmt_misc", "binfmt_misc", REGISTER.parent], check=False)
    with contextlib.suppress(OSError):
        _register(INTERPRETERS[arch])
    if not _runs(arch):
        raise TestbedError(
            f"programs of {arch} do not run here, and disks of such machines are made by them: "
            f"check that the kernel has binfmt_misc ({REGISTER}) and gives them to what "
            f"{BINFMT}/{INTERPRETERS[arch]}.conf names"
        )


def _register(name: str) -> None:
    """As systemd-binfmt does at boot: the package itself does not, in a container or without systemd."""
    entry = REGISTER.with_name(name)
    if entry.exists():
        entry.write_text("-1", encoding="ascii")  # the kernel's word for: remove it
    REGISTER.write_text((BINFMT / f"{name}.conf").read_text(encoding="ascii"), encoding="ascii")


def _runs(arch: str) -> bool:
    return run(["arch-test", arch], check=False).returncode == 0
