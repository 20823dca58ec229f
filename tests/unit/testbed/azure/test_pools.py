# SPDX-License-Identifier: GPL-3.0-or-later
"""What decides about FlexNodes pools: bodies, conditions, budgets, labels and taints, bootstrap data."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from testbed.azure.arm.throttle import Throttle
from testbed.azure.behaviour.settings import Settings
from testbed.azure.pools import bootstrap, nodes, rules
from testbed.azure.pools.budget import at_once, one_by_one
from testbed.azure.pools.refusals import TABLE
from testbed.azure.pools.store import Machine

CONTROL_PLANE = "1.34.4"


@pytest.mark.parametrize(
    ("budget", "size", "expected"),
    [
        ("1", 4, 1),
        ("3", 4, 3),
        ("25%", 4, 1),
        ("26%", 4, 2),
        ("100%", 4, 4),
        ("10%", 1, 1),
        ("1", 0, 1),
    ],
)
def test_a_share_of_a_pool_is_rounded_up(budget: str, size: int, expected: int) -> None:
    assert at_once(budget, size) == expected


def test_never_more_at_a_time_than_allowed() -> None:
    running, most, lock = set[int](), [0], threading.Lock()
    pair = threading.Barrier(2, timeout=5)

    def work(item: int) -> None:
        with lock:
            running.add(item)
            most[0] = max(most[0], len(running))
        pair.wait()  # each pair is there together
        with lock:
            running.discard(item)

    one_by_one(range(6), 2, work)
    assert most == [2]


def test_after_an_error_nothing_else_is_begun() -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 1:
            raise ValueError(item)

    with pytest.raises(ValueError, match="1"):
        one_by_one(range(4), 1, work)
    assert begun == [0, 1]


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.34.4", "1.34.4"), ("1.34.1", "1.34.1"), ("1.34", "1.34.4"), ("1.33", "1.33.13")],
)
def test_versions_in_full(version: str, expected: str) -> None:
    assert rules.full_version(version, CONTROL_PLANE) == expected


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.34.5", "newer"),
        ("1.35", "newer"),
        ("2.0", "newer"),
        ("1.20", "unknown version"),
        ("v1.34.4", "value"),
        ("1", "value"),
    ],
)
def test_versions_that_are_refused(version: str, reason: str) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        rules.full_version(version, CONTROL_PLANE)
    assert getattr(caught.value, "code", "") == TABLE[reason].code


def test_what_only_aks_writes_has_no_effect() -> None:
    body = {"properties": {"type": "FlexNodes", "eTag": "x", "provisioningState": "Failed", "status": {}}}
    assert set(rules.pool(body, None, CONTROL_PLANE)) == {"type", "mode", "orchestratorVersion", "maxPods"}


MACHINE = Machine("edge", "Edge-1", "1.34", "1.34.4", 61, {"a": "1"}, ["a=1:NoSchedule"], "one")


def test_a_goal_that_stays_keeps_its_etag() -> None:
    assert MACHINE.with_goal(labels={"a": "1"}) is MACHINE
    assert MACHINE.with_goal(labels={"a": "2"}).etag != "one"
    assert MACHINE.shown()["kubernetes"]["nodeName"] == "edge-1"


@pytest.mark.parametrize(
    ("headers", "etag", "good"),
    [
        ({}, None, True),
        ({"if-match": '"one"'}, "one", True),
        ({"if-match": "one"}, "one", True),
        ({"if-match": 'W/"two", "one"'}, "one", True),
        ({"if-match": "*"}, "one", True),
        ({"if-match": "*"}, None, False),
        ({"if-match": '"two"'}, "one", False),
        ({"if-none-match": "*"}, None, True),
        ({"if-none-match": "*"}, "one", False),
        ({"if-none-match": '"one"'}, "one", False),
        ({"if-none-match": '"two"'}, "one", True),
    ],
)
def test_conditions(headers: dict[str, str], etag: str | None, good: bool) -> None:
    if good:
        rules.check_etag(headers, etag)
        return
    with pytest.raises(Exception, match=r".") as caught:
        rules.check_etag(headers, etag)
    assert getattr(caught.value, "status", 0) == 412


def test_labels_of_others_stay() -> None:
    assert nodes.new_labels({"a": "1", "b": "1"}, {"a": "2"}) == {
        "a": "2",
        "b": None,
        "kubernetes.azure.com/managed": "false",
    }


def test_a_removed_taint_takes_all_of_its_key_along() -> None:
    there: list[dict[str, Any]] = [
        {"key": "own", "effect": "NoExecute"},
        {"key": "a", "value": "1", "effect": "NoSchedule"},
        {"key": "a", "value": "x", "effect": "NoExecute"},
        {"key": "b", "value": "1", "effect": "NoSchedule"},
    ]
    found = nodes.new_taints(there, ["a=1:NoSchedule", "b=1:NoSchedule"], ["b=2:NoSchedule"])
    assert found == [
        {"key": "own", "effect": "NoExecute"},
        {"key": "b", "value": "2", "effect": "NoSchedule"},
    ]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, False),
        ({"ownerReferences": [{"kind": "ReplicaSet", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "DaemonSet", "controller": True}]}, True),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, True),
    ],
)
def test_pods_that_a_drain_leaves(metadata: dict[str, Any], expected: bool) -> None:
    assert nodes.stays({"metadata": metadata}) == expected


def test_a_merge_patch_adds_and_removes() -> None:
    content = {"a": {"b": 1, "c": 2}, "d": 3}
    patch = {"a": {"b": None, "e": {"f": 4}}, "d": None}
    assert bootstrap.merge(content, patch) == {"a": {"c": 2, "e": {"f": 4}}}
    assert content == {"a": {"b": 1, "c": 2}, "d": 3}


def test_a_bucket_of_another_size_is_full() -> None:
    throttle = Throttle(lambda: 0.0)
    small, usual = Settings(bootstrap_data_burst=1), Settings()
    assert throttle.take_kind("me", "bootstrap_data", small) == (0, 0)
    assert throttle.take_kind("me", "bootstrap_data", small) == (0, 1)
    assert throttle.take_kind("me", "bootstrap_data", usual) == (99, 0)


@pytest.mark.parametrize(
    "values",
    [
        {"service_stop_after": "nowhere"},
        {"service_stop_after": 1},
        {"bootstrap_data_patch": "x"},
        {"patch_nodes": 1},
    ],
)
def test_settings_are_checked(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="it takes"):
        Settings.parse(values)
