# SPDX-License-Identifier: GPL-3.0-or-later
"""C for machines of another architecture: Debian's cross compiler, and libraries of that architecture.

The libraries are files out of packages of that architecture: this machine's own packages stay as they are.
"""

from __future__ import annotations

from pathlib import Path

from testbed.basics import files, paths
from testbed.host import packages
from testbed.images import rootfs
from testbed.images.rootfs import Recipe

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
"""Debian's names of architectures in paths and compilers."""


def libraries(arch: str) -> Recipe:
    """What runc links besides the C library."""
    packages_of = ("libseccomp-dev",)
    return Recipe(name="libraries", suite="bookworm", packages=packages_of, variant="extract", arch=arch)


def members(arch: str) -> tuple[str, ...]:
    """The files of libseccomp that a static link needs. Not libc's: those are the cross compiler's own."""
    place = f"usr/lib/{TRIPLETS[arch]}"
    return (
        "usr/include/seccomp.h",
        "usr/include/seccomp-syscalls.h",
        f"{place}/libseccomp.a",
        f"{place}/pkgconfig/libseccomp.pc",
    )


def compiler(arch: str) -> str:
    """The C compiler for an architecture, installed if it is that of other machines."""
    if arch == paths.arch():
        return "gcc"
    packages.CROSS[arch].ensure()
    return f"{TRIPLETS[arch]}-gcc"


def environment(arch: str, directory: Path) -> dict[str, str]:
    """What makes Go's build use the cross compiler and the libraries in a directory, and no others."""
    place = directory / "usr" / "lib" / TRIPLETS[arch]
    return {
        "CC": f"{TRIPLETS[arch]}-gcc",
        "CGO_CFLAGS": f"-O2 -I{directory}/usr/include",
        "CGO_LDFLAGS": f"-L{place}",
        "PKG_CONFIG_LIBDIR": f"{place}/pkgconfig",
        "PKG_CONFIG_SYSROOT_DIR": str(directory),
    }


def prepare(arch: str, directory: Path) -> dict[str, str]:
    """Put compiler and libraries in place; return the environment of Go's build."""
    compiler(arch)
    for name in members(arch):
        files.write(directory / name, rootfs.member(libraries(arch), name))
    return environment(arch, directory)
