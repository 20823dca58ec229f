# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.Authorization: role definitions, role assignments, and what a caller may do."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

from testbed.azure.arm import errors
from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.authorization.grants import Assignment
from testbed.azure.authorization.roles import (
    DEFINITIONS,
    FLEX_NODE_AGENT,
    ROLES,
    Role,
    covers,
    filtered,
    role,
)

KIND = "Microsoft.Authorization/roleAssignments"
AUTHORIZATION = "{scope*}/providers/Microsoft.Authorization"
ASSIGNMENTS = f"{AUTHORIZATION}/roleAssignments"


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _assignment(call: Call, one: Assignment) -> dict[str, Any]:
    subscription = f"/subscriptions/{call.cloud.place.subscription_id}"
    return {
        "id": one.id,
        "name": one.name,
        "type": KIND,
        "properties": {
            "roleDefinitionId": f"{subscription}{DEFINITIONS}{one.role}",
            "principalId": one.principal_id,
            "principalType": one.principal_type,
            "scope": one.scope or "/",
            "createdOn": _moment(one.created),
            "updatedOn": _moment(one.created),
            "createdBy": one.created_by,
            "updatedBy": one.created_by,
        },
    }


def _definition(call: Call, one: Role) -> dict[str, Any]:
    return {
        "id": f"/subscriptions/{call.cloud.place.subscription_id}{DEFINITIONS}{one.id}",
        "name": one.id,
        "type": "Microsoft.Authorization/roleDefinitions",
        "properties": {
            "roleName": one.name,
            "type": "BuiltInRole",
            "description": one.name,
            "assignableScopes": ["/"],
            "permissions": [_permission(one)],
        },
    }


def _permission(one: Role) -> dict[str, Any]:
    return {
        "actions": list(one.actions),
        "notActions": list(one.not_actions),
        "dataActions": list(one.data_actions),
        "notDataActions": [],
    }


def _published(call: Call, one: Role) -> bool:
    """The role of the flex node agent is new: clouds get it one after the other."""
    return one.id != FLEX_NODE_AGENT or call.cloud.database.settings.flex_node_role


def _filter(call: Call) -> tuple[str, str]:
    try:
        return filtered(call.query.get("$filter", ""))
    except ValueError as error:
        raise errors.invalid(str(error), "UnsupportedQuery") from error


def create(call: Call) -> Answer:
    """Assign a role."""
    grants = call.cloud.grants
    name, scope = call.values["name"], call.values["scope"]
    body = call.body().get("properties")
    if not isinstance(body, dict) or not body.get("roleDefinitionId") or not body.get("principalId"):
        raise errors.invalid(
            "The request to create a role assignment is not valid.", "InvalidCreateRoleAssignmentRequest"
        )
    try:
        name, principal_id = str(uuid.UUID(name)), str(uuid.UUID(body["principalId"]))
    except ValueError as error:
        message = f"The role assignment ID '{name}' is not valid. The role assignment ID must be a GUID."
        raise errors.invalid(message, "InvalidRoleAssignmentId") from error
    wanted = role(str(body["roleDefinitionId"]).rpartition("/")[2])
    if wanted is None or not _published(call, wanted):
        raise _no_definition(str(body["roleDefinitionId"]).rpartition("/")[2])
    if call.cloud.directory.principal(principal_id) is None:
        raise errors.invalid(
            f"Principal {principal_id.replace('-', '')} does not exist in the directory "
            f"{call.cloud.place.tenant_id}. Check that you have the correct principal ID. If you are "
            "creating this "
            "principal and then immediately assigning a role, this error might be related to a "
            "replication delay. "
            "In this case, set the role assignment principalType property to a value, such as "
            "ServicePrincipal, "
            "User, or Group. See https://aka.ms/docs-principaltype",
            "PrincipalNotFound",
        )
    if there := grants.find(name):
        if (there.scope.lower(), there.role, there.principal_id) == (scope.lower(), wanted.id, principal_id):
            return Answer(200, _assignment(call, there))
        message = "Tenant ID, application ID, principal ID, and scope are not allowed to be updated."
        raise errors.invalid(message, "RoleAssignmentUpdateNotPermitted")
    if there := grants.same(scope, wanted.id, principal_id):
        plain = there.name.replace("-", "")
        message = f"The role assignment already exists. The ID of the existing role assignment is {plain}."
        raise ArmError(409, "RoleAssignmentExists", message)
    created = grants.add(
        scope,
        wanted.id,
        principal_id,
        name=name,
        principal_type=str(body.get("principalType") or "ServicePrincipal"),
        created_by=call.principal.object_id,
    )
    call.cloud.provider.wake()
    return Answer(201, _assignment(call, created))


def get(call: Call) -> Answer:
    """One assignment."""
    there = _find(call)
    if there is None:
        message = f"The role assignment '{call.values['name']}' is not found."
        raise ArmError(404, "RoleAssignmentNotFound", message)
    return Answer(200, _assignment(call, there))


def delete(call: Call) -> Answer:
    """Take a role away."""
    there = _find(call)
    if there is None:
        return Answer(204)
    call.cloud.grants.remove(there.name)
    call.cloud.provider.wake()
    return Answer(200, _assignment(call, there))


def listed(call: Call) -> Answer:
    """Assignments at a scope, above and below it; a filter narrows that."""
    condition, value = _filter(call)
    scope = call.values["scope"] or "/"
    found = []
    for one in call.cloud.grants.all():
        above, below = covers(one.scope, scope), covers(scope, one.scope)
        if not (above or below) or (condition == "atscope" and not above):
            continue
        if condition in ("principalid", "assignedto") and one.principal_id != value.lower():
            continue
        found.append(_assignment(call, one))
    return Answer(200, page(call, found))


def get_definition(call: Call) -> Answer:
    """One role."""
    found = role(call.values["name"])
    if found is None or not _published(call, found):
        raise _no_definition(call.values["name"])
    return Answer(200, _definition(call, found))


def list_definitions(call: Call) -> Answer:
    """The roles, all or by name."""
    condition, value = _filter(call)
    found = [one for one in ROLES if condition != "rolename" or one.name == value]
    return Answer(200, page(call, [_definition(call, one) for one in found if _published(call, one)]))


def permissions(call: Call) -> Answer:
    """What the caller may do at a scope."""
    found = call.cloud.grants.effective(call.principal.object_id, call.values["scope"] or "/")
    return Answer(200, page(call, [_permission(one) for one in found]))


def _find(call: Call) -> Assignment | None:
    there = call.cloud.grants.find(call.values["name"])
    same = there and there.scope.lower().rstrip("/") == call.values["scope"].lower().rstrip("/")
    return there if same else None


def _no_definition(name: str) -> ArmError:
    message = f"The specified role definition with ID '{name.replace('-', '')}' does not exist."
    return ArmError(404, "RoleDefinitionDoesNotExist", message)


READ_DEFINITIONS = "Microsoft.Authorization/roleDefinitions/read"
OPERATIONS = (
    Operation("PUT", f"{ASSIGNMENTS}/{{name}}", f"{KIND}/write", create),
    Operation("GET", f"{ASSIGNMENTS}/{{name}}", f"{KIND}/read", get),
    Operation("DELETE", f"{ASSIGNMENTS}/{{name}}", f"{KIND}/delete", delete),
    Operation("GET", ASSIGNMENTS, f"{KIND}/read", listed, over="{scope}"),
    Operation(
        "GET", f"{AUTHORIZATION}/roleDefinitions/{{name}}", READ_DEFINITIONS, get_definition, over="{scope}"
    ),
    Operation("GET", f"{AUTHORIZATION}/roleDefinitions", READ_DEFINITIONS, list_definitions, over="{scope}"),
    Operation("GET", f"{AUTHORIZATION}/permissions", "", permissions, over="{scope}"),
)
