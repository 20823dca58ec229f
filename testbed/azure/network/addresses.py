# SPDX-License-Identifier: GPL-3.0-or-later
"""Public IP addresses."""

from __future__ import annotations

from testbed.azure.arm import errors
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import require_group
from testbed.azure.network.store import (
    GROUP,
    NAMESPACE,
    Json,
    Resources,
    accepted,
    begin,
    headers,
    require_idle,
    require_match,
    required,
    resource_id,
)

KIND = "publicIPAddresses"
ADDRESSES = f"{GROUP}/providers/{NAMESPACE}/{KIND}"
ADDRESS = f"{ADDRESSES}/{{address}}"
ACTION = f"{NAMESPACE}/{KIND}"


def user_of(call: Call, address_id: str) -> str:
    """The IP configuration that has an address; empty: none."""
    for gateway in Resources(call.cloud).all("virtualNetworkGateways"):
        for one in gateway["properties"].get("ipConfigurations") or ():
            if one["properties"]["publicIPAddress"]["id"].lower() == address_id.lower():
                return str(one["id"])
    return ""


def put(call: Call) -> Answer:
    """Make or replace an address."""
    require_group(call)
    id_, body = resource_id(call.cloud, KIND, call.values["address"]), call.body()
    there = Resources(call.cloud).find(id_)
    require_match(call, there)
    require_idle(there)
    sku = (body.get("sku") or {}).get("name", "Basic")
    given = body.get("properties") or {}
    if sku == "Standard" and given.get("publicIPAllocationMethod") != "Static":
        message = "Standard sku public IP addresses must have their allocation method set to Static."
        raise errors.invalid(message, "StandardSkuPublicIPAddressesMustBeStatic")
    if sku == "Basic":
        message = "Basic sku public IP addresses can no longer be created."
        raise errors.invalid(message, "IPv4BasicSkuPublicIpCountLimitReached")
    address: Json = {
        "id": id_,
        "name": call.values["address"],
        "type": ACTION,
        "location": body.get("location"),
        "tags": body.get("tags") or {},
        "sku": {"name": sku, "tier": "Regional"},
        **({"zones": body["zones"]} if body.get("zones") else {}),
        "properties": {**given, "ipAddress": "203.0.113.7"},
    }
    return accepted(call, address, new=there is None, seconds=call.cloud.database.settings.network_seconds)


def get(call: Call) -> Answer:
    """One address, with who has it."""
    found = required(call, KIND, call.values["address"])
    if user := user_of(call, found["id"]):
        found["properties"]["ipConfiguration"] = {"id": user}
    return Answer(200, found)


def listed(call: Call) -> Answer:
    """The addresses of the resource group."""
    require_group(call)
    return Answer(200, page(call, Resources(call.cloud).all(KIND)))


def delete(call: Call) -> Answer:
    """Delete an address that nobody has."""
    require_group(call)
    found = Resources(call.cloud).find(resource_id(call.cloud, KIND, call.values["address"]))
    if found is None:
        return Answer(204)
    if user := user_of(call, found["id"]):
        message = f"Public IP address {found['id']} can not be deleted since it is still allocated to {user}."
        raise errors.invalid(message, "PublicIPAddressCannotBeDeleted")
    Resources(call.cloud).remove(found["id"])
    return Answer(202, None, headers(call, begin(call, 0), result=True))


OPERATIONS = (
    Operation("GET", ADDRESSES, f"{ACTION}/read", listed, over=GROUP),
    Operation("GET", ADDRESS, f"{ACTION}/read", get),
    Operation("PUT", ADDRESS, f"{ACTION}/write", put),
    Operation("DELETE", ADDRESS, f"{ACTION}/delete", delete),
)
