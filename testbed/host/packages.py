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
    "npm": "npm",
}
FILES = {
    "/usr/lib/podman/netavark": "netavark",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "/usr/include/seccomp.h": "libseccomp-dev",
    "/usr/include/stdio.h": "libc6-dev",
}


def missing() -> list[str]:
    """The packages to install."""
    path = environment()["PATH"]
    programs = {package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)}
    return sorted(programs | {package for file, package in FILES.items() if not Path(file).exists()})


def ensure() -> None:
    """Install what is missing, without questions; the package index is refreshed if it does not suffice."""
    if not missing():
        return
    if os.geteuid() != 0:
        raise TestbedError(
            f"packages are missing and this is not root: apt-get install {' '.join(missing())}"
        )
    with files.lock(paths.cache() / "locks" / "apt"):
        wanted = missing()
        if not wanted:
            return
        install = ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]
        env = {"DEBIAN_FRONTEND": "noninteractive"}
        with step(f"apt-get install {' '.join(wanted)}"):
            if run(install, env=env, check=False, timeout=900).returncode != 0:
                run(["apt-get", "update"], env=env, timeout=600)
                run(install, env=env, timeout=900)
