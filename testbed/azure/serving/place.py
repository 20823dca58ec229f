# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the emulated Azure is and what it stands for: written by the testbed, read by the server."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "place.json"


@dataclass(frozen=True)
class Kubernetes:
    """What Azure knows about the cluster."""

    version: str
    server: str
    ca_pem: str
    service_cidr: str
    pod_cidr: str
    dns_service_ip: str


@dataclass(frozen=True)
class BlobAccount:
    """The storage account of the resource provider."""

    url: str
    name: str
    key: str


@dataclass(frozen=True)
class Place:
    """One subscription with one cluster."""

    origin: str
    tenant_id: str
    subscription_id: str
    cluster_id: str
    location: str
    node_resource_group: str
    control_key: str
    """What opens /_testbed/."""
    kubernetes: Kubernetes
    blob: BlobAccount

    @property
    def cluster_name(self) -> str:
        """The last part of its id."""
        return self.cluster_id.rpartition("/")[2]

    @property
    def resource_group(self) -> str:
        """The cluster's resource group."""
        return self.cluster_id.split("/")[4]

    def text(self) -> str:
        """The file's content."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def load(cls, directory: Path) -> Place:
        """Read it back."""
        record = json.loads((directory / FILE).read_text(encoding="utf-8"))
        kubernetes, blob = Kubernetes(**record.pop("kubernetes")), BlobAccount(**record.pop("blob"))
        return cls(kubernetes=kubernetes, blob=blob, **record)
