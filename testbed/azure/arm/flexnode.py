# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.ContainerService/managedClusters/flexNodeConfig: the configuration of one node, and how it is."""

from __future__ import annotations

import re
from typing import Any

from testbed.azure.arm import errors, managed_clusters, operations
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.provider import bundle
from testbed.azure.provider.bundle import Invalid
from testbed.azure.provider.nodes import Node
from testbed.azure.provider.provider import Issued

KIND = f"{managed_clusters.KIND}/flexNodeConfig"
VERSIONS = ("2026-05-01-preview",)
NODES = f"{managed_clusters.CLUSTER}/flexNodeConfig"
NODE = f"{NODES}/{{node}}"
NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*")
NOTE = "ARM resource deleted. Node machine lifecycle (stop/start/destroy) must be managed separately."


def _id(call: Call, name: str) -> str:
    return f"{call.cloud.place.cluster_id}/flexNodeConfig/{name}"


def _envelope(call: Call, name: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {"id": _id(call, name), "name": name, "type": KIND, "properties": properties}


def _state(node: Node) -> dict[str, Any]:
    return {"provisioningState": node.provisioning_state, "configVersion": str(node.config_version)}


def _url(issued: Issued) -> dict[str, str]:
    return {"configUrl": issued.url, "configUrlExpires": issued.expires}


def _find(call: Call) -> Node:
    managed_clusters.require(call)
    name, nodes = call.values["node"], call.cloud.provider.nodes
    stale = call.fault and call.fault.stale
    if node := nodes.previous(name) if stale else nodes.find(name):
        return node
    parent = f"{managed_clusters.KIND}/{call.cloud.place.cluster_name}/flexNodeConfig"
    raise errors.no_resource(parent, name, call.values["group"])


def _refuse_while_busy(node: Node | None) -> None:
    if node and node.provisioning_state != "Succeeded":
        raise errors.busy(node.name)


def _shown(call: Call, node: Node) -> dict[str, Any]:
    """A node with its configuration and status, without secrets."""
    config = bundle.document(call.cloud.place, node.name, node.properties, None)
    properties = {
        **_state(node),
        **bundle.without_secrets(node.properties),
        "config": bundle.without_secrets(config),
        "status": call.cloud.provider.status(node.name),
    }
    return _envelope(call, node.name, properties)


def put(call: Call) -> Answer:
    """Create or replace: always a new URL and token, returned if the caller asks for them."""
    managed_clusters.require(call)
    name = call.values["node"].lower()
    if len(name) > 253 or not NAME.fullmatch(name):
        raise errors.invalid(f"The node name '{name}' is not a DNS name.", "InvalidResourceName")
    try:
        properties = bundle.parse(call.body().get("properties"))
    except Invalid as error:
        raise errors.invalid(str(error), "InvalidRequestContent") from error
    provider = call.cloud.provider
    before = provider.nodes.find(name)
    _refuse_while_busy(before)
    created = before is None
    node, issued = provider.put(name, properties)
    url = _url(issued) if call.query.get("configurl", "").lower() == "true" else {}
    body = _envelope(call, name, {**_state(node), **bundle.without_secrets(properties), **url})
    status = 201 if created else 200
    if node.settled <= node.changed:
        return Answer(status, body)
    # What is not there yet cannot be returned: the operation has it when it ends.
    finished = {**body["properties"], "provisioningState": "Succeeded"}
    for key in url:
        del body["properties"][key]
    return Answer(status, body, operations.begin(call, finished))


def get(call: Call) -> Answer:
    """One node."""
    return Answer(200, _shown(call, _find(call)))


def listed(call: Call) -> Answer:
    """Every node with its status, without its configuration."""
    managed_clusters.require(call)
    provider = call.cloud.provider
    items = [
        _envelope(
            call,
            node.name,
            {**_state(node), **bundle.without_secrets(node.properties), "status": provider.status(node.name)},
        )
        for node in provider.nodes.all()
    ]
    return Answer(200, page(call, items))


def delete(call: Call) -> Answer:
    """Delete a node: URL and token are revoked, the machine is not touched."""
    managed_clusters.require(call)
    provider = call.cloud.provider
    node = provider.nodes.find(call.values["node"])
    if node is None:
        return Answer(204)
    _refuse_while_busy(node)
    cleanup = provider.delete(call.values["node"])
    body = {"status": "Deleted", "cleanup": cleanup, "note": NOTE}
    if call.cloud.database.settings.operation_seconds > 0:
        return Answer(202, None, operations.begin(call, body))
    return Answer(200, body)


def regenerate(call: Call) -> Answer:
    """A new URL and token for a node that is known."""
    node = _find(call)
    _refuse_while_busy(node)
    node, issued = call.cloud.provider.regenerate(node)
    body = {"configVersion": str(node.config_version), **_url(issued)}
    if call.cloud.database.settings.operation_seconds > 0:
        return Answer(202, None, operations.begin(call, body))
    return Answer(200, body)


OPERATIONS = (
    Operation("GET", NODES, f"{KIND}/read", listed, over=managed_clusters.CLUSTER, versions=VERSIONS),
    Operation("GET", NODE, f"{KIND}/read", get, versions=VERSIONS),
    Operation("PUT", NODE, f"{KIND}/write", put, versions=VERSIONS),
    Operation("DELETE", NODE, f"{KIND}/delete", delete, versions=VERSIONS),
    Operation(
        "POST",
        f"{NODE}/regenerateToken",
        f"{KIND}/regenerateToken/action",
        regenerate,
        over=NODE,
        versions=VERSIONS,
    ),
)
