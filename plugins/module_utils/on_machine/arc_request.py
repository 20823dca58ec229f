# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a configuration document asks of Azure Arc. Pure, used on the controller and on the machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..node.config.choices import choices_of
from ..node.config.document import as_read, merge
from ..node.config.early import early_form
from ..node.config.types.values import ArmId
from ..node.procedures.arc.roles import needed
from ..node.secret import REDACTED

Document = Mapping[str, Any]


def arc_request(document: Document, cluster_id: str = "", name: str = "") -> dict[str, Any]:
    """The options of a registration; what the document leaves out is the cluster's."""
    whole = as_read(merge(early_form(document), {}))
    azure, choices = _section(whole, "azure"), choices_of(whole)
    arc, cluster = _section(azure, "arc"), _section(azure, "targetCluster")
    serves = {"azure": choices.azure_method, "kubernetes": choices.kubelet_method}
    purposes = tuple(name for name, method in serves.items() if method == "arc")
    # The kubelet's profile matters here only where its identity is Arc's.
    by_token = _section(whole, "kubernetesAuth").get("profile") == "token" and "kubernetes" in purposes
    profile = "token" if by_token else "certificate"
    target = cluster.get("resourceId") or cluster_id
    try:
        home: ArmId | None = ArmId.parse(str(target))
    except ValueError:
        home = None  # refused by the document's own checks, with its path
    principal = _section(azure, "servicePrincipal")
    # The same for its access to the cluster.
    kubelet = _section(_section(whole, "node"), "kubelet") if "kubernetes" in purposes else {}
    pool = str(azure.get("targetAgentPoolName") or "")
    directories = _section(_section(whole, "paths"), "kubernetes")
    return {
        "enabled": choices.arc,
        "assign_roles": arc.get("autoRoleAssignment") is True,
        "node": _section(whole, "agent").get("nodeName") or name,
        "cluster_id": home.canonical() if home else "",
        "subscription_id": azure.get("subscriptionId") or (home.subscription_id if home else ""),
        "resource_group": arc.get("resourceGroup") or (home.resource_group if home else ""),
        "machine_name": arc.get("machineName") or "",
        "location": arc.get("location") or cluster.get("location") or "",
        "tenant_id": azure.get("tenantId") or principal.get("clientTenant") or "",
        "cloud": azure.get("cloud") or "AzurePublicCloud",
        "resource_manager_endpoint": azure.get("resourceManagerEndpoint") or "",
        "tags": dict(_section(arc, "tags")),
        "ca_cert": _section(whole, "mirror").get("caCert") or "",
        "profile": profile,
        "kubelet": "kubernetes" in purposes,
        "server_url": kubelet.get("serverURL") or "",
        "ca_cert_data": kubelet.get("caCertData") or "",
        "kubelet_dir": directories.get("kubeletDir") or "",
        "pool": pool,
        "roles": list(
            needed(
                profile,
                monitored=whole.get("continuousMonitoring") is True,
                purposes=purposes,
                pool=bool(pool),
            )
        ),
    }


def arc_proxy(document: Document) -> str:
    """The proxy of a document; empty where only a placeholder stands for one with a password."""
    proxy = _section(document, "proxy")
    url = str(proxy.get("https") or proxy.get("http") or "")
    return "" if REDACTED in url else url


def _section(parent: Document, key: str) -> Document:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
