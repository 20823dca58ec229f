# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.HybridCompute/machines: Arc-enabled servers, each with an identity of its own."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
import uuid
from typing import Any

from testbed.azure.arm import errors, operations
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import SUBSCRIPTION, require_group
from testbed.azure.cloud import Cloud
from testbed.azure.database import Database
from testbed.azure.sign_in.directory import Principal

KIND = "Microsoft.HybridCompute/machines"
LONG_RUNNING = "2026"  # from then on removal is a long-running operation, however short
VERSIONS = ("2024-07-10", "2025-01-13", "2026-07-15")
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"
MACHINES = f"{GROUP}/providers/{KIND}"
MACHINE = f"{MACHINES}/{{machine}}"
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,54}")
COLUMNS = "id TEXT PRIMARY KEY, document TEXT NOT NULL, key TEXT NOT NULL"
TABLE = f"CREATE TABLE IF NOT EXISTS hybrid_machines ({COLUMNS})"


def _database(cloud: Cloud) -> Database:
    cloud.database.change(TABLE)
    return cloud.database


def _id(call: Call) -> str:
    place = call.cloud.place
    group = f"/subscriptions/{place.subscription_id}/resourceGroups/{place.resource_group}"
    return f"{group}/providers/{KIND}/{call.values['machine']}"


def principal_name(resource_id: str) -> str:
    """The name of a machine's identity in the directory."""
    return f"arc {resource_id.lower()}"


def _find(call: Call) -> dict[str, Any] | None:
    row = _database(call.cloud).row("SELECT * FROM hybrid_machines WHERE id = ?", _id(call).lower())
    return json.loads(row["document"]) if row else None


def put(call: Call) -> Answer:
    """Make a machine, or change it; a new one gets a new identity."""
    require_group(call)
    if not NAME.fullmatch(call.values["machine"]):
        raise errors.invalid(
            f"The machine name '{call.values['machine']}' is not valid.", "InvalidResourceName"
        )
    body, there = call.body(), _find(call)
    if not body.get("location") and not there:
        raise errors.invalid("The location property is required for this definition.", "LocationRequired")
    properties = body.get("properties") or {}
    key = str(properties.pop("clientPublicKey", ""))
    identity = call.cloud.directory.register(principal_name(_id(call)))
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    document = {
        "id": _id(call),
        "name": call.values["machine"],
        "type": KIND,
        "location": body.get("location") or (there or {}).get("location"),
        "tags": body.get("tags") or {},
        "identity": {
            "type": "SystemAssigned",
            "principalId": identity.object_id,
            "tenantId": call.cloud.place.tenant_id,
        },
        "properties": {
            "vmId": str(uuid.uuid4()),
            **((there or {}).get("properties") or {}),
            **properties,
            "provisioningState": "Succeeded",
            "status": "Connected",
            "lastStatusChange": now,
        },
    }
    _database(call.cloud).change(
        "INSERT INTO hybrid_machines VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " document = excluded.document, key = CASE WHEN excluded.key = '' THEN key ELSE excluded.key END",
        *(_id(call).lower(), json.dumps(document), key),
    )
    return Answer(200, document)  # for a new one too: what the SDK expects


def get(call: Call) -> Answer:
    """One machine."""
    require_group(call)
    there = _find(call)
    if there is None:
        raise errors.no_resource(KIND, call.values["machine"], call.values["group"])
    return Answer(200, there)


def listed(call: Call) -> Answer:
    """All machines, of the subscription or of its resource group."""
    if "group" in call.values:
        require_group(call)
    rows = _database(call.cloud).rows("SELECT document FROM hybrid_machines ORDER BY id")
    return Answer(200, page(call, [json.loads(row["document"]) for row in rows]))


def delete(call: Call) -> Answer:
    """Remove a machine and its identity; its role assignments stay behind, as in Azure."""
    require_group(call)
    if _find(call) is None:
        return Answer(204)
    _database(call.cloud).change("DELETE FROM hybrid_machines WHERE id = ?", _id(call).lower())
    call.cloud.directory.remove(principal_name(_id(call)))
    if call.query["api-version"] >= LONG_RUNNING or call.cloud.database.settings.operation_seconds:
        return Answer(202, None, operations.begin(call, None))
    return Answer(200)


def identity_of(cloud: Cloud, resource_id: str, key: str) -> Principal | None:
    """The identity of a machine, for the holder of the key that it was registered with."""
    row = _database(cloud).row("SELECT * FROM hybrid_machines WHERE id = ?", resource_id.lower())
    shown = hashlib.sha256(key.encode()).hexdigest()
    if row is None or not row["key"] or not hmac.compare_digest(row["key"], shown):
        return None
    return cloud.directory.register(principal_name(resource_id))


OPERATIONS = (
    Operation("PUT", MACHINE, f"{KIND}/write", put, versions=VERSIONS),
    Operation("GET", MACHINE, f"{KIND}/read", get, versions=VERSIONS),
    Operation("DELETE", MACHINE, f"{KIND}/delete", delete, versions=VERSIONS),
    Operation("GET", MACHINES, f"{KIND}/read", listed, over=GROUP, versions=VERSIONS),
    Operation(
        "GET",
        f"{SUBSCRIPTION}/providers/{KIND}",
        f"{KIND}/read",
        listed,
        over=SUBSCRIPTION,
        versions=VERSIONS,
    ),
)
