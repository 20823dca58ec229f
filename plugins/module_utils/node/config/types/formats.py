# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Kinds for Azure names, versions, digests, quantities, mirrors."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..pool import POOL_PATTERN
from .addresses import https_url, pem
from .kinds import kind, list_of, map_of, matching, parsed, secret, text
from .setting import Kind, Refused
from .values import ARCHES, RESOURCE_GROUP, ArmId, Digest, RegistryMirror, Version

ARTIFACTS = ("kubelet", "kubectl", "kubeadm", "containerd", "runc", "cni-plugins", "npd")
KUBERNETES_BINARIES = ("kubelet", "kubectl", "kubeadm")
_DNS_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
DNS_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"

arm_id = parsed(
    "/subscriptions/GUID/resourceGroups/NAME/providers/Microsoft.ContainerService/managedClusters/NAME",
    ArmId.parse,
)
resource_group = matching(
    "a resource group: 1-90 letters, digits, _ ( ) - . and no . at the end", RESOURCE_GROUP
)
machine_name = matching("an Arc machine name: 1-54 letters, digits, _ - .", r"[A-Za-z0-9_.-]{1,54}")
pool_name = matching("a pool name: 1-12 lower-case letters and digits, a letter first", POOL_PATTERN)
machines_api_version = matching(
    "a version of Azure's API such as 2026-05-02-preview", r"\d{4}-\d{2}-\d{2}(-preview)?"
)
dns_name = matching(
    "a DNS-1123 name: lower-case letters, digits, - and ., at most 253", DNS_SUBDOMAIN, limit=253
)
bootstrap_token = secret(
    matching("a bootstrap token such as abcdef.0123456789abcdef", r"[a-z0-9]{6}\.[a-z0-9]{16}")
)
secret_text = secret(text)
tags = map_of(
    "a mapping of at most 50 tags, names up to 512 characters, values up to 256",
    matching("a tag value: text up to 256 characters", r"(?s).*", limit=256),
    name=matching(r"a tag name: up to 512 characters, none of < > % & \ ? /", r"[^<>%&\\?/]+", limit=512),
)


def _guid(raw: str) -> str:
    folded = raw.lower()
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", folded):
        raise ValueError("")
    return folded


guid = parsed("a GUID such as 11111111-2222-3333-4444-555555555555", _guid)


def _location(raw: str) -> str:
    # "West Europe", as the portal shows it, is westeurope to the API.
    folded = raw.replace(" ", "").lower()
    if not re.fullmatch(r"[a-z][a-z0-9]{1,49}", folded):
        raise ValueError("")
    return folded


location = parsed("an Azure region such as westeurope", _location)

version = parsed("a release x.y.z", Version.parse)
_hex_digest = matching("a sha256: 64 hexadecimal digits", r"[0-9a-f]{64}")


def _containerd(raw: str) -> Version:
    found = Version.parse(raw)
    if found < Version(1, 7, 0) or found.major > 2:
        raise ValueError("only containerd 1.7 and 2.x are supported")
    return found


containerd_version = parsed("a release 1.7.z or 2.y.z", _containerd)


def _read_digest(raw: object) -> Digest | None:
    by_arch = dict.fromkeys(ARCHES, raw) if isinstance(raw, str) else raw
    if not isinstance(by_arch, Mapping) or not by_arch or set(by_arch) - set(ARCHES):
        return None
    hashes = {arch: str(value).lower() for arch, value in by_arch.items()}
    if not all(re.fullmatch(r"[0-9a-f]{64}", value) for value in hashes.values()):
        return None
    return Digest(hashes.get("amd64"), hashes.get("arm64"))


digest = kind("a sha256 (64 hexadecimal digits), or {amd64: ..., arm64: ...}", _read_digest)


def _read_kubernetes_digests(raw: object) -> Mapping[str, Digest]:
    # A single digest is that of the node tarball; a mapping names the three binaries.
    by_program = isinstance(raw, Mapping) and raw and not set(raw) - set(KUBERNETES_BINARIES)
    return _programs.read(raw) if by_program else {"tarball": _tarball.read(raw)}


_programs = map_of("a mapping", digest)
_tarball = kind("{kubelet, kubectl, kubeadm: sha256 each}, or one sha256 for a node tarball", _read_digest)
kubernetes_digests = Kind(_tarball.accepts, _read_kubernetes_digests)
own_catalogue = map_of(
    "a mapping: artifact -> version -> architecture -> sha256",
    map_of(
        "version -> architecture -> sha256",
        map_of("amd64 | arm64 -> sha256", _hex_digest, name=matching("amd64 | arm64", "amd64|arm64")),
        name=matching("a release x.y.z", r"\d+\.\d+\.\d+"),
    ),
    name=matching(" | ".join(ARTIFACTS), "|".join(ARTIFACTS)),
)

_QUANTITY = r"\d+(\.\d+)?(m|k|[KMGTPE]i?)?"


def _quantity(accepts: str, pattern: str) -> Kind[str]:
    """Return a Kind of quantities; plain numbers are accepted, the kubelet needs text."""

    def read(raw: object) -> str | None:
        written = str(raw) if isinstance(raw, (str, int)) and not isinstance(raw, bool) else ""
        return written if re.fullmatch(pattern, written) else None

    return kind(accepts, read)


quantities = map_of(
    "a mapping of cpu, memory, ephemeral-storage, pid to quantities",
    _quantity("a quantity such as 100m or 1Gi", _QUANTITY),
    name=matching("cpu | memory | ephemeral-storage | pid", "cpu|memory|ephemeral-storage|pid"),
)
thresholds = map_of(
    "a mapping of eviction signals to quantities or percentages",
    _quantity("a quantity such as 100Mi, or a percentage such as 10%", _QUANTITY + r"|\d{1,2}(\.\d+)?%"),
    name=matching(
        "memory.available | nodefs.available | nodefs.inodesFree | imagefs.available | imagefs.inodesFree | "
        "pid.available",
        r"(memory|nodefs|imagefs|pid)\.available|(nodefs|imagefs)\.inodesFree",
    ),
)

_endpoints = list_of(https_url)


def _read_registry_mirror(raw: object) -> RegistryMirror:
    if not isinstance(raw, Mapping) or set(raw) - {"endpoints", "caCert"} or not raw.get("endpoints"):
        raise _mirror.refuse(raw)
    try:
        endpoints = _endpoints.read(raw["endpoints"])
    except Refused as refused:
        raise Refused(*refused.under("endpoints")) from None
    try:
        ca_cert = None if raw.get("caCert") is None else pem.read(raw["caCert"])
    except Refused as refused:
        raise Refused(*refused.under("caCert")) from None
    return RegistryMirror(endpoints, ca_cert)


_mirror = Kind("{endpoints: [https URLs], caCert: PEM (optional)}", _read_registry_mirror)
registry_mirrors = map_of(
    "a mapping: registry host -> {endpoints, caCert}",
    _mirror,
    name=matching(
        "a registry HOST[:PORT] such as docker.io, or _default", rf"_default|{DNS_SUBDOMAIN}(:\d{{1,5}})?"
    ),
)
