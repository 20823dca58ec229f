# SPDX-License-Identifier: GPL-3.0-or-later
"""The subscription and its resource groups, as far as tools read them."""

from __future__ import annotations

from typing import Any

from testbed.azure.arm import errors
from testbed.azure.arm.operation import Answer, Call, Operation

GROUP_READ = "Microsoft.Resources/subscriptions/resourceGroups/read"


def _subscription(call: Call) -> dict[str, Any]:
    place = call.cloud.place
    return {
        "id": f"/subscriptions/{place.subscription_id}",
        "subscriptionId": place.subscription_id,
        "tenantId": place.tenant_id,
        "displayName": "testbed",
        "state": "Enabled",
        "authorizationSource": "RoleBased",
    }


def _group(call: Call) -> dict[str, Any]:
    place = call.cloud.place
    return {
        "id": f"/subscriptions/{place.subscription_id}/resourceGroups/{place.resource_group}",
        "name": place.resource_group,
        "type": "Microsoft.Resources/resourceGroups",
        "location": place.location,
        "properties": {"provisioningState": "Succeeded"},
    }


def get(call: Call) -> Answer:
    """The subscription."""
    return Answer(200, _subscription(call))


def listed(call: Call) -> Answer:
    """The subscriptions a principal may see: one that holds a role in it."""
    subscription = _subscription(call)
    mine = [one for one in call.cloud.grants.all() if one.principal_id == call.principal.object_id]
    return Answer(200, {"value": [subscription] if mine else []})


def get_group(call: Call) -> Answer:
    """A resource group."""
    require_group(call)
    return Answer(200, _group(call))


def list_groups(call: Call) -> Answer:
    """The resource groups."""
    return Answer(200, {"value": [_group(call)]})


def require_group(call: Call) -> None:
    """Refuse a resource group that does not exist."""
    if call.values["group"].lower() != call.cloud.place.resource_group.lower():
        raise errors.no_resource_group(call.values["group"])


SUBSCRIPTION = "/subscriptions/{subscription}"
OPERATIONS = (
    Operation("GET", "/subscriptions", "", listed),
    Operation("GET", SUBSCRIPTION, "Microsoft.Resources/subscriptions/read", get),
    Operation("GET", f"{SUBSCRIPTION}/resourceGroups", GROUP_READ, list_groups, over=SUBSCRIPTION),
    Operation("GET", f"{SUBSCRIPTION}/resourceGroups/{{group}}", GROUP_READ, get_group),
)
