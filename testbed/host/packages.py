# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages the testbed needs, installed only if their programs are missing."""

from __future__ import annotations

import os
import shutil
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
    "pkg-config": "pkg-config",
    "npm": "npm",
}
FILES = {
    "/usr/lib/podman/netavark": "netavark",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/usr/include/seccomp.h": "libseccomp-dev",
    "/usr/include/stdio.h": "libc6-dev",
}

# A C compiler for another architecture and its C library, for those who build for machines of that one.
CROSS_PROGRAMS = {
    "amd64": {"x86_64-linux-gnu-gcc": "gcc-x86-64-linux-gnu"},
    "arm64": {"aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"},
}
CROSS_FILES = {
    "amd64": {"/usr/x86_64-linux-gnu/lib/libc.a": "libc6-dev-amd64-cross"},
    "arm64": {"/usr/aarch64-linux-gnu/lib/libc.a": "libc6-dev-arm64-cross"},
}


def missing(cross: str | None = None) -> list[str]:
    """The packages to install; cross: those that builds for that architecture need."""
    path = environment()["PATH"]
    programs, there = (CROSS_PROGRAMS[cross], CROSS_FILES[cross]) if cross else (PROGRAMS, FILES)
    absent = {package for program, package in programs.items() if not shutil.which(program, path=path)}
    return sorted(absent | {package for file, package in there.items() if not Path(file).exists()})


def ensure(cross: str | None = None) -> None:
    """Install what is missing, without questions; the package index is refreshed if it does not suffice."""
    if not missing(cross):
        return
    if os.geteuid() != 0:
        raise TestbedError(
            f"packages are missing and this is not root: apt-get install {' '.join(missing(cross))}"
        )
    with files.lock(paths.cache() / "locks" / "apt"):
        wanted = missing(cross)
        if not wanted:
            return
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        with step(f"apt-get install {' '.join(wanted)}"):
            if run(install, env=env, check=False, timeout=900).returncode != 0:
                run(["apt-get", "update"], env=env, timeout=600)
                run(install, env=env, timeout=900)
