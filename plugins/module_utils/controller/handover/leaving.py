# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that leave: which nodes they must be, and what stays of one that does not answer. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...node.rollout.errors import forgets
from ...node.sources.machines import pool_id
from ...on_machine.arc_request import arc_request
from ..inventory.machines import POOLS, Machine
from ..needs.vpn import client_name, vpn_of

IN_AZURE = {
    "rp": "its flexNodeConfig",
    "blob": "its configuration in the blob",
    POOLS: "its machine in the FlexNodes pool",
}


def leaving(machine: Machine) -> dict[str, Any]:
    """What role node needs to remove a machine, beside what all roles need."""
    lost = [f"if it is lost, {line}" for line in if_lost(machine)]
    return {"expected": expected_of(machine), "if_lost": lost}


def expected_of(machine: Machine) -> dict[str, str]:
    """The node that a machine must be, as far as the inventory names it; its names are used in Azure."""
    return {
        "node_name": machine.node,
        "cluster_id": machine.cluster_id,
        "pool": machine.pool if machine.source == POOLS else "",
    }


def if_lost(machine: Machine) -> Iterator[str]:
    """What the inventory says may still exist of a machine that never comes back, with the commands."""
    yield f"delete its Node: kubectl delete node {machine.node or 'NAME'}"
    if made := IN_AZURE.get(machine.source):
        playbook = "ansible-playbook -i INVENTORY aks.flexnode.config_delete"
        yield f"delete {made}: {playbook} --limit {machine.host}"
    if machine.takes_turns:
        yield f"remove it from the rollout record of the cluster, {forgets(machine.node or 'NAME')}"
    yield from _in_arc(machine)
    if vpn_of(machine.document).get("enabled") is True:
        playbook = "ansible-playbook -i INVENTORY aks.flexnode.vpn_gateway"
        revoked = f"-e flexnode_vpn_revoke={client_name(machine)} --limit {machine.host}"
        yield f"revoke its VPN certificate: {playbook} {revoked}"


def _in_arc(machine: Machine) -> Iterator[str]:
    """Its roles first: they are found by the identity of the registration."""
    arc = arc_request(machine.document, machine.cluster_id)
    if not arc["enabled"]:
        return
    place = {
        "subscription": arc["subscription_id"] or "SUBSCRIPTION",
        "resource-group": arc["resource_group"] or "GROUP",
        "name": arc["machine_name"] or "HOSTNAME",  # by default, the machine's own name
    }
    where = " ".join(f"--{option} {value}" for option, value in place.items())
    if arc["assign_roles"]:
        cluster = arc["cluster_id"] or "CLUSTER_ID"
        scope = pool_id(cluster, arc["pool"]) if arc["pool"] else cluster
        # Not as one command: without an assignee, it would delete all role assignments of this scope.
        principal = f"az connectedmachine show {where} --query identity.principalId"
        yield f"delete its roles: az role assignment delete --assignee ID --scope {scope} (ID: {principal})"
    yield f"delete its registration with Azure Arc: az connectedmachine delete {where}"
