# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual network gateways: made and changed by operations that take their time."""

from __future__ import annotations

import copy
import uuid

from testbed.azure.arm import errors
from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import require_group
from testbed.azure.network import profile, rules
from testbed.azure.network.store import (
    GROUP,
    NAMESPACE,
    Json,
    Resources,
    accepted,
    begin,
    deleted,
    headers,
    require_idle,
    require_join,
    require_match,
    required,
    resource_id,
)

KIND = "virtualNetworkGateways"
GATEWAYS = f"{GROUP}/providers/{NAMESPACE}/{KIND}"
GATEWAY = f"{GATEWAYS}/{{gateway}}"
ACTION = f"{NAMESPACE}/{KIND}"
SUBNET_NAME = "GatewaySubnet"


def _place(call: Call, properties: Json, id_: str) -> tuple[Json, Json]:
    """The VNet and the address that a gateway names, or the refusal of what is not there."""
    configurations = properties.get("ipConfigurations") or []
    if not configurations:
        message = "A virtual network gateway must have at least one IP configuration."
        raise errors.invalid(message, "VirtualNetworkGatewayIpConfigurationNotSpecified")
    known = configurations[0].get("properties") or {}
    subnet, address = (str((known.get(name) or {}).get("id") or "") for name in ("subnet", "publicIPAddress"))
    resources = Resources(call.cloud)
    vnet, found = resources.find(subnet.partition("/subnets/")[0]), resources.find(address)
    names = [one["name"] for one in (vnet or {}).get("properties", {}).get("subnets", ())]
    if vnet is None or subnet.rpartition("/")[2] != SUBNET_NAME or SUBNET_NAME not in names:
        raise _missing(subnet or SUBNET_NAME, id_)
    if found is None:
        raise _missing(address, id_)
    require_join(call, subnet)
    require_join(call, address)
    for other in resources.all(KIND):
        same = other["properties"]["ipConfigurations"][0]["properties"]["subnet"]["id"].lower()
        kind = other["properties"]["gatewayType"]
        if (
            other["id"].lower() != id_.lower()
            and same == subnet.lower()
            and kind == properties["gatewayType"]
        ):
            message = f"Subnet {subnet} has a gateway of type {kind} already: {other['id']}."
            raise errors.invalid(message, "OnlyOneGatewayOfTypeAllowedInVirtualNetwork")
    return vnet, found


def _missing(what: str, id_: str) -> ArmError:
    message = f"Resource {what} referenced by resource {id_} was not found."
    return errors.invalid(message, "InvalidResourceReference")


def put(call: Call) -> Answer:
    """Make or change a gateway; Azure takes half an hour for a new one, and minutes for a change."""
    require_group(call)
    id_, body = resource_id(call.cloud, KIND, call.values["gateway"]), call.body()
    there = Resources(call.cloud).find(id_)
    require_match(call, there)
    require_idle(there)
    properties: Json = copy.deepcopy(body.get("properties") or {})
    if not body.get("location"):
        raise errors.invalid("The location property is required for this definition.", "LocationRequired")
    vnet, address = _place(call, properties, id_)
    settings = call.cloud.database.settings
    rules.check(
        properties,
        vnet["properties"]["addressSpace"]["addressPrefixes"],
        address.get("zones") or (),
        settings.gateway_sku_unavailable,
    )
    for index, one in enumerate(properties["ipConfigurations"]):
        name = one.get("name") or f"default{index}"
        properties["ipConfigurations"][index] = {**one, "name": name, "id": f"{id_}/ipConfigurations/{name}"}
    guid = (there or {}).get("properties", {}).get("resourceGuid") or str(uuid.uuid4())
    gateway: Json = {
        "id": id_,
        "name": call.values["gateway"],
        "type": ACTION,
        "location": body["location"],
        "tags": body.get("tags") or {},
        "properties": {**properties, "resourceGuid": guid},
    }
    seconds = settings.gateway_update_seconds if there else settings.gateway_seconds
    return accepted(call, gateway, new=there is None, seconds=seconds, failure=settings.gateway_failure)


def get(call: Call) -> Answer:
    """One gateway."""
    return Answer(200, required(call, KIND, call.values["gateway"]))


def listed(call: Call) -> Answer:
    """The gateways of the resource group."""
    require_group(call)
    return Answer(200, page(call, Resources(call.cloud).all(KIND)))


def delete(call: Call) -> Answer:
    """Delete a gateway."""
    require_group(call)
    there = Resources(call.cloud).find(resource_id(call.cloud, KIND, call.values["gateway"]))
    if there is None:
        return Answer(204)
    require_idle(there)
    return deleted(call, there, call.cloud.database.settings.gateway_update_seconds)


def generate(call: Call) -> Answer:
    """Generate the profile of clients: its end is the URL of an archive, as a JSON text."""
    gateway = required(call, KIND, call.values["gateway"])
    require_idle(gateway)
    clients = gateway["properties"].get("vpnClientConfiguration")
    if not clients:
        message = f"Gateway {gateway['id']} has no VPN client configuration."
        raise errors.invalid(message, "VpnClientConfigurationNotSpecified")
    url = profile.offer(call.cloud, clients.get("vpnClientProtocols") or [])
    name = begin(call, call.cloud.database.settings.profile_seconds, url)
    found = headers(call, name, result=True)
    del found["Azure-AsyncOperation"]  # this one is asked after at its Location alone
    return Answer(202, None, found)


OPERATIONS = (
    Operation("GET", GATEWAYS, f"{ACTION}/read", listed, over=GROUP),
    Operation("GET", GATEWAY, f"{ACTION}/read", get),
    Operation("PUT", GATEWAY, f"{ACTION}/write", put),
    Operation("DELETE", GATEWAY, f"{ACTION}/delete", delete),
    Operation(
        "POST", f"{GATEWAY}/generatevpnprofile", f"{ACTION}/generatevpnprofile/action", generate, over=GATEWAY
    ),
    Operation(
        "POST",
        f"{GATEWAY}/generatevpnclientpackage",
        f"{ACTION}/generatevpnclientpackage/action",
        generate,
        over=GATEWAY,
    ),
)
