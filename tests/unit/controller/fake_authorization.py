# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles in memory: who has which, and how Azure behaves when it is asked for more."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    NotInAzure,
    PermissionMissing,
    PrincipalUnknown,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.assignments import (
    Existing,
    Grant,
    Role,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.granting import (
    NO_MACHINE,
    no_principal,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError


@dataclass
class FakeAuthorization:
    """What Azure knows."""

    existing: list[Existing] = field(default_factory=list)
    machines: dict[str, str] = field(default_factory=dict)  # resource id -> principal
    missing: str = NO_MACHINE  # of machines that are not known
    own_roles: dict[str, str] = field(default_factory=dict)  # name -> GUID
    unheard: int = 0  # so often a principal is not known yet
    raced: bool = False  # somebody else is faster
    forbidden: FlexNodeError | None = None
    refused: dict[str, FlexNodeError] = field(default_factory=dict)  # principals whose roles stay as they are
    unseen: FlexNodeError | None = None  # who may not even look
    asked: list[str] = field(default_factory=list)
    # Roles are given and taken in threads.
    one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def at(self, scope: str) -> list[Existing]:
        self.asked.append(f"list {scope}")
        if self.unseen:
            raise self.unseen
        return list(self.existing)

    def of(self, principal_id: str, scope: str) -> list[Existing]:
        self.asked.append(f"of {principal_id} in {scope}")
        return [one for one in self.existing if one.principal_id == principal_id]

    def role(self, name: str, scope: str) -> Role:
        self.asked.append(f"role {name}")
        if name not in self.own_roles:
            raise NotInAzure(f"there is no role {name!r}", where=scope)
        return Role(self.own_roles[name], name)

    def create(self, grant: Grant) -> bool:
        self.asked.append(f"create {grant.role.label} of {grant.who}")
        if self.forbidden:
            raise self.forbidden
        if grant.principal_id in self.refused:
            raise self.refused[grant.principal_id]
        if self._unheard_once_more():
            raise PrincipalUnknown(f"there is no principal {grant.principal_id}")
        if self.raced:
            return False
        with self.one_at_a_time:
            self.existing.append(Existing(grant.name, grant.scope, grant.role.id, grant.principal_id))
        return True

    def _unheard_once_more(self) -> bool:
        with self.one_at_a_time:
            before = self.unheard
            self.unheard = max(0, before - 1)
        return before > 0

    def delete(self, grant: Grant) -> None:
        self.asked.append(f"delete {grant.role.label} of {grant.who}")
        if grant.principal_id in self.refused:
            raise self.refused[grant.principal_id]
        with self.one_at_a_time:
            self.existing = [one for one in self.existing if one.name != grant.name]

    def principal_of(self, machine_id: str) -> str:
        self.asked.append("machine")
        if machine_id not in self.machines:
            raise no_principal(machine_id, self.missing)
        return self.machines[machine_id]


def forbidden(act: str = "write") -> PermissionMissing:
    """What a reader gets who gives roles."""
    what = f"the identity may not Microsoft.Authorization/roleAssignments/{act}"
    return PermissionMissing(what, fix="az role assignment create --role ...")
