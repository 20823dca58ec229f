# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands by which an administrator grants what a machine lacks and this run does not grant. Pure.

A machine says which roles it lacks, and nothing else of it is used: an administrator types what the
controller shows. Who gets the role, and where, the inventory says; which principal that is, Azure.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ...node.node_object.rights import WORDS, binding_command
from ...node.procedures.arc.roles import ROLES
from ...node.sources.machines import pool_id
from .arc import ArcMachine, roles_of_others

BY_ID = {role.id: role for role in ROLES.values()}
# Where the inventory names no machine, or no cluster.
PRINCIPAL, CLUSTER = "PRINCIPAL_ID", "CLUSTER_ID"


def grant_commands(machine: ArcMachine) -> list[str]:
    """One command for each role that the machine lacks; what is no role of this collection is left out."""
    return list(dict.fromkeys(_commands(machine)))


def _commands(machine: ArcMachine) -> Iterator[str]:
    request, principal = machine.request, _principal(machine)
    for lacking in roles_of_others(machine):
        azure, cluster = BY_ID.get(str(lacking.get("role_id"))), str(lacking.get("role"))
        if azure:
            yield azure.command(principal, _scope(machine))
        elif lacking.get("kind") == "kubernetes" and cluster in WORDS:
            yield binding_command(cluster, principal, shlex.quote(str(request.get("node") or machine.host)))


def _scope(machine: ArcMachine) -> str:
    cluster, pool = str(machine.request.get("cluster_id") or ""), str(machine.request.get("pool") or "")
    return shlex.quote(pool_id(cluster, pool) if cluster and pool else cluster or CLUSTER)


def _principal(machine: ArcMachine) -> str:
    """Found by the registration that the inventory names, when the command is typed."""
    named = machine.requested
    parts = (named.subscription_id, named.resource_group, named.machine_name)
    if not machine.request.get("enabled") or not all(parts):
        return PRINCIPAL
    options = ("--subscription", "--resource-group", "--name")
    where = " ".join(f"{option} {shlex.quote(part)}" for option, part in zip(options, parts, strict=True))
    return f'"$(az connectedmachine show {where} --query identity.principalId -o tsv)"'
