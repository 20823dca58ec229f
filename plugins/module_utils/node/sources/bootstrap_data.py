# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bootstrap data of a FlexNodes pool (listBootstrapData) as a document. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..config.sections.azure import CLOUDS
from .errors import BootstrapDataUnusable
from .machines import own_labels, own_taints
from .pool_versions import COMPONENTS

# What is read; a later version of the API may have more.
KNOWN: Mapping[str, Any] = {
    "azure": {
        "resourceManagerEndpoint": None,
        "tenantId": None,  # of early versions, as is cloud
        "cloud": None,
        "targetCluster": {"resourceId": None},
        "targetAgentPoolName": None,
        "bootstrapToken": {"token": None},
    },
    "components": {"kubernetes": None, "containerd": None, "runc": None},
    "networking": {"dnsServiceIP": None, "cniVersion": None},
    "node": {
        "maxPods": None,
        "labels": None,
        "taints": None,
        "kubelet": {"clusterFQDN": None, "caCertData": None},
    },
}
# Nothing else in the world says these.
NEEDED = (
    "azure.bootstrapToken.token",
    "components.kubernetes",
    "node.kubelet.clusterFQDN",
    "node.kubelet.caCertData",
)


def document_from(
    data: Mapping[str, Any], *, cluster: str = "", pool: str = ""
) -> tuple[dict[str, Any], list[str]]:
    """A document of the bootstrap data of a pool, and notes for the user. It has all versions of the pool.

    cluster, pool: what was asked for; data about another pool is refused.
    """
    missing = [path for path in NEEDED if not _at(data, path)]
    if missing:
        raise BootstrapDataUnusable(
            "the bootstrap data of the pool is incomplete",
            where=pool or str(_at(data, "azure.targetAgentPoolName") or ""),
            why=f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
        )
    document = {
        "azure": _azure(data, cluster, pool),
        "kubernetes": {"version": str(_at(data, "components.kubernetes")).removeprefix("v")},
        "node": _node(data),
    }
    for one in COMPONENTS:
        if version := str(_at(data, one.path) or "").removeprefix("v"):
            document[one.section] = {"version": version}
    notes = []
    cloud = _at(data, "azure.cloud")
    if cloud and cloud not in CLOUDS:
        notes.append(f"the bootstrap data names the cloud {cloud}, which is not known: it is not used")
    if unknown := sorted(_unknown(data, KNOWN)):
        notes.append(f"the bootstrap data has fields that are not used: {', '.join(unknown)}")
    return document, notes


def _azure(data: Mapping[str, Any], cluster: str, pool: str) -> dict[str, Any]:
    found_cluster = str(_at(data, "azure.targetCluster.resourceId") or cluster)
    found_pool = str(_at(data, "azure.targetAgentPoolName") or pool)
    for asked, found in ((cluster, found_cluster), (pool, found_pool)):
        if asked and asked.rstrip("/").lower() != found.rstrip("/").lower():
            raise BootstrapDataUnusable(
                "the bootstrap data is about something else", where=asked, why=f"it names {found}"
            )
    cloud = _at(data, "azure.cloud")
    optional = {
        "resourceManagerEndpoint": _at(data, "azure.resourceManagerEndpoint"),
        "tenantId": _at(data, "azure.tenantId"),
        "cloud": cloud if cloud in CLOUDS else None,
    }
    return {
        **{key: value for key, value in optional.items() if value},
        "targetCluster": {"resourceId": found_cluster},
        "targetAgentPoolName": found_pool,
        "bootstrapToken": {"token": _at(data, "azure.bootstrapToken.token")},
    }


def _node(data: Mapping[str, Any]) -> dict[str, Any]:
    max_pods, dns = _at(data, "node.maxPods"), _at(data, "networking.dnsServiceIP")
    return {
        **({"maxPods": max_pods} if max_pods else {}),
        "labels": own_labels(_at(data, "node.labels")),
        "taints": list(own_taints(_at(data, "node.taints") or ())),
        "kubelet": {
            **({"dnsServiceIP": dns} if dns else {}),
            "serverURL": server_url(str(_at(data, "node.kubelet.clusterFQDN"))),
            "caCertData": _at(data, "node.kubelet.caCertData"),
        },
    }


def server_url(fqdn: str) -> str:
    """The URL of the API server; the service returns a bare host name."""
    if "://" in fqdn:
        return fqdn
    return f"https://{fqdn}" if ":" in fqdn else f"https://{fqdn}:443"


def _at(data: Mapping[str, Any], path: str) -> Any:
    found: Any = data
    for key in path.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _unknown(data: Mapping[str, Any], known: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in data.items():
        if key not in known:
            yield f"{above}{key}"
        elif isinstance(known[key], Mapping) and isinstance(value, Mapping):
            yield from _unknown(value, known[key], f"{above}{key}.")
