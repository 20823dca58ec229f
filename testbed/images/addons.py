# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of what a cluster brings to its nodes: kube-proxy and CoreDNS."""

from __future__ import annotations

import io
import tarfile

from testbed.artifacts import store
from testbed.artifacts.archive import Entry, tar_bytes
from testbed.artifacts.store import Stored
from testbed.basics.errors import TestbedError
from testbed.images import recipes, rootfs
from testbed.images.oci import Image
from testbed.images.packed import Packed, packed
from testbed.images.rootfs import Recipe
from testbed.layout import versions

COREDNS = ("coredns", versions.COREDNS)
LEFT_OUT = ("usr/share/", "lib/systemd/", "var/", "dev/", "etc/nftables.conf")
"""What no program needs to run."""


def ensure(kubernetes: str, arch: str) -> None:
    """Pack both if needed."""
    kube_proxy(kubernetes, arch)
    coredns(arch)


def kube_proxy_name(kubernetes: str) -> tuple[str, str]:
    """Repository and tag of kube-proxy's image."""
    return "kube-proxy", f"v{kubernetes}"


def kube_proxy(kubernetes: str, arch: str) -> Packed:
    """kube-proxy and nft, by which it makes Services work."""
    name = kube_proxy_name(kubernetes)
    program = _stored("kube-proxy", kubernetes, arch)
    tools = recipes.KUBE_PROXY.of(arch)

    def make() -> Image:
        rootfs.ensure_tar(tools)
        layer = _with_tools(Entry(program.file.read_bytes(), 0o755), tools)
        return Image(*name, layer, entrypoint=("/usr/local/bin/kube-proxy",), arch=arch)

    return packed(*name, arch, (program.sha256, tools.digest()), make)


def coredns(arch: str) -> Packed:
    """CoreDNS alone: it is one static program."""
    archive = _stored("coredns", versions.COREDNS, arch)

    def make() -> Image:
        with tarfile.open(archive.file) as content:
            program = content.extractfile("coredns")
            if program is None:
                raise TestbedError(f"{archive.file} holds no program: remove it and run again")
            layer = tar_bytes({"coredns": Entry(program.read(), 0o755)})
        return Image(*COREDNS, layer, entrypoint=("/coredns",), arch=arch)

    return packed(*COREDNS, arch, (archive.sha256,), make)


def _stored(name: str, version: str, arch: str) -> Stored:
    found = store.find(name, version, arch)
    if found is None:
        raise TestbedError(f"{name} {version} for {arch} is not in the cache: run 'python -m testbed up'")
    return found


def _with_tools(program: Entry, tools: Recipe) -> bytes:
    """A layer with kube-proxy's tools from Debian and kube-proxy itself."""
    buffer = io.BytesIO(tar_bytes({"usr/local/bin/kube-proxy": program}))
    with (
        tarfile.open(fileobj=buffer, mode="a", format=tarfile.GNU_FORMAT) as layer,
        tarfile.open(tools.tar) as origin,
    ):
        for entry in origin:
            entry.name = entry.name.removeprefix("./")
            if entry.name.startswith(LEFT_OUT) or not (entry.isreg() or entry.issym()):
                continue
            layer.addfile(entry, origin.extractfile(entry) if entry.isreg() else None)
    return buffer.getvalue()
