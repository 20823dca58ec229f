# SPDX-License-Identifier: GPL-3.0-or-later
"""Long-running operations: a write that takes its time is asked after at a URL of its own."""

from __future__ import annotations

import datetime
import json
import time
import uuid
from typing import Any

from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Answer, Call, Operation
from testbed.azure.arm.subscriptions import SUBSCRIPTION

PROVIDER = f"{SUBSCRIPTION}/providers/Microsoft.ContainerService/locations/{{location}}"
RETRY_SECONDS = "1"


def begin(
    call: Call, result: dict[str, Any] | None, seconds: float | None = None, name: str = ""
) -> dict[str, str]:
    """Note an operation that ends after some seconds, those of the settings by default.

    Returns the headers that lead to it. One of math.inf seconds ends by pools' end_operation().
    """
    name, now = name or str(uuid.uuid4()), time.time()
    if seconds is None:
        seconds = call.cloud.database.settings.operation_seconds
    call.cloud.database.change(
        "INSERT INTO operations VALUES (?, ?, ?, ?)", name, now, now + seconds, json.dumps(result)
    )
    place = call.cloud.place
    base = PROVIDER.format(subscription=place.subscription_id, location=place.location)
    version = f"?api-version={call.query['api-version']}"
    return {
        "Azure-AsyncOperation": f"{place.origin}{base}/operations/{name}{version}",
        "Location": f"{place.origin}{base}/operationresults/{name}{version}",
        "Retry-After": RETRY_SECONDS,
    }


def _find(call: Call) -> dict[str, Any]:
    found = call.cloud.database.row("SELECT * FROM operations WHERE id = ?", call.values["name"].lower())
    if found is None:
        raise ArmError(404, "OperationNotFound", f"The operation '{call.values['name']}' could not be found.")
    return found


def _error(call: Call) -> dict[str, Any] | None:
    return call.cloud.database.row("SELECT * FROM operation_errors WHERE id = ?", call.values["name"].lower())


def _moment(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def status(call: Call) -> Answer:
    """How an operation is doing."""
    found = _find(call)
    body = {"id": call.url.partition("?")[0], "name": found["id"], "startTime": _moment(found["started"])}
    if found["ends"] > time.time():
        return Answer(200, {**body, "status": "InProgress"}, {"Retry-After": RETRY_SECONDS})
    if failed := _error(call):
        error = {"code": failed["code"], "message": failed["message"]}
        ended = {**body, "status": failed["status"], "endTime": _moment(found["ends"]), "error": error}
        return Answer(200, ended)
    ended = {**body, "status": "Succeeded", "endTime": _moment(found["ends"])}
    result = json.loads(found["result"])
    return Answer(200, {**ended, "properties": result} if result else ended)


def result(call: Call) -> Answer:
    """What an operation came to."""
    found = _find(call)
    if found["ends"] > time.time():
        headers = {"Location": call.url, "Retry-After": RETRY_SECONDS}
        return Answer(202, None, headers)
    if failed := _error(call):
        raise ArmError(409, failed["code"], failed["message"])
    body = json.loads(found["result"])
    return Answer(200, body) if body else Answer(204)


# The caller that began an operation may read it: its name cannot be guessed.
OPERATIONS = (
    Operation("GET", f"{PROVIDER}/operations/{{name}}", "", status),
    Operation("GET", f"{PROVIDER}/operationresults/{{name}}", "", result),
)
