# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Azure roles an identity lacks, computed from the actions that it was granted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..config.model import NodeConfig
from ..identity.choice import PURPOSES as SERVES
from ..identity.choice import Purpose, method_for
from ..procedures.arc.roles import ROLES, Role, allowed, needed
from ..sources.machines import pool_id

Grant = Mapping[str, Any]  # the permissions of one role assignment, as ARM lists them
PURPOSES = {
    "reader": "the node reads the cluster and its own configuration with it",
    "rbac-cluster-admin": "the kubelet uses the cluster with its Entra token",
    "cluster-admin": "the node reads the cluster's endpoint and CA with it",
    "flex-node-agent": "the node reads and follows its machine in the pool with it",
}


def scope_of(config: NodeConfig) -> str:
    """Where the roles are needed: at the FlexNodes pool of the node, else at its cluster."""
    cluster, pool = str(config.cluster_id), config.azure.target_agent_pool_name
    return pool_id(cluster, pool) if pool else cluster


def needed_by(config: NodeConfig) -> dict[Purpose, tuple[Role, ...]]:
    """The roles that each identity needs on the cluster; none without an Azure identity."""
    monitored, of_pool = config.continuous_monitoring, config.azure.target_agent_pool_name is not None
    roles: dict[Purpose, tuple[str, ...]] = {
        # A kubelet with tokens does not add roles to the node's own identity.
        "azure": needed("certificate", monitored=monitored, purposes=("azure",), pool=of_pool),
        "kubernetes": needed(
            config.kubernetes_auth.profile, monitored=monitored, purposes=("kubernetes",), pool=of_pool
        ),
    }
    return {
        purpose: tuple(ROLES[key] for key in roles[purpose])
        for purpose in SERVES
        # A machine of a pool that does not follow it gets all it needs from the controller.
        if method_for(config, purpose) and (monitored or not of_pool)
    }


def missing_roles(granted: Sequence[Grant], needed: Iterable[Role]) -> tuple[Role, ...]:
    """The roles that are not granted, by that role or by a wider one."""
    return tuple(role for role in needed if not allowed(granted, role.permission, data=role.data))


def assignment_command(role: Role, principal_id: str, scope: str) -> str:
    """The command that grants a role, for an administrator."""
    # The name of a resource group may contain parentheses.
    place = f"'{scope}'" if "(" in scope or ")" in scope else scope
    return role.command(principal_id or "OBJECT_ID_OF_THE_IDENTITY", place)
