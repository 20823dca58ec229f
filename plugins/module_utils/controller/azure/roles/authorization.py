# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role definitions and assignments through the SDK, and the identities of Arc machines."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ....node.procedures.arc.agent import Registration
from ..arm import Json, explaining, refusal_of
from ..errors import NotInAzure, PrincipalUnknown
from ..login import Login
from .assignments import Existing, Grant, Role
from .granting import NO_GROUP, NO_IDENTITY, NO_MACHINE, no_principal

AUTHORIZATION_ERROR = HYBRIDCOMPUTE_ERROR = ""
try:
    from azure.core.exceptions import HttpResponseError
    from azure.mgmt.authorization import AuthorizationManagementClient
except ImportError:
    AUTHORIZATION_ERROR = traceback.format_exc()
try:
    from azure.mgmt.hybridcompute import HybridComputeManagementClient
except ImportError:
    HYBRIDCOMPUTE_ERROR = traceback.format_exc()

KIND = "providers/Microsoft.Authorization"


@dataclass(frozen=True, slots=True)
class Authorization:
    """Role assignments, read and changed with one login."""

    login: Login

    def at(self, scope: str) -> list[Existing]:
        """All assignments at a scope and above it: one list for all principals."""
        with explaining(self.login, "GET", f"{scope}/{KIND}/roleAssignments"):
            found = self._client(scope).role_assignments.list_for_scope(scope, filter="atScope()")
            return [_existing(one) for one in found]

    def of(self, principal_id: str, scope: str) -> list[Existing]:
        """All assignments of a principal at a scope, above and below it."""
        with explaining(self.login, "GET", f"{scope}/{KIND}/roleAssignments"):
            wanted = f"principalId eq '{principal_id}'"
            found = self._client(scope).role_assignments.list_for_scope(scope, filter=wanted)
            return [_existing(one) for one in found]

    def role(self, name: str, scope: str) -> Role:
        """The role of a name; custom roles too."""
        quoted = name.replace("'", "''")
        with explaining(self.login, "GET", f"{scope}/{KIND}/roleDefinitions"):
            definitions = self._client(scope).role_definitions.list(scope, filter=f"roleName eq '{quoted}'")
            found = [str(one.name).lower() for one in definitions]
        if len(found) != 1:
            raise _no_role(name, scope)
        return Role(found[0], name)

    def create(self, grant: Grant) -> bool:
        """Assign a role; False: someone else did at the same time."""
        body = json.dumps({"properties": grant.properties}).encode()
        with explaining(self.login, "PUT", grant.id):
            try:
                self._client(grant.scope).role_assignments.create(
                    grant.scope, grant.name, body, content_type="application/json"
                )
            except HttpResponseError as error:
                refusal = refusal_of(error, "PUT", grant.id)
                if refusal.code == "PrincipalNotFound":
                    raise PrincipalUnknown(
                        f"there is no principal {grant.principal_id}",
                        where=grant.who,
                        why=refusal.message.partition(". ")[0],
                    ) from error
                if refusal.code == "RoleAssignmentExists":
                    return False
                if refusal.code == "RoleDefinitionDoesNotExist":
                    raise _no_role(grant.role.label, grant.scope) from error
                raise
        return True

    def delete(self, grant: Grant) -> None:
        """Remove an assignment; it is no error if it is gone already, with its scope or its group, too."""
        try:
            with explaining(self.login, "DELETE", grant.id):
                self._client(grant.scope).role_assignments.delete(grant.scope, grant.name)
        except NotInAzure as error:
            if error.refusal is None or not error.refusal.gone:
                raise

    def principal_of(self, machine_id: str) -> str:
        """The object id of an Arc machine's identity; an error says why there is none."""
        machine = Registration.parse(machine_id)
        if machine is None:
            raise no_principal(machine_id, NO_MACHINE)
        where = self.login.endpoints
        client: Any = HybridComputeManagementClient(
            self.login.credential,
            machine.subscription_id,
            where.resource_manager,
            credential_scopes=[where.scope],
            **self.login.client_options,
        )
        try:
            with explaining(self.login, "GET", machine.resource_id):
                found: Json = client.machines.get(machine.resource_group, machine.machine_name, cls=_wire)
        except NotInAzure as error:
            if error.refusal and error.refusal.itself:
                raise no_principal(machine.resource_id, NO_MACHINE) from error
            if error.refusal and error.refusal.code == "ResourceGroupNotFound":
                raise no_principal(machine.resource_id, NO_GROUP) from error
            raise
        identity = found.get("identity") or {}
        if principal := str(identity.get("principalId") or "").lower():
            return principal
        raise no_principal(machine.resource_id, NO_IDENTITY, str(identity.get("type") or ""))

    def _client(self, scope: str) -> Any:
        parts = scope.split("/")
        where = self.login.endpoints
        return AuthorizationManagementClient(
            self.login.credential,
            parts[2] if len(parts) > 2 else "",
            base_url=where.resource_manager,
            credential_scopes=[where.scope],
            **self.login.client_options,
        )


def _existing(model: Any) -> Existing:
    """From the SDK's model, which has the properties in it or below it, depending on its release."""
    about = getattr(model, "properties", None) or model
    return Existing(
        name=str(model.name or ""),
        scope=str(about.scope or "").rstrip("/"),
        role_id=str(about.role_definition_id or "").rpartition("/")[2].lower(),
        principal_id=str(about.principal_id or "").lower(),
        conditional=bool(getattr(about, "condition", None)),
    )


def _no_role(name: str, scope: str) -> NotInAzure:
    return NotInAzure(
        f"there is no role {name!r}",
        where=scope,
        fix="see `az role definition list --output table`, or create it: az role definition create",
    )


def _wire(answer: Any, _model: Any, _headers: Any) -> Mapping[str, Any]:
    """The answer as it came: the SDK's models differ between its releases, the API does not."""
    return dict(answer.http_response.json())
