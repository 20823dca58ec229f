# SPDX-License-Identifier: GPL-3.0-or-later
"""The two images pods use here: pause, and busybox as a workload."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from testbed.artifacts import cross
from testbed.artifacts.archive import Entry, tar_bytes
from testbed.basics import files, paths
from testbed.basics.process import run
from testbed.images import recipes, rootfs
from testbed.images.oci import Image

PAUSE_SOURCE = Path(__file__).resolve().parent.parent / "builds" / "pause" / "pause.c"
APPLETS = (
    "sh",
    "cat",
    "echo",
    "httpd",
    "id",
    "ls",
    "nc",
    "nslookup",
    "ping",
    "ps",
    "sleep",
    "wget",
    "hostname",
    "ip",
)
PAUSE = ("pause", "3.10")
WORKLOAD = ("busybox", "1.0")
USER_DATABASE = b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"


def pause(arch: str) -> Image:
    """The image that holds a pod's namespaces."""
    layer = tar_bytes({"pause": Entry(_pause_program(arch).read_bytes(), 0o755)})
    return Image(*PAUSE, layer, entrypoint=("/pause",), user="65535:65535", arch=arch)


def workload(arch: str) -> Image:
    """A shell and small tools, enough for logs, exec and name resolution."""
    # The services of this machine have the same program, and their files are always there.
    origin = recipes.SERVICES if arch == paths.arch() else recipes.BUSYBOX.of(arch)
    busybox = rootfs.member(origin, "bin/busybox", "usr/bin/busybox")
    members = {
        "bin/busybox": Entry(busybox, 0o755),
        **{f"bin/{name}": Entry("/bin/busybox") for name in APPLETS},
        "etc/passwd": Entry(USER_DATABASE),
        "tmp": Entry(None, 0o1777),
    }
    return Image(*WORKLOAD, tar_bytes(members), entrypoint=(), command=("sh",), arch=arch)


def _pause_program(arch: str) -> Path:
    digest = hashlib.sha256(PAUSE_SOURCE.read_bytes()).hexdigest()[:12]
    program = paths.cache() / "images" / f"pause-{digest}-{arch}"
    if not program.is_file():
        compiler = cross.compiler(arch)
        with files.lock(paths.cache() / "locks" / f"pause-{arch}"), tempfile.TemporaryDirectory() as name:
            built = Path(name) / "pause"
            run([compiler, "-Os", "-static", "-s", "-Wall", "-Werror", "-o", built, PAUSE_SOURCE])
            files.write(program, built.read_bytes(), 0o755)
    return program
