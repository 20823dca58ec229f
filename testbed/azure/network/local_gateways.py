# SPDX-License-Identifier: GPL-3.0-or-later
"""Local network gateways: what Azure is told about the networks of sites."""

from __future__ import annotations

from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import require_group
from testbed.azure.network.store import (
    GROUP,
    NAMESPACE,
    Json,
    Resources,
    accepted,
    required,
    resource_id,
)

KIND = "localNetworkGateways"
GATEWAYS = f"{GROUP}/providers/{NAMESPACE}/{KIND}"
ACTION = f"{NAMESPACE}/{KIND}"


def put(call: Call) -> Answer:
    """Make or replace one."""
    require_group(call)
    id_, body = resource_id(call.cloud, KIND, call.values["name"]), call.body()
    there = Resources(call.cloud).find(id_)
    gateway: Json = {
        "id": id_,
        "name": call.values["name"],
        "type": ACTION,
        "location": body.get("location"),
        "properties": dict(body.get("properties") or {}),
    }
    return accepted(call, gateway, new=there is None, seconds=0)


def get(call: Call) -> Answer:
    """One of them."""
    return Answer(200, required(call, KIND, call.values["name"]))


def listed(call: Call) -> Answer:
    """Those of the resource group."""
    require_group(call)
    return Answer(200, page(call, Resources(call.cloud).all(KIND)))


OPERATIONS = (
    Operation("GET", GATEWAYS, f"{ACTION}/read", listed, over=GROUP),
    Operation("GET", f"{GATEWAYS}/{{name}}", f"{ACTION}/read", get),
    Operation("PUT", f"{GATEWAYS}/{{name}}", f"{ACTION}/write", put),
)
