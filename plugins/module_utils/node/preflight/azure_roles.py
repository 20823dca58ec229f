# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Azure roles an identity lacks: from the actions that it has been granted, without asking anybody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..arc.roles import NEEDED, ROLES, Role, allowed
from ..config.model import NodeConfig

Grant = Mapping[str, Any]  # what one role assignment allows, as ARM lists it
PURPOSES = {
    "reader": "reads the cluster, and its own configuration",
    "rbac-cluster-admin": "lets the kubelet act in the cluster with its Entra token",
    "cluster-admin": "reads the cluster's endpoint and CA",
}


def needed_roles(config: NodeConfig) -> tuple[Role, ...]:
    """What the machine's own identity needs on the cluster; none where it has no identity in Azure."""
    kubelet, azure = config.kubernetes_auth, config.azure_auth.method
    if azure is None and kubelet.method in (None, "bootstrapToken"):
        return ()
    # A token for the join, or a certificate: then the identity only follows the configuration, if even that.
    lives_on_it = kubelet.method != "bootstrapToken" and kubelet.profile == "token"
    if not lives_on_it and not config.continuous_monitoring:
        return ()
    return tuple(ROLES[key] for key in NEEDED["token" if lives_on_it else "certificate"])


def missing_roles(granted: Sequence[Grant], needed: Iterable[Role]) -> tuple[Role, ...]:
    """The roles whose work nobody has granted, by that role or by a wider one."""
    return tuple(role for role in needed if not allowed(granted, role.permission, data=role.data))


def assignment_command(role: Role, principal_id: str, scope: str) -> str:
    """The line that grants a role, for whoever may assign roles."""
    # The name of a resource group may hold parentheses.
    place = f"'{scope}'" if "(" in scope or ")" in scope else scope
    return role.command(principal_id or "OBJECT_ID_OF_THE_IDENTITY", place)
