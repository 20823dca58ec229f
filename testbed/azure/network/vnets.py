# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual networks and their subnets."""

from __future__ import annotations

import ipaddress
from typing import Any

from testbed.azure.arm import errors
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import require_group
from testbed.azure.cloud import Cloud
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

KIND = "virtualNetworks"
VNETS = f"{GROUP}/providers/{NAMESPACE}/{KIND}"
VNET = f"{VNETS}/{{vnet}}"
SUBNET = f"{VNET}/subnets/{{subnet}}"
ACTION = f"{NAMESPACE}/{KIND}"


def networks(prefixes: list[str]) -> list[Any]:
    """Ranges, or the refusal of what is none."""
    try:
        return [ipaddress.ip_network(prefix) for prefix in prefixes]
    except ValueError as error:
        raise errors.invalid(
            f"An address prefix is not valid: {error}", "InvalidAddressPrefixFormat"
        ) from error


def users_of(call: Call, subnet_id: str) -> list[Json]:
    """The IP configurations of gateways in a subnet, as a subnet shows them."""
    return [
        {"id": one["id"]}
        for gateway in Resources(call.cloud).all("virtualNetworkGateways")
        for one in gateway["properties"].get("ipConfigurations") or ()
        if one["properties"]["subnet"]["id"].lower() == subnet_id.lower()
    ]


def shown(call: Call, vnet: Json) -> Json:
    """A VNet, with who uses its subnets."""
    for subnet in vnet["properties"].get("subnets") or ():
        if users := users_of(call, subnet["id"]):
            subnet["properties"]["ipConfigurations"] = users
    return vnet


def _subnet(vnet_id: str, name: str, body: Json) -> Json:
    given = body.get("properties") or {}
    return {
        "id": f"{vnet_id}/subnets/{name}",
        "name": name,
        "type": f"{ACTION}/subnets",
        "properties": {**given, "provisioningState": "Succeeded"},
    }


def _check_subnets(vnet: Json) -> None:
    space = networks(vnet["properties"]["addressSpace"]["addressPrefixes"])
    taken: list[tuple[str, Any]] = []
    for subnet in vnet["properties"]["subnets"]:
        known = subnet["properties"]
        for network in networks(known.get("addressPrefixes") or [known.get("addressPrefix")]):
            if not any(network.subnet_of(one) for one in space):
                message = f"Subnet '{subnet['name']}' is not valid in virtual network '{vnet['name']}'."
                raise errors.invalid(message, "NetcfgInvalidSubnet")
            for name, other in taken:
                if network.overlaps(other):
                    message = (
                        f"Subnet '{subnet['name']}' is not valid because its IP range overlaps '{name}'."
                    )
                    raise errors.invalid(message, "NetcfgSubnetRangesOverlap")
            taken.append((subnet["name"], network))


def put(call: Call) -> Answer:
    """Make or replace a VNet."""
    require_group(call)
    id_, body = resource_id(call.cloud, KIND, call.values["vnet"]), call.body()
    there = Resources(call.cloud).find(id_)
    require_match(call, there)
    require_idle(there)
    given = body.get("properties") or {}
    if not body.get("location"):
        raise errors.invalid("The location property is required for this definition.", "LocationRequired")
    vnet: Json = {
        "id": id_,
        "name": call.values["vnet"],
        "type": ACTION,
        "location": body["location"],
        "tags": body.get("tags") or {},
        "properties": {
            **given,
            "subnets": [_subnet(id_, one["name"], one) for one in given.get("subnets") or ()],
        },
    }
    _check_subnets(vnet)
    return accepted(call, vnet, new=there is None, seconds=call.cloud.database.settings.network_seconds)


def plant(cloud: Cloud, name: str, space: str, subnets: dict[str, str]) -> Json:
    """A VNet that is there from the start, with subnets by name."""
    id_ = resource_id(cloud, KIND, name)
    vnet: Json = {
        "id": id_,
        "name": name,
        "type": ACTION,
        "location": cloud.place.location,
        "tags": {},
        "properties": {
            "addressSpace": {"addressPrefixes": [space]},
            "subnets": [
                _subnet(id_, inner, {"properties": {"addressPrefix": prefix}})
                for inner, prefix in subnets.items()
            ],
            "provisioningState": "Succeeded",
        },
    }
    _check_subnets(vnet)
    Resources(cloud).write(vnet)
    return vnet


def get(call: Call) -> Answer:
    """One VNet."""
    return Answer(200, shown(call, required(call, KIND, call.values["vnet"])))


def listed(call: Call) -> Answer:
    """The VNets of the resource group."""
    require_group(call)
    return Answer(200, page(call, [shown(call, one) for one in Resources(call.cloud).all(KIND)]))


def delete(call: Call) -> Answer:
    """Delete a VNet that nobody uses."""
    require_group(call)
    vnet = Resources(call.cloud).find(resource_id(call.cloud, KIND, call.values["vnet"]))
    if vnet is None:
        return Answer(204)
    for subnet in shown(call, vnet)["properties"]["subnets"]:
        _require_unused(call, subnet)
    Resources(call.cloud).remove(vnet["id"])
    return Answer(202, None, headers(call, begin(call, 0), result=True))


def _find_subnet(call: Call) -> tuple[Json, Json | None]:
    vnet = required(call, KIND, call.values["vnet"])
    name = call.values["subnet"].lower()
    return vnet, next((one for one in vnet["properties"]["subnets"] if one["name"].lower() == name), None)


def put_subnet(call: Call) -> Answer:
    """Make or replace a subnet."""
    vnet, there = _find_subnet(call)
    require_idle(vnet)
    subnet = _subnet(vnet["id"], call.values["subnet"], call.body())
    others = [one for one in vnet["properties"]["subnets"] if one is not there]
    vnet["properties"]["subnets"] = [*others, subnet]
    _check_subnets(vnet)
    Resources(call.cloud).write(vnet)
    name = begin(call, call.cloud.database.settings.network_seconds)
    return Answer(200 if there else 201, subnet, headers(call, name, result=False))


def get_subnet(call: Call) -> Answer:
    """One subnet."""
    vnet, there = _find_subnet(call)
    if there is None:
        raise errors.no_resource(f"{ACTION}/subnets", call.values["subnet"], call.values["group"])
    shown(call, vnet)
    return Answer(200, there)


def delete_subnet(call: Call) -> Answer:
    """Delete a subnet that nobody uses."""
    vnet, there = _find_subnet(call)
    require_idle(vnet)
    if there is None:
        return Answer(204)
    _require_unused(call, there)
    vnet["properties"]["subnets"] = [one for one in vnet["properties"]["subnets"] if one is not there]
    Resources(call.cloud).write(vnet)
    return Answer(202, None, headers(call, begin(call, 0), result=True))


def _require_unused(call: Call, subnet: Json) -> None:
    if users := users_of(call, subnet["id"]):
        message = f"Subnet {subnet['name']} is in use by {users[0]['id']} and cannot be deleted."
        raise errors.invalid(message, "InUseSubnetCannotBeDeleted")


OPERATIONS = (
    Operation("GET", VNETS, f"{ACTION}/read", listed, over=GROUP),
    Operation("GET", VNET, f"{ACTION}/read", get),
    Operation("PUT", VNET, f"{ACTION}/write", put),
    Operation("DELETE", VNET, f"{ACTION}/delete", delete),
    Operation("GET", SUBNET, f"{ACTION}/subnets/read", get_subnet),
    Operation("PUT", SUBNET, f"{ACTION}/subnets/write", put_subnet),
    Operation("DELETE", SUBNET, f"{ACTION}/subnets/delete", delete_subnet),
)
