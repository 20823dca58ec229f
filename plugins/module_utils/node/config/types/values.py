# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Value objects, parsed once: versions, ARM ids, taints, digests, certificates."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import Literal

from ...dataclass import dataclass

Arch = Literal["amd64", "arm64"]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
ARCHES: tuple[Arch, ...] = ("amd64", "arm64")
EFFECTS: tuple[Effect, ...] = ("NoSchedule", "PreferNoSchedule", "NoExecute")

_NUMBERS = r"v?(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})\.(0|[1-9]\d{0,4})"
_GUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CLUSTER_ID = (
    rf"/subscriptions/({_GUID})/resourcegroups/([^/]{{1,90}})"
    r"/providers/microsoft\.containerservice/managedclusters/([^/]+)/?"
)
_CLUSTER_NAME = r"[A-Za-z0-9]([\w-]{0,61}[A-Za-z0-9])?"
RESOURCE_GROUP = r"[\w().-]{0,89}[\w()-]"


@dataclass(frozen=True, order=True)
class Version:
    """A release x.y.z; compares by number, prints without a v."""

    major: int
    minor: int
    patch: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Read x.y.z or vx.y.z, nothing more."""
        found = re.fullmatch(_NUMBERS, text)
        if not found:
            raise ValueError("a release has three numbers, such as 1.34.4")
        return cls(*map(int, found.groups()))

    @classmethod
    def of_build(cls, text: str) -> Version:
        """Read the release from a reported version, such as v1.34.4-hotfix.20260101 or v1.34.4+k3s1."""
        found = re.match(_NUMBERS + r"(?![\d.])", text)
        if not found:
            raise ValueError(f"{text!r} does not begin with a release such as v1.34.4")
        return cls(*map(int, found.groups()))

    @property
    def line(self) -> tuple[int, int]:
        """Return (major, minor), for skew rules and drains."""
        return (self.major, self.minor)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


@dataclass(frozen=True, eq=False)
class ArmId:
    """The ARM id of a managed cluster; case-insensitive, as in ARM."""

    subscription_id: str
    resource_group: str
    name: str

    @classmethod
    def parse(cls, text: str) -> ArmId:
        """Read an id in any letter case."""
        found = re.fullmatch(_CLUSTER_ID, text, re.IGNORECASE)
        if not found:
            raise ValueError("it is not the id of an AKS cluster, as az aks show --query id shows it")
        subscription, group, name = found.groups()
        if not re.fullmatch(RESOURCE_GROUP, group) or not re.fullmatch(_CLUSTER_NAME, name, re.ASCII):
            raise ValueError("Azure does not allow this resource group or cluster name")
        return cls(subscription.lower(), group, name)

    def canonical(self) -> str:
        """Return the id in ARM's own spelling."""
        return (
            f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"
            f"/providers/Microsoft.ContainerService/managedClusters/{self.name}"
        )

    __str__ = canonical

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArmId):
            return NotImplemented
        return self.canonical().lower() == other.canonical().lower()

    def __hash__(self) -> int:
        return hash(self.canonical().lower())


@dataclass(frozen=True, order=True)
class Taint:
    """A taint of a Node."""

    key: str
    value: str
    effect: Effect

    def __str__(self) -> str:
        """Return the form of kubectl and --register-with-taints."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True)
class Digest:
    """The sha256 of an artifact by architecture; a single digest counts for both."""

    amd64: str | None
    arm64: str | None

    def of(self, arch: Arch) -> str | None:
        """Return the digest for an architecture, if known."""
        return self.amd64 if arch == "amd64" else self.arm64


@dataclass(frozen=True)
class Certificates:
    """One or more CA certificates, in PEM."""

    pem: str

    @property
    def base64(self) -> str:
        """Return them as kubeconfig's certificate-authority-data."""
        return b64encode(self.pem.encode()).decode()


@dataclass(frozen=True)
class RegistryMirror:
    """The mirrors of one image registry."""

    endpoints: tuple[str, ...]
    ca_cert: Certificates | None = None


@dataclass(frozen=True)
class ApiServer:
    """URL and CA of the API server."""

    url: str
    ca: Certificates
