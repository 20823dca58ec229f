# SPDX-License-Identifier: GPL-3.0-or-later
"""listBootstrapData: what the machines of a pool join with."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from testbed.azure.pools.store import Pool
from testbed.azure.serving.place import Place
from testbed.layout import versions
from testbed.layout.identifiers import TENANT_ID

# Values of the setting bootstrap_data_patch, for what real answers were seen with, or may have one day.
OLD_AZURE = {"azure": {"resourceManagerEndpoint": None, "tenantId": TENANT_ID, "cloud": "AzurePublicCloud"}}
"""The shape before resourceManagerEndpoint."""
UNKNOWN_KEYS = {
    "bootstrap": {"ociImage": "mcr.example/flex-node:0.2.0", "offlineArtifacts": {"source": "none"}},
    "node": {"kubelet": {"somethingNew": True}, "zone": "1"},
}
"""Keys that the published schema does not have; the first block is in Microsoft's own sample."""
HTTPS = 443


def data(place: Place, pool: Pool, version: str, token: str, patch: Mapping[str, Any]) -> dict[str, Any]:
    """The whole answer; version is the pool's, in full."""
    kubernetes, properties = place.kubernetes, pool.properties
    node: dict[str, Any] = {
        "maxPods": properties["maxPods"],
        "labels": dict(properties.get("nodeLabels", {})),
        "taints": list(properties.get("nodeTaints", [])),
        "kubelet": {
            "clusterFQDN": _host(kubernetes.server),
            "caCertData": base64.b64encode(kubernetes.ca_pem.encode()).decode(),
        },
    }
    answer = {
        "azure": {
            "resourceManagerEndpoint": place.origin,
            "targetCluster": {"resourceId": place.cluster_id},
            "targetAgentPoolName": pool.name,
            "bootstrapToken": {"token": token},
        },
        "components": {
            "kubernetes": version,
            "containerd": versions.CONTAINERD,
            "runc": versions.RUNC,
        },
        "networking": {"dnsServiceIP": kubernetes.dns_service_ip, "cniVersion": versions.CNI_PLUGINS},
        "node": node,
    }
    merged: dict[str, Any] = merge(answer, patch)
    return merged


def _host(server: str) -> str:
    """Without a scheme; the port only where it is not the usual one, which AKS never needs."""
    parts = urlsplit(server)
    return parts.netloc if parts.port not in (None, HTTPS) else str(parts.hostname)


def merge(content: Any, patch: Any) -> Any:
    """JSON merge patch (RFC 7396)."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(content) if isinstance(content, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge(merged.get(name), value)
    return merged
