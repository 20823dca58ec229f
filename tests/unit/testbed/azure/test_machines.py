# SPDX-License-Identifier: GPL-3.0-or-later
"""Arc-enabled servers in the emulated Azure: made with an identity of their own, and gone with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.azure.arm import hybrid_compute
from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.operation import Call
from testbed.azure.database import Database
from testbed.azure.sign_in.directory import Directory
from testbed.layout.identifiers import SUBSCRIPTION_ID, TENANT_ID

GROUP = f"/subscriptions/{SUBSCRIPTION_ID}/resourceGroups/testbed"
ID = f"{GROUP}/providers/Microsoft.HybridCompute/machines/edge-1"


@pytest.fixture
def cloud(tmp_path: Path) -> Any:
    database = Database(tmp_path / "azure.sqlite")
    place = SimpleNamespace(
        subscription_id=SUBSCRIPTION_ID,
        tenant_id=TENANT_ID,
        resource_group="testbed",
        location="westeurope",
        origin="https://azure",
    )
    return SimpleNamespace(database=database, directory=Directory(database), place=place)


def call(
    cloud: Any, body: Any = None, *, group: str = "testbed", version: str = "2024-07-10", **more: str
) -> Call:
    values = {"subscription": SUBSCRIPTION_ID, "group": group, "machine": "edge-1", **more}
    payload = json.dumps(body).encode() if body is not None else b""
    return Call(cloud, SimpleNamespace(), values, {"api-version": version}, "https://azure/x", payload)  # type: ignore[arg-type]


NEW = {
    "location": "westeurope",
    "tags": {"site": "lab"},
    "properties": {"clientPublicKey": hashlib.sha256(b"key").hexdigest(), "agentVersion": "1.62"},
}


def test_a_machine_has_an_identity_of_its_own(cloud: Any) -> None:
    made = hybrid_compute.put(call(cloud, NEW))
    assert made.status == 200
    assert (made.body["id"], made.body["tags"]) == (ID, {"site": "lab"})
    assert "clientPublicKey" not in made.body["properties"]
    principal = made.body["identity"]["principalId"]
    again = hybrid_compute.put(call(cloud, {**NEW, "tags": {}}))
    assert again.body["identity"]["principalId"] == principal
    assert hybrid_compute.get(call(cloud)).body == again.body
    assert [one["name"] for one in hybrid_compute.listed(call(cloud)).body["value"]] == ["edge-1"]


def test_its_credential_is_for_whoever_has_its_key(cloud: Any) -> None:
    hybrid_compute.put(call(cloud, NEW))
    found = hybrid_compute.identity_of(cloud, ID.lower(), "key")
    assert found is not None
    assert cloud.directory.application(found.client_id) == found
    assert hybrid_compute.identity_of(cloud, ID, "another key") is None
    assert hybrid_compute.identity_of(cloud, f"{ID}0", "key") is None


def test_it_is_gone_with_its_identity(cloud: Any) -> None:
    first = hybrid_compute.put(call(cloud, NEW)).body["identity"]["principalId"]
    assert hybrid_compute.delete(call(cloud)).status == 200
    assert hybrid_compute.delete(call(cloud)).status == 204
    with pytest.raises(ArmError):
        hybrid_compute.get(call(cloud))
    assert cloud.directory.principal(first) is None
    assert hybrid_compute.put(call(cloud, NEW)).body["identity"]["principalId"] != first
    assert hybrid_compute.delete(call(cloud, version="2026-07-15")).status == 202


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (NEW, {"group": "another"}),
        ({"tags": {}}, {}),
        (NEW, {"machine": "not a name"}),
    ],
)
def test_what_is_refused(cloud: Any, body: Any, more: dict[str, Any]) -> None:
    with pytest.raises(ArmError):
        hybrid_compute.put(call(cloud, body, **more))
