# SPDX-License-Identifier: GPL-3.0-or-later
"""The resources of Microsoft.Network, and operations on them that take their time."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any

from testbed.azure.arm import errors, operations
from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation
from testbed.azure.arm.subscriptions import SUBSCRIPTION, require_group
from testbed.azure.cloud import Cloud

Json = dict[str, Any]
NAMESPACE = "Microsoft.Network"
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"
LOCATIONS = f"{SUBSCRIPTION}/providers/{NAMESPACE}/locations/{{location}}"
TABLE = (
    "CREATE TABLE IF NOT EXISTS network_resources (id TEXT PRIMARY KEY, document TEXT NOT NULL,"
    " settles REAL NOT NULL, ends_as TEXT NOT NULL)"
)
GONE = "gone"
"""How a deletion ends."""


def resource_id(cloud: Cloud, kind: str, name: str) -> str:
    """The id of a resource of the testbed's resource group."""
    place = cloud.place
    group = f"/subscriptions/{place.subscription_id}/resourceGroups/{place.resource_group}"
    return f"{group}/providers/{NAMESPACE}/{kind}/{name}"


class Resources:
    """What exists. A resource on which an operation runs is as it will be, but says Updating."""

    def __init__(self, cloud: Cloud) -> None:
        cloud.database.change(TABLE)
        self._database = cloud.database

    def find(self, id_: str) -> Json | None:
        """A resource by its id; what an operation came to is seen from its end on."""
        row = self._row(id_)
        if row and row["settles"] and row["settles"] <= time.time():
            self._settle(row)
            row = self._row(id_)
        return json.loads(row["document"]) if row else None

    def all(self, kind: str) -> list[Json]:
        """All of one kind, such as virtualNetworkGateways."""
        part = f"%/providers/{NAMESPACE}/{kind}/%".lower()
        rows = self._database.rows("SELECT id FROM network_resources WHERE id LIKE ? ORDER BY id", part)
        found = [self.find(row["id"]) for row in rows]
        return [one for one in found if one and one["id"].split("/")[7].lower() == kind.lower()]

    def write(self, document: Json, seconds: float = 0, ends_as: str = "") -> None:
        """Keep a resource; with an end, an operation runs on it for so long."""
        document["etag"] = _new_etag()
        settles = time.time() + seconds if ends_as else 0
        self._database.change(
            "REPLACE INTO network_resources VALUES (?, ?, ?, ?)",
            *(document["id"].lower(), json.dumps(document), settles, ends_as),
        )

    def remove(self, id_: str) -> None:
        """Forget a resource."""
        self._database.change("DELETE FROM network_resources WHERE id = ?", id_.lower())

    def forget(self) -> None:
        """Forget all."""
        self._database.change("DELETE FROM network_resources")

    def _row(self, id_: str) -> Json | None:
        return self._database.row("SELECT * FROM network_resources WHERE id = ?", id_.lower())

    def _settle(self, row: Json) -> None:
        """What an operation comes to, unless another request has written the resource meanwhile."""
        same = row["id"], row["settles"]
        if row["ends_as"] == GONE:
            self._database.change("DELETE FROM network_resources WHERE id = ? AND settles = ?", *same)
            return
        document = json.loads(row["document"])
        document["properties"]["provisioningState"] = row["ends_as"]
        document["etag"] = _new_etag()
        self._database.change(
            "UPDATE network_resources SET document = ?, settles = 0, ends_as = ''"
            " WHERE id = ? AND settles = ?",
            json.dumps(document),
            *same,
        )


def _new_etag() -> str:
    return f'W/"{uuid.uuid4()}"'


def required(call: Call, kind: str, name: str) -> Json:
    """A resource, or the refusal that it is not there."""
    require_group(call)
    found = Resources(call.cloud).find(resource_id(call.cloud, kind, name))
    if found is None:
        raise errors.no_resource(f"{NAMESPACE}/{kind}", name, call.values["group"])
    return found


def require_idle(resource: Mapping[str, Any] | None) -> None:
    """Refuse a second operation on a resource."""
    if resource and resource["properties"]["provisioningState"] in ("Updating", "Deleting"):
        message = (
            f"Another operation on this or dependent resource is in progress: {resource['id']}. To retrieve "
            "status of the operation use uri in its Azure-AsyncOperation header."
        )
        raise ArmError(409, "AnotherOperationInProgress", message)


def require_match(call: Call, resource: Mapping[str, Any] | None) -> None:
    """Refuse a write that starts from an older version, and one that must create what is there."""
    if call.headers.get("if-none-match") == "*" and resource is not None:
        message = f"Precondition failed. The resource {resource['id']} exists."
        raise ArmError(412, "PreconditionFailed", message)
    wanted = call.headers.get("if-match")
    if wanted and (resource is None or wanted != resource["etag"]):
        message = f"Precondition failed. ETag provided in if-match header {wanted} does not match."
        raise ArmError(412, "PreconditionFailed", message)


def require_join(call: Call, id_: str) -> None:
    """Who puts something into a subnet or onto an address needs a right there, too."""
    principal, parts = call.principal, id_.split("/providers/")[1].split("/")
    action = "/".join([parts[0], *parts[1::2], "join", "action"])
    if not call.cloud.grants.allows(principal.object_id, action, id_):
        message = (
            f"The client '{principal.client_id}' with object id '{principal.object_id}' has permission to "
            f"perform the write, but does not have permission to perform action '{action}' over scope "
            f"'{id_}'."
        )
        raise ArmError(403, "LinkedAuthorizationFailed", message)


def begin(call: Call, seconds: float, result: Any = None, failure: tuple[str, str] | None = None) -> str:
    """Note an operation; its name. A failure is its code and message."""
    name, now = str(uuid.uuid4()), time.time()
    call.cloud.database.change(
        "INSERT INTO operations VALUES (?, ?, ?, ?)", name, now, now + seconds, json.dumps(result)
    )
    if failure:
        call.cloud.database.change("INSERT INTO operation_errors VALUES (?, 'Failed', ?, ?)", name, *failure)
    return name


def headers(call: Call, name: str, *, result: bool) -> dict[str, str]:
    """What leads a client to an operation; with `result`, also to what it came to."""
    place = call.cloud.place
    base = LOCATIONS.format(subscription=place.subscription_id, location=place.location)
    version = f"?api-version={call.query['api-version']}"
    found = {"Azure-AsyncOperation": f"{place.origin}{base}/operations/{name}{version}"}
    if result:
        found["Location"] = f"{place.origin}{base}/operationResults/{name}{version}"
    return {**found, "Retry-After": "0"}


OPERATIONS = (
    Operation("GET", f"{LOCATIONS}/operations/{{name}}", "", operations.status),
    Operation("GET", f"{LOCATIONS}/operationResults/{{name}}", "", operations.result),
)


def accepted(call: Call, document: Json, *, new: bool, seconds: float, failure: str = "") -> Answer:
    """Write a resource by an operation of some seconds; one of none is finished at once."""
    told = (failure, f"The operation on {document['id']} failed.") if failure else None
    document["properties"]["provisioningState"] = "Updating" if seconds or told else "Succeeded"
    ends_as = "Failed" if told else "Succeeded" if seconds else ""
    Resources(call.cloud).write(document, seconds, ends_as)
    name = begin(call, seconds, None, told)
    return Answer(201 if new else 200, document, headers(call, name, result=False))


def deleted(call: Call, document: Json, seconds: float) -> Answer:
    """Delete a resource by an operation of some seconds."""
    document["properties"]["provisioningState"] = "Deleting"
    Resources(call.cloud).write(document, seconds, GONE)
    return Answer(202, None, headers(call, begin(call, seconds), result=True))
