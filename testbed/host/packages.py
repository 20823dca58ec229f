# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages the testbed needs, installed only if their programs are missing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.basics.process import environment, run
from testbed.basics.progress import step


@dataclass(frozen=True)
class Needs:
    """Programs and files that something needs, and the packages that have them."""

    programs: Mapping[str, str]
    files: Mapping[str, str] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """The packages to install."""
        path = environment()["PATH"]
        absent = {package for name, package in self.programs.items() if not shutil.which(name, path=path)}
        return sorted(absent | {package for file, package in self.files.items() if not Path(file).exists()})

    def ensure(self) -> None:
        """Install what is missing, without questions; refresh the package index if it does not suffice."""
        if not self.missing():
            return
        if os.geteuid() != 0:
            raise TestbedError(
                f"packages are missing and this is not root: apt-get install {' '.join(self.missing())}"
            )
        with files.lock(paths.cache() / "locks" / "apt"):
            wanted = self.missing()
            if not wanted:
                return
            # The upgrades of a machine that was just switched on may hold dpkg's lock for minutes.
            lock = ("-o", "DPkg::Lock::Timeout=600")
            install = ["apt-get", *lock, "install", "--yes", "--no-install-recommends", *wanted]
            env = {"DEBIAN_FRONTEND": "noninteractive"}
            with step(f"apt-get install {' '.join(wanted)}"):
                if run(install, env=env, check=False, timeout=1500).returncode != 0:
                    run(["apt-get", "update"], env=env, timeout=600)
                    run(install, env=env, timeout=1500)


TESTBED = Needs(
    {
        "podman": "podman",
        "runc": "runc",
        "conmon": "conmon",
        "mmdebstrap": "mmdebstrap",
        "iptables": "iptables",
        "ip": "iproute2",
        "ssh": "openssh-client",
        "gcc": "gcc",
        "pkg-config": "pkg-config",
        "npm": "npm",
    },
    {
        "/usr/lib/podman/netavark": "netavark",
        "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
        "/usr/include/seccomp.h": "libseccomp-dev",
        "/usr/include/stdio.h": "libc6-dev",
    },
)

CROSS = {
    "amd64": Needs(
        {"x86_64-linux-gnu-gcc": "gcc-x86-64-linux-gnu"},
        {"/usr/x86_64-linux-gnu/lib/libc.a": "libc6-dev-amd64-cross"},
    ),
    "arm64": Needs(
        {"aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"},
        {"/usr/aarch64-linux-gnu/lib/libc.a": "libc6-dev-arm64-cross"},
    ),
}
"""A C compiler for another architecture and its C library, for those who build for machines of that one."""

DISKS = {"qemu-img": "qemu-utils", "mkfs.ext4": "e2fsprogs"}
VIRTUAL = {
    "amd64": Needs({"qemu-system-x86_64": "qemu-system-x86", **DISKS}),
    "arm64": Needs({"qemu-system-aarch64": "qemu-system-arm", **DISKS}),
}
"""Virtual machines of an architecture."""

BINFMT = Path("/usr/lib/binfmt.d")
INTERPRETERS = {"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}
FOREIGN = {
    arch: Needs({"arch-test": "arch-test"}, {f"{BINFMT}/{name}.conf": "qemu-user-static"})
    for arch, name in INTERPRETERS.items()
}
"""Programs of another architecture run here: they configure the packages of its root file systems."""
