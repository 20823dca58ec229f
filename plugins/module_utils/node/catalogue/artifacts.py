# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Artifacts: file, URL and sha256 of everything that is downloaded. Nothing is used unverified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from ..dataclass import dataclass
from ..errors import NotInCatalogue, VersionSkew
from .data import TABLE

if TYPE_CHECKING:
    from ..config.model import NodeConfig
    from ..config.types.values import Arch, Digest, Version

Digests = Mapping[str, Mapping[str, Mapping[str, str]]]  # artifact -> version -> architecture -> sha256
KUBERNETES = ("kubelet", "kubectl", "kubeadm")
OLDEST_KUBELET = 3  # minors a kubelet may be behind its API server

_GITHUB = "https://github.com/{}/releases/download/v{{version}}/"
_KUBERNETES_URL = "https://dl.k8s.io/release/v{version}/bin/linux/{arch}/"
UPSTREAM: Mapping[str, str] = {
    **{name: _KUBERNETES_URL + name for name in KUBERNETES},
    "containerd": _GITHUB.format("containerd/containerd") + "containerd-{version}-linux-{arch}.tar.gz",
    "runc": _GITHUB.format("opencontainers/runc") + "runc.{arch}",
    "cni-plugins": _GITHUB.format("containernetworking/plugins") + "cni-plugins-linux-{arch}-v{version}.tgz",
    "npd": _GITHUB.format("kubernetes/node-problem-detector")
    + "node-problem-detector-v{version}-linux_{arch}.tar.gz",
}


@dataclass(frozen=True)
class Artifact:
    """One file to download; `member` is the binary that is used from an archive with several."""

    name: str
    version: str
    arch: Arch
    url: str
    sha256: str
    kind: Literal["binary", "tar.gz", "wheel"]
    member: str = ""

    @property
    def file_name(self) -> str:
        """Return the file name: the last part of the URL."""
        return self.url.rpartition("/")[2].removeprefix("#")


def builtin_digests() -> dict[str, dict[str, dict[str, str]]]:
    """Return upstream's digests; parsed from text at each call, which is faster than importing a dict."""
    digests: dict[str, dict[str, dict[str, str]]] = {}
    for row in TABLE.split("\n"):
        if row:
            name, version, amd64, arm64 = row.split()
            found = {arch: value for arch, value in (("amd64", amd64), ("arm64", arm64)) if value != "-"}
            digests.setdefault(name, {})[version] = found
    return digests


class Catalogue:
    """Digests of known releases; a mirror's own digests replace upstream's for the artifacts it lists."""

    def __init__(self, own: Digests | None = None) -> None:
        self._digests: Digests = {**builtin_digests(), **(own or {})}

    def knows(self, name: str, version: str) -> bool:
        """Return whether a version has a digest for every architecture that the list has."""
        versions = self._digests.get(name, {})
        arches = {arch for digests in versions.values() for arch in digests}
        return version in versions and arches <= set(versions[version])

    def versions(self, name: str) -> list[str]:
        """Return the known versions of an artifact, oldest first."""
        return sorted(self._digests.get(name, {}), key=_numbers)

    def resolve(
        self,
        name: str,
        version: str,
        arch: Arch,
        *,
        sha256: str | None = None,
        mirror: str | None = None,
        url_template: str | None = None,
    ) -> Artifact:
        """Return the artifact; an explicit sha256 or URL takes precedence over catalogue and mirror."""
        if url_template:
            url = fill(url_template, version, arch)
        else:
            url = mirrored(fill(UPSTREAM[name], version, arch), mirror)
        digest = sha256 or self._digests.get(name, {}).get(version, {}).get(arch)
        if digest is None:
            near = self.nearest(name, version)
            raise NotInCatalogue(
                f"{name} {version} for {arch} is not in this collection's list of known versions",
                where=url,
                why=f"the nearest ones are {', '.join(near)}" if near else "none of its versions is there",
                fix=_ways_out(_section(name), bool(near)),
            )
        return Artifact(name, version, arch, url, digest, _kind(url))

    def nearest(self, name: str, version: str, count: int = 3) -> list[str]:
        """Return the known versions nearest to one: of the same minor if possible."""
        wanted = _numbers(version)

        def distance(known: str) -> tuple[int, ...]:
            return tuple(abs(a - b) for a, b in zip(_numbers(known), wanted, strict=False))

        return sorted(sorted(self.versions(name), key=distance)[:count], key=_numbers)


def artifacts_of(config: NodeConfig, arch: Arch) -> dict[str, Artifact]:
    """Return every artifact that a node needs; all unknown ones are named in one error."""
    catalogue, mirror = Catalogue(config.mirror.catalogue), config.mirror.url
    found = _kubernetes(config, catalogue, arch)
    wanted: list[tuple[str, Version | None, Digest | None, str | None]] = [
        ("containerd", config.containerd.version, config.containerd.sha256, None),
        ("runc", config.runc.version, config.runc.sha256, config.runc.url),
        ("cni-plugins", config.cni.version, config.cni.sha256, None),
        ("npd", config.npd.version, config.npd.sha256, config.npd.url),
    ]
    missing = [item for item in found.values() if isinstance(item, NotInCatalogue)]
    for name, version, digest, url in wanted:
        if version is None:
            continue
        sha256 = digest.of(arch) if digest else None
        try:
            found[name] = catalogue.resolve(
                name, str(version), arch, sha256=sha256, mirror=mirror, url_template=url
            )
        except NotInCatalogue as error:
            missing.append(error)
    if missing:
        fixes = {error.fix for error in missing}
        raise NotInCatalogue(
            "; ".join(dict.fromkeys(error.what for error in missing)),
            where=missing[0].where,
            why="; ".join(dict.fromkeys(error.why for error in missing)),
            fix=fixes.pop() if len(fixes) == 1 else "",
        )
    return {name: item for name, item in found.items() if isinstance(item, Artifact)}


def _kubernetes(config: NodeConfig, catalogue: Catalogue, arch: Arch) -> dict[str, Artifact | NotInCatalogue]:
    """Return kubelet, kubectl and kubeadm: three files, or three members of one node tarball."""
    kubernetes, version = config.kubernetes, str(config.kubernetes.version)
    tarball, template = kubernetes.sha256.get("tarball"), kubernetes.url_template
    found: dict[str, Artifact | NotInCatalogue] = {}
    for name in KUBERNETES:
        if tarball and template:
            url, sha256 = fill(template, version, arch), tarball.of(arch)
            found[name] = (
                Artifact(name, version, arch, url, sha256, "tar.gz", f"kubernetes/node/bin/{name}")
                if sha256
                else NotInCatalogue(f"the node tarball {version} has no sha256 for {arch}", where=url)
            )
            continue
        digest = kubernetes.sha256.get(name)
        try:
            found[name] = catalogue.resolve(
                name,
                version,
                arch,
                sha256=digest.of(arch) if digest else None,
                mirror=config.mirror.url,
                url_template=f"{template}/{name}" if template else None,
            )
        except NotInCatalogue as error:
            found[name] = error
    return found if any(isinstance(item, Artifact) for item in found.values()) else _as_one(found, version)


def _as_one(
    missing: Mapping[str, Artifact | NotInCatalogue], version: str
) -> dict[str, Artifact | NotInCatalogue]:
    """Return one sentence for files of one version that are all unknown."""
    first = next(item for item in missing.values() if isinstance(item, NotInCatalogue))
    what = first.what.replace(f"{KUBERNETES[0]} {version}", f"Kubernetes {version} ({', '.join(KUBERNETES)})")
    return dict.fromkeys(missing, NotInCatalogue(what, where=first.where, why=first.why, fix=first.fix))


def fill(template: str, version: str, arch: Arch) -> str:
    """Return a URL from a template: {version} and {arch}, or the first %s and the second."""
    by_position = template.replace("%s", version, 1).replace("%s", arch, 1)
    return by_position.replace("{version}", version).replace("{arch}", arch)


def mirrored(url: str, mirror: str | None) -> str:
    """Return the URL of upstream's file on a mirror: its base, then upstream's host and path."""
    return f"{mirror.rstrip('/')}/{url.partition('://')[2]}" if mirror else url


def skew(kubelet: Version, api_server: Version) -> VersionSkew | None:
    """Return the error of an unsupported version skew between kubelet and API server; None: supported."""
    behind = api_server.minor - kubelet.minor
    if kubelet.major == api_server.major and 0 <= behind <= OLDEST_KUBELET:
        return None
    newer = kubelet.line > api_server.line
    return VersionSkew(
        f"kubelet {kubelet} is not supported by API server {api_server}",
        where="kubernetes.version",
        why="it is newer" if newer else f"it is more than {OLDEST_KUBELET} minors older",
        fix=f"choose a kubelet {api_server.major}.{max(api_server.minor - OLDEST_KUBELET, 0)} "
        f"to {api_server.major}.{api_server.minor}",
    )


def _ways_out(section: str, near: bool) -> str:
    """What to do about a version that is not known."""
    choose = f"set {section}.version to one of these, " if near else ""
    several = f"{{{', '.join(f'{name}: SHA256' for name in KUBERNETES)}}}"
    sums = several if section == "kubernetes" else "its SHA-256 checksum"
    return f"{choose}upgrade the aks.flexnode collection, or set {section}.sha256 to {sums}"


def _section(name: str) -> str:
    """The section of the document with the version of an artifact."""
    return "kubernetes" if name in KUBERNETES else name.removesuffix("-plugins")


def _kind(url: str) -> Literal["binary", "tar.gz"]:
    return "tar.gz" if url.endswith((".tar.gz", ".tgz")) else "binary"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
