# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and Azure Arc, on the controller: what each is to be there, and whose roles are to be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .node.config.document import merge
from .node.config.early import early_form
from .node.config.values import ArmId

Document = Mapping[str, Any]


def arc_order(document: Document, cluster_id: str = "", name: str = "") -> dict[str, Any]:
    """What a configuration wants of Azure Arc; what it leaves out is the cluster's."""
    whole = merge(early_form(document), {})
    azure = _below(whole, "azure")
    arc, cluster = _below(azure, "arc"), _below(azure, "targetCluster")
    proxy, auth = _below(whole, "proxy"), _below(whole, "kubernetesAuth")
    target = cluster.get("resourceId") or cluster_id
    try:
        home: ArmId | None = ArmId.parse(target)
    except ValueError:
        home = None  # refused elsewhere, in words that say where it stands
    principal = _below(azure, "servicePrincipal")
    return {
        "enabled": bool(arc.get("enabled")),
        "assign_roles": bool(arc.get("autoRoleAssignment")),
        "node": _below(whole, "agent").get("nodeName") or name,
        "cluster_id": home.canonical() if home else "",
        "subscription_id": azure.get("subscriptionId") or (home.subscription_id if home else ""),
        "resource_group": arc.get("resourceGroup") or (home.resource_group if home else ""),
        "machine_name": arc.get("machineName") or "",
        "location": arc.get("location") or cluster.get("location") or "",
        "tenant_id": azure.get("tenantId") or principal.get("clientTenant") or "",
        "cloud": azure.get("cloud") or "AzurePublicCloud",
        "resource_manager_endpoint": azure.get("resourceManagerEndpoint") or "",
        "tags": dict(_below(arc, "tags")),
        "proxy": proxy.get("https") or proxy.get("http") or "",
        "ca_cert": _below(whole, "mirror").get("caCert") or "",
        "profile": auth.get("profile") or "certificate",
    }


def arc_nodes(
    hosts: Iterable[str], hostvars: Mapping[str, Document], state: str = "present"
) -> list[Document]:
    """The machines whose roles are ours to give, or to take back: as flexnode_role_assignment takes them."""
    found: list[Document] = []
    for host in hosts:
        order, seen = hostvars[host].get("arc_order") or {}, _latest(hostvars[host])
        ours = order.get("assign_roles") or (state == "absent" and seen.get("registered_by_us"))
        known = seen.get("principal_id") or seen.get("resource_id")
        # Without a cluster, roles are looked for all over the machine's subscription.
        where = order.get("cluster_id") or (state == "absent" and seen.get("resource_id"))
        if ours and known and where and (order["enabled"] or state == "absent"):
            found.append(
                {
                    "name": order["node"],
                    "principal_id": seen.get("principal_id") or None,
                    "machine_id": seen.get("resource_id") or None,
                    "cluster_id": order["cluster_id"] or None,
                    "profile": order["profile"],
                    # All that we gave is taken back, whatever they are called by now.
                    "roles": hostvars[host].get("flexnode_arc_roles") if state == "present" else None,
                }
            )
    return found


def _latest(variables: Document) -> Document:
    """What a machine said of itself last; a task that was skipped said nothing."""
    for name in ("arc_registered", "arc_seen"):
        if "resource_id" in (said := variables.get(name) or {}):
            return dict(said)
    return {}


def _below(parent: Document, key: str) -> Document:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
