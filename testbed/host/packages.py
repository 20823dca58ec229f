# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages the testbed needs, installed only if their programs are missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import environment, run
from testbed.basics.progress import step

PROGRAMS = {
    "podman": "podman",
    "runc": "runc",
    "conmon": "conmon",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "ip": "iproute2",
    "ssh": "openssh-client",
    "gcc": "gcc",
    "npm": "npm",
}
FILES = {
    "/usr/lib/podman/netavark": "netavark",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/usr/include/seccomp.h": "libseccomp-dev",
    "/usr/include/stdio.h": "libc6-dev",
}


VM_PROGRAMS = {
    "amd64": {"qemu-system-x86_64": "qemu-system-x86", "qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"},
    "arm64": {"qemu-system-aarch64": "qemu-system-arm", "qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"},
}
"""What virtual machines of an architecture need; installed when the first one is made."""


def missing(programs: Mapping[str, str] = PROGRAMS, wanted_files: Mapping[str, str] = FILES) -> list[str]:
    """The packages to install."""
    path = environment()["PATH"]
    absent = {package for program, package in programs.items() if not shutil.which(program, path=path)}
    return sorted(absent | {package for file, package in wanted_files.items() if not Path(file).exists()})


def ensure(programs: Mapping[str, str] = PROGRAMS, wanted_files: Mapping[str, str] = FILES) -> None:
    """Install what is missing, without questions; the package index is refreshed if it does not suffice."""
    if not missing(programs, wanted_files):
        return
    if os.geteuid() != 0:
        raise TestbedError(
            "packages are missing and this is not root: "
            f"apt-get install {' '.join(missing(programs, wanted_files))}"
        )
    with files.lock(paths.cache() / "locks" / "apt"):
        wanted = missing(programs, wanted_files)
        if not wanted:
            return
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        with step(f"apt-get install {' '.join(wanted)}"):
            if run(install, env=env, check=False, timeout=900).returncode != 0:
                run(["apt-get", "update"], env=env, timeout=600)
                run(install, env=env, timeout=900)
