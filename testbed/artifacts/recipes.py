# SPDX-License-Identifier: GPL-3.0-or-later
"""What the testbed can serve: upstream's file names and the Go modules they are built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.basics.errors import TestbedError

BUILDS = Path(__file__).resolve().parent.parent / "builds"


@dataclass(frozen=True)
class Source:
    """A Go module, its programs (name -> package below the module) and how they are stamped."""

    name: str
    module: str
    programs: Mapping[str, str]
    stamps: tuple[str, ...]
    tags: tuple[str, ...] = ()
    cgo: bool = False
    main: Path | None = None
    """A main package of ours around the module's own code; its directory has the name of the program."""

    def module_path(self, version: str) -> str:
        """The module's import path: Go adds the major version from 2 on."""
        major = int(version.split(".")[0])
        return self.module if major < 2 else f"{self.module}/v{major}"

    def package(self, program: str, version: str) -> str:
        """The import path of one program."""
        if self.main:
            return f"./{program}"
        return "/".join(part for part in (self.module_path(version), self.programs[program]) if part)

    def built(self, program: str) -> str:
        """The file that a build makes of one program: Go names it after its package."""
        return self.programs[program].rpartition("/")[2] or program

    def ldflags(self, version: str) -> str:
        """Linker flags that stamp the version and leave out symbol tables."""
        major, minor = version.split(".")[:2]
        words = {"version": version, "major": major, "minor": minor, "module": self.module_path(version)}
        flags = ["-s", "-w", "-buildid=", *(f"-X {stamp.format(**words)}" for stamp in self.stamps)]
        if self.cgo:
            flags.append("-linkmode external -extldflags -static")
        return " ".join(flags)


@dataclass(frozen=True)
class Artifact:
    """One file of the mirror, at upstream's own place."""

    name: str
    source: Source
    upstream: str
    programs: tuple[str, ...]
    member: str | None = None
    """Where a program lies inside the tarball; None when the file is the program itself."""
    node: bool = True
    """Whether nodes download it (then only the catalogue's digest counts)."""

    def path(self, version: str, arch: str) -> str:
        """Upstream's host and path, which is also the path below the mirror's URL."""
        return self.upstream.format(version=version, arch=arch)


KUBERNETES = Source(
    name="kubernetes",
    module="k8s.io/kubernetes",
    programs={
        name: f"cmd/{name}"
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kube-proxy",
            "kubelet",
            "kubectl",
            "kubeadm",
        )
    },
    stamps=(
        "k8s.io/component-base/version.gitVersion=v{version}",
        "k8s.io/component-base/version.gitMajor={major}",
        "k8s.io/component-base/version.gitMinor={minor}",
    ),
)
CONTAINERD = Source(
    name="containerd",
    module="github.com/containerd/containerd",
    programs={name: f"cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
    stamps=("{module}/version.Version=v{version}",),
)
RUNC = Source(
    name="runc",
    module="github.com/opencontainers/runc",
    programs={"runc": ""},
    stamps=("main.version={version}",),
    tags=("seccomp", "netgo", "osusergo"),
    cgo=True,
)
CNI_PLUGINS = Source(
    name="cni-plugins",
    module="github.com/containernetworking/plugins",
    programs={
        name: f"plugins/{group}/{name}"
        for group, names in {
            "ipam": ("dhcp", "host-local", "static"),
            "main": ("bridge", "dummy", "host-device", "ipvlan", "loopback", "macvlan", "ptp", "tap", "vlan"),
            "meta": ("bandwidth", "firewall", "portmap", "sbr", "tuning", "vrf"),
        }.items()
        for name in names
    },
    stamps=("github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=v{version}",),
)
COREDNS = Source(
    name="coredns",
    module="github.com/coredns/coredns",
    programs={"coredns": ""},
    # Upstream's way to choose plugins. Those that no cluster here uses bring the SDKs of three clouds.
    main=BUILDS / "coredns" / "main.go",
    stamps=(),  # its version is a constant of its source
)

NPD = Source(
    name="npd",
    module="k8s.io/node-problem-detector",
    programs={"node-problem-detector": "cmd/nodeproblemdetector", "health-checker": "cmd/healthchecker"},
    stamps=("k8s.io/node-problem-detector/pkg/version.version=v{version}",),
    # Without upstream's tag journald, which needs libsystemd's headers; nodes use no monitor of that kind.
    tags=("disable_stackdriver_exporter",),
)

ARTIFACTS: dict[str, Artifact] = {
    **{
        name: Artifact(
            name=name,
            source=KUBERNETES,
            upstream=f"dl.k8s.io/release/v{{version}}/bin/linux/{{arch}}/{name}",
            programs=(name,),
            node=name in ("kubelet", "kubectl", "kubeadm"),
        )
        for name in KUBERNETES.programs
    },
    "containerd": Artifact(
        name="containerd",
        source=CONTAINERD,
        upstream="github.com/containerd/containerd/releases/download/v{version}/"
        "containerd-{version}-linux-{arch}.tar.gz",
        programs=tuple(CONTAINERD.programs),
        member="bin/{}",
    ),
    "runc": Artifact(
        name="runc",
        source=RUNC,
        upstream="github.com/opencontainers/runc/releases/download/v{version}/runc.{arch}",
        programs=("runc",),
    ),
    "cni-plugins": Artifact(
        name="cni-plugins",
        source=CNI_PLUGINS,
        upstream="github.com/containernetworking/plugins/releases/download/v{version}/"
        "cni-plugins-linux-{arch}-v{version}.tgz",
        programs=tuple(CNI_PLUGINS.programs),
        member="./{}",
    ),
    "npd": Artifact(
        name="npd",
        source=NPD,
        upstream="github.com/kubernetes/node-problem-detector/releases/download/v{version}/"
        "node-problem-detector-v{version}-linux_{arch}.tar.gz",
        programs=tuple(NPD.programs),
        member="bin/{}",
    ),
    "coredns": Artifact(
        name="coredns",
        source=COREDNS,
        upstream="github.com/coredns/coredns/releases/download/v{version}/coredns_{version}_linux_{arch}.tgz",
        programs=("coredns",),
        member="{}",
        node=False,
    ),
}


def artifact(name: str) -> Artifact:
    """The artifact of that name."""
    if name not in ARTIFACTS:
        raise TestbedError(f"artifact {name!r} is unknown: choose one of {', '.join(ARTIFACTS)}")
    return ARTIFACTS[name]
