# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines and Azure Arc, on the controller: what each is to be there, and whose roles are to be given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...node.config.choices import choices_of, yes
from ...node.config.document import merge
from ...node.config.early import early_form
from ...node.config.types.values import ArmId
from ...node.node_object.rights import APPROVAL, BOOTSTRAPPER
from ...node.procedures.arc.agent import Registration
from ...node.procedures.arc.errors import ArcElsewhere
from ...node.procedures.arc.roles import ROLES, needed
from ...node.secret import REDACTED
from ..azure.roles.assignments import known_role

Document = Mapping[str, Any]


def arc_order(document: Document, cluster_id: str = "", name: str = "") -> dict[str, Any]:
    """What a configuration wants of Azure Arc; what it leaves out is the cluster's."""
    whole = merge(early_form(document), {})
    azure, choices = _below(whole, "azure"), choices_of(whole)
    arc, cluster = _below(azure, "arc"), _below(azure, "targetCluster")
    serves = {"azure": choices.azure_method, "kubernetes": choices.kubelet_method}
    purposes = tuple(name for name, method in serves.items() if method == "arc")
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
        "enabled": choices.arc,
        "assign_roles": bool(yes(arc.get("autoRoleAssignment"))),
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
        "ca_cert": _below(whole, "mirror").get("caCert") or "",
        "profile": profile,
        "kubelet": "kubernetes" in purposes,
        "server_url": kubelet.get("serverURL") or "",
        "ca_cert_data": kubelet.get("caCertData") or "",
        "kubelet_dir": directories.get("kubeletDir") or "",
        "roles": list(needed(profile, monitored=bool(whole.get("continuousMonitoring")), purposes=purposes)),
    }


def arc_proxy(document: Document) -> str:
    """The proxy of a configuration; one with a password is not to be had from what a machine shows."""
    proxy = _below(document, "proxy")
    said = proxy.get("https") or proxy.get("http") or ""
    return "" if REDACTED in said else str(said)


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
        if order and ours and known and where and (order["enabled"] or state == "absent"):
            if not trusted:
                _refuse_other(host, order, seen["resource_id"])
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

    Those that said that they lack it. With `settled` also those whose join did something: an earlier run may
    have given it and failed then. With `absent`, all that may have been given it.
    """
    found: list[Document] = []
    for host in hosts:
        order, seen = hostvars[host].get("arc_order") or {}, _latest(hostvars[host])
        if not (_binds(order) and seen.get("resource_id")):
            continue
        lacks = any(one.get("kind") == "kubernetes" for one in seen.get("missing_roles") or ())
        joined = state == "settled" and bool((hostvars[host].get("node_joined") or {}).get("changed"))
        if not (lacks or joined or state == "absent"):
            continue
        if state == "present":
            _refuse_other(host, order, seen["resource_id"])
        elif not _is_ordered(order, seen["resource_id"]):
            continue  # it was given nothing
        machine = {"machine_id": seen["resource_id"], "cluster_id": order["cluster_id"]}
        found.append({"name": order["node"], **machine})
    return found


def arc_by_hand(host: str, hostvars: Mapping[str, Document]) -> list[Document]:
    """What a machine lacks and this run does not give it: somebody else has to."""
    order, seen = hostvars[host].get("arc_order") or {}, _latest(hostvars[host])
    chosen = hostvars[host].get("flexnode_arc_roles")
    assigns = order.get("assign_roles") and order.get("enabled") and order.get("cluster_id")
    wanted = _roles(order, chosen, "present") or () if assigns else ()
    given = [known_role(name) for name in wanted]
    bound = (BOOTSTRAPPER, APPROVAL) if _binds(order) else ()

    def ours(one: Document) -> bool:
        if one.get("kind") == "kubernetes":
            return one.get("role") in bound
        # What a role of the user's own making grants, nobody here knows.
        return any(role is None or role.id == one.get("role_id") for role in given)

    return [one for one in seen.get("missing_roles") or () if not ours(one)]


def _binds(order: Document) -> bool:
    """Whether a machine is let ask for its kubelet's certificate."""
    asked = order.get("enabled") and order.get("assign_roles") and order.get("cluster_id")
    return bool(asked and order["kubelet"] and order["profile"] == "certificate")


def _roles(order: Document, chosen: list[str] | None, state: str) -> list[str] | None:
    wanted = list(order["roles"] if chosen is None else chosen)
    if state == "present":
        return wanted
    if state == "absent":
        return None  # all that we gave is taken back, whatever they are called by now
    kept = {role.id for role in map(known_role, wanted) if role}
    return [key for key, role in ROLES.items() if role.id not in kept]


def _is_ordered(order: Document, resource_id: str) -> bool:
    said = Registration.parse(resource_id)
    is_ = [said.subscription_id, said.resource_group, said.machine_name] if said else []
    pairs = zip(_place(order), is_, strict=False)
    return bool(said) and all(not name or name.lower() == it.lower() for name, it in pairs)


def _place(order: Document) -> list[str]:
    return [order["subscription_id"], order["resource_group"], order["machine_name"]]


def _refuse_other(host: str, order: Document, resource_id: str) -> None:
    """Refuse a machine that says it is another one: it would get that one roles."""
    if not _is_ordered(order, resource_id):
        raise ArcElsewhere(
            f"{host} says that it is {resource_id}, which is not what was ordered",
            where="/".join(name or "*" for name in _place(order)),
            why="roles are given to the machine that the inventory names, and to no other",
            fix="look at `azcmagent show` on it, and correct azure.arc in the inventory, or the registration",
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
