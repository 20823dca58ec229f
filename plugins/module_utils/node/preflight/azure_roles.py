# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Azure roles an identity lacks: from the actions that it has been granted, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..config.model import NodeConfig
from ..identity.choice import PURPOSES as SERVES
from ..identity.choice import Purpose, method_for
from ..procedures.arc.roles import ROLES, Role, allowed, needed

Grant = Mapping[str, Any]  # what one role assignment allows, as ARM lists it
PURPOSES = {
    "reader": "reads the cluster, and its own configuration",
    "rbac-cluster-admin": "lets the kubelet act in the cluster with its Entra token",
    "cluster-admin": "reads the cluster's endpoint and CA",
}


def needed_by(config: NodeConfig) -> dict[Purpose, tuple[Role, ...]]:
    """What the identity of each purpose needs on the cluster; none where there is none in Azure."""
    monitored = config.continuous_monitoring
    roles: dict[Purpose, tuple[str, ...]] = {
        # That the kubelet lives on tokens gives the node itself no more to ask Azure.
        "azure": needed("certificate", monitored=monitored, purposes=("azure",)),
        "kubernetes": needed(config.kubernetes_auth.profile, monitored=monitored, purposes=("kubernetes",)),
    }
    return {
        purpose: tuple(ROLES[key] for key in roles[purpose])
        for purpose in SERVES
        if method_for(config, purpose)
    }


def missing_roles(granted: Sequence[Grant], needed: Iterable[Role]) -> tuple[Role, ...]:
    """The roles whose work nobody has granted, by that role or by a wider one."""
    return tuple(role for role in needed if not allowed(granted, role.permission, data=role.data))


def assignment_command(role: Role, principal_id: str, scope: str) -> str:
    """The line that grants a role, for whoever may assign roles."""
    # The name of a resource group may hold parentheses.
    place = f"'{scope}'" if "(" in scope or ")" in scope else scope
    return role.command(principal_id or "OBJECT_ID_OF_THE_IDENTITY", place)
