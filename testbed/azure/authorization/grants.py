# SPDX-License-Identifier: GPL-3.0-or-later
"""Role assignments: who may do what, and where."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass

from testbed.azure.authorization.roles import Role, covers, role
from testbed.azure.database import Database


@dataclass(frozen=True)
class Assignment:
    """One role of one principal at one scope."""

    name: str
    scope: str
    role: str
    """The role definition's GUID."""
    principal_id: str
    principal_type: str
    created: float
    created_by: str
    effective: float
    """When it begins to count, unless the delay is set lower before that."""

    @property
    def id(self) -> str:
        """Its resource id."""
        return f"{self.scope.rstrip('/')}/providers/Microsoft.Authorization/roleAssignments/{self.name}"

    @property
    def definition(self) -> Role | None:
        """What it allows."""
        return role(self.role)


class Grants:
    """The assignments of the tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Assignment]:
        """Every assignment, oldest first."""
        return [
            Assignment(**row)
            for row in self._database.rows("SELECT * FROM role_assignments ORDER BY created")
        ]

    def find(self, name: str) -> Assignment | None:
        """The assignment of that name."""
        row = self._database.row("SELECT * FROM role_assignments WHERE name = ?", name.lower())
        return Assignment(**row) if row else None

    def same(self, scope: str, role_id: str, principal_id: str) -> Assignment | None:
        """The assignment that says this already."""
        wanted = (scope.lower().rstrip("/"), role_id, principal_id)
        return next(
            (
                one
                for one in self.all()
                if (one.scope.lower().rstrip("/"), one.role, one.principal_id) == wanted
            ),
            None,
        )

    def add(
        self,
        scope: str,
        role_id: str,
        principal_id: str,
        *,
        name: str = "",
        principal_type: str = "ServicePrincipal",
        created_by: str = "",
    ) -> Assignment:
        """Assign a role; it counts after the delay that is set."""
        now = time.time()
        new = Assignment(
            name=(name or str(uuid.uuid4())).lower(),
            scope=scope,
            role=role_id,
            principal_id=principal_id,
            principal_type=principal_type,
            created=now,
            created_by=created_by,
            effective=now + self._database.settings.rbac_delay,
        )
        self._database.insert("role_assignments", asdict(new))
        return new

    def remove(self, name: str) -> None:
        """Take a role away."""
        self._database.change("DELETE FROM role_assignments WHERE name = ?", name.lower())

    def counting(self) -> list[Assignment]:
        """Those that have an effect by now; a delay that was set lower ends the wait of older ones."""
        now, delay = time.time(), self._database.settings.rbac_delay
        return [one for one in self.all() if min(one.effective, one.created + delay) <= now]

    def effective(self, principal_id: str, target: str) -> list[Role]:
        """The roles a principal has at a target, by assignments there or above."""
        found = (
            one.definition
            for one in self.counting()
            if one.principal_id == principal_id and covers(one.scope, target)
        )
        return [definition for definition in found if definition]

    def allows(self, principal_id: str, action: str, target: str) -> bool:
        """Whether a principal may do something."""
        return any(definition.allows(action) for definition in self.effective(principal_id, target))
