# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths, versions, throttling and faults: what decides about a request before anything is done."""

from __future__ import annotations

import re

import pytest

from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.flexnode import OPERATIONS
from testbed.azure.arm.gateway import TABLE
from testbed.azure.arm.operation import Answer, Operation
from testbed.azure.arm.throttle import Throttle
from testbed.azure.behaviour.faults import Fault, Faults
from testbed.azure.behaviour.settings import Settings
from testbed.layout.identifiers import CLUSTER_ID


def find(method: str, path: str) -> tuple[str, dict[str, str]]:
    """The action of the first operation that a request meets, as the gateway looks for it."""
    for one in TABLE:
        if one.method == method and (found := one.pattern.fullmatch(path)):
            return one.action, found.groupdict()
    return "", {}


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", CLUSTER_ID, "Microsoft.ContainerService/managedClusters/read"),
        ("GET", CLUSTER_ID.lower(), "Microsoft.ContainerService/managedClusters/read"),
        (
            "PUT",
            f"{CLUSTER_ID}/flexNodeConfig/a",
            "Microsoft.ContainerService/managedClusters/flexNodeConfig/write",
        ),
        (
            "POST",
            f"{CLUSTER_ID}/flexNodeConfig/a/regenerateToken",
            "Microsoft.ContainerService/managedClusters/flexNodeConfig/regenerateToken/action",
        ),
        (
            "PUT",
            f"{CLUSTER_ID}/providers/Microsoft.Authorization/roleAssignments/x",
            "Microsoft.Authorization/roleAssignments/write",
        ),
        (
            "GET",
            "/providers/Microsoft.Authorization/roleDefinitions",
            "Microsoft.Authorization/roleDefinitions/read",
        ),
        ("PATCH", CLUSTER_ID, ""),
    ],
)
def test_paths_lead_to_operations(method: str, path: str, action: str) -> None:
    assert find(method, path)[0] == action


def test_the_scope_of_an_action_is_the_resource() -> None:
    regenerate = OPERATIONS[-1]
    found = regenerate.pattern.fullmatch(f"{CLUSTER_ID}/flexNodeConfig/a/regenerateToken")
    assert found is not None
    assert regenerate.scope(found.groupdict()) == f"{CLUSTER_ID}/flexNodeConfig/a"


@pytest.mark.parametrize(
    ("known", "version", "good"),
    [
        ((), "2025-01-01", True),
        ((), "2025-01-01-preview", True),
        ((), "1.0", False),
        (("2026-05-01-preview",), "2026-05-01-preview", True),
        (("2026-05-01-preview",), "2025-01-01", False),
        ((), None, False),
    ],
)
def test_versions(known: tuple[str, ...], version: str | None, good: bool) -> None:
    operation = Operation("GET", "/a", "Microsoft.X/a/read", lambda _: Answer(200), versions=known)
    if good:
        operation.check_version(version, "westeurope")
    else:
        with pytest.raises(ArmError) as caught:
            operation.check_version(version, "westeurope")
        assert caught.value.status == 400


def test_a_bucket_empties_and_fills_again() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    settings = Settings(write_burst=2, write_rate=0.5)
    assert [throttle.take("me", "PUT", settings) for _ in range(3)] == [
        ("write", 1, 0),
        ("write", 0, 0),
        ("write", 0, 2),
    ]
    assert throttle.take("you", "PUT", settings) == ("write", 1, 0)
    assert throttle.take("me", "GET", settings)[2] == 0
    now[0] = 2
    assert throttle.take("me", "POST", settings)[2] == 0


def test_a_fault_hits_so_many_times() -> None:
    faults = Faults()
    faults.show(Fault(path="/a$", method="put", times=2), Fault(path="/A", latency=1))
    hits = [faults.pick("PUT", "/x/a") for _ in range(3)]
    assert [hit.latency if hit else None for hit in hits] == [0, 0, 1]
    assert faults.pick("GET", "/b") is None
    faults.show()
    assert faults.pick("PUT", "/x/a") is None


@pytest.mark.parametrize("given", [{"path": "x", "tokens": "y"}, {"path": "x", "token": "y"}, {"path": "("}])
def test_faults_are_checked(given: dict[str, str]) -> None:
    with pytest.raises((ValueError, re.error)):
        Fault.parse(given)
