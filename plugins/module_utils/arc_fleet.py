# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and Azure Arc, on the controller: what each is to be there, and whose roles are to be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .azure.assignments import known_role
from .node.arc.agent import Registration
from .node.arc.errors import ArcElsewhere
from .node.arc.roles import ROLES, needed
from .node.config.document import merge
from .node.config.early import early_form
from .node.config.model import AZURE_METHODS
from .node.config.values import ArmId

Document = Mapping[str, Any]


def arc_order(document: Document, cluster_id: str = "", name: str = "") -> dict[str, Any]:
    """What a configuration wants of Azure Arc; what it leaves out is the cluster's."""
    whole = merge(early_form(document), {})
    azure = _below(whole, "azure")
    arc, cluster = _below(azure, "arc"), _below(azure, "targetCluster")
    proxy, purposes = _below(whole, "proxy"), _purposes(whole)
    # What the kubelet lives on matters here only where that is Arc's identity.
    lives = _below(whole, "kubernetesAuth").get("profile") == "token" and "kubernetes" in purposes
    profile = "token" if lives else "certificate"
    target = cluster.get("resourceId") or cluster_id
    try:
        home: ArmId | None = ArmId.parse(target)
    except ValueError:
        home = None  # refused elsewhere, in words that say where it stands
    principal = _below(azure, "servicePrincipal")
    # What the kubelet may do in the cluster matters here only where it is Arc's identity, too.
    kubelet = _below(_below(whole, "node"), "kubelet") if "kubernetes" in purposes else {}
    directories = _below(_below(whole, "paths"), "kubernetes")
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
        "profile": profile,
        "kubelet": "kubernetes" in purposes,
        "server_url": kubelet.get("serverURL") or "",
        "ca_cert_data": kubelet.get("caCertData") or "",
        "kubelet_dir": directories.get("kubeletDir") or "",
        "roles": list(needed(profile, monitored=bool(whole.get("continuousMonitoring")), purposes=purposes)),
    }


def _purposes(document: Document) -> tuple[str, ...]:
    """What Arc's identity serves, as node.config.auth decides it: the node, the kubelet, or both."""
    azure, auth = _below(document, "azure"), _below(document, "kubernetesAuth")
    chosen = auth.get("method")
    node = _below(document, "azureAuth").get("method") or (chosen if chosen in AZURE_METHODS else "arc")
    if chosen:
        kubelet = chosen
    elif _below(azure, "bootstrapToken") and not auth.get("useAzureAuth"):
        kubelet = "bootstrapToken"
    else:
        kubelet = None if auth.get("useAzureAuth") is False else node
    return tuple(name for name, method in (("azure", node), ("kubernetes", kubelet)) if method == "arc")


def arc_nodes(
    hosts: Iterable[str], hostvars: Mapping[str, Document], state: str = "present"
) -> list[Document]:
    """The machines whose roles are ours to give, or to take back: as flexnode_role_assignment takes them.

    Whom roles are given to, Azure says: a machine could name any principal. `surplus` is what a machine no
    longer needs, once it has become what it was told.
    """
    found: list[Document] = []
    for host in hosts:
        order, seen = hostvars[host].get("arc_order") or {}, _latest(hostvars[host])
        ours = order.get("assign_roles") or (state == "absent" and seen.get("registered_by_us"))
        trusted = state == "absent"
        known = seen.get("resource_id") or (trusted and seen.get("principal_id"))
        # Without a cluster, roles are looked for all over the machine's subscription.
        where = order.get("cluster_id") or (state == "absent" and seen.get("resource_id"))
        if ours and known and where and (order["enabled"] or state == "absent"):
            if not trusted:
                _as_ordered(host, order, seen["resource_id"])
            roles = _roles(order, hostvars[host].get("flexnode_arc_roles"), state)
            if roles == []:
                continue
            found.append(
                {
                    "name": order["node"],
                    "principal_id": (trusted and seen.get("principal_id")) or None,
                    "machine_id": seen.get("resource_id") or None,
                    "cluster_id": order["cluster_id"] or None,
                    "profile": order["profile"],
                    "roles": roles,
                }
            )
    return found


def arc_bindings(
    hosts: Iterable[str], hostvars: Mapping[str, Document], state: str = "present"
) -> list[Document]:
    """The machines that we let ask for a certificate, as flexnode_identity_binding takes them.

    Those that said that they lack it; with `absent`, all that may have been given it.
    """
    found: list[Document] = []
    for host in hosts:
        order, seen = hostvars[host].get("arc_order") or {}, _latest(hostvars[host])
        ours = order.get("assign_roles") and order["kubelet"] and order["profile"] == "certificate"
        if not (ours and order["cluster_id"] and seen.get("resource_id")):
            continue
        lacks = any(one.get("kind") == "kubernetes" for one in seen.get("missing_roles") or ())
        if lacks or state == "absent":
            _as_ordered(host, order, seen["resource_id"])
            machine = {"machine_id": seen["resource_id"], "cluster_id": order["cluster_id"]}
            found.append({"name": order["node"], **machine})
    return found


def _roles(order: Document, chosen: list[str] | None, state: str) -> list[str] | None:
    wanted = list(order["roles"] if chosen is None else chosen)
    if state == "present":
        return wanted
    if state == "absent":
        return None  # all that we gave is taken back, whatever they are called by now
    kept = {role.id for role in map(known_role, wanted) if role}
    return [key for key, role in ROLES.items() if role.id not in kept]


def _as_ordered(host: str, order: Document, resource_id: str) -> None:
    """Refuse a machine that says it is another one: it would get that one roles."""
    said = Registration.parse(resource_id)
    wanted = [order["subscription_id"], order["resource_group"], order["machine_name"]]
    is_ = [said.subscription_id, said.resource_group, said.machine_name] if said else ["", "", ""]
    if said is None or any(name and name.lower() != it.lower() for name, it in zip(wanted, is_, strict=True)):
        raise ArcElsewhere(
            f"{host} says that it is {resource_id}, which is not what was ordered",
            where="/".join(name or "*" for name in wanted),
            why="roles are given to the machine that was ordered, and to no other",
            fix="look at `azcmagent show` on it, and correct azure.arc or the registration",
        )


def _latest(variables: Document) -> Document:
    """What a machine said of itself last; a task that was skipped said nothing."""
    for name in ("arc_registered", "arc_seen"):
        if "resource_id" in (said := variables.get(name) or {}):
            return dict(said)
    return {}


def _below(parent: Document, key: str) -> Document:
    value = parent.get(key)
    return value if isinstance(value, Mapping) else {}
