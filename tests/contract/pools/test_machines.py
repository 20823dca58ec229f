# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of a FlexNodes pool: the goal of each node, and its eTag."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError, ResourceNotFoundError

from testbed.azure import Azure
from testbed.layout import versions
from tests.contract.conftest import Worker
from tests.contract.pools.preview import POOL, Calls, plain, refused

ROLE = "Azure Kubernetes Service Contributor Role"
GOAL: dict[str, Any] = {
    "orchestrator_version": versions.KUBERNETES_OLD_PATCH,
    "max_pods": 61,
    "node_labels": {"source": "machine"},
    "node_taints": ["source=machine:NoSchedule"],
}
MANAGED = {"kubernetes.azure.com/managed": "false"}


def test_a_machine_is_created_at_once(azure: Azure, calls: Calls, pool: Any) -> None:
    poller = calls.begin_machine("edge-1", **GOAL)
    assert poller.status() == "Succeeded", "before any question after an operation"
    made = calls.machine("edge-1")
    assert plain(made) == plain(poller.result())
    assert made.id == f"{azure.cluster_id}/agentPools/{POOL}/machines/edge-1"
    assert made.properties.provisioning_state == "Succeeded"
    goal = made.properties.kubernetes
    assert goal.orchestrator_version == goal.current_orchestrator_version == GOAL["orchestrator_version"]
    assert (goal.max_pods, goal.node_taints) == (61, GOAL["node_taints"])
    assert goal.node_labels == {**GOAL["node_labels"], **MANAGED}
    assert goal.node_name == "edge-1"
    puts = [one.status for one in azure.requests() if one.method == "PUT" and "/machines/" in one.path]
    assert puts == [201]


def test_what_a_machine_does_not_say_comes_from_the_pool(calls: Calls) -> None:
    calls.put_pool(max_pods=75, node_labels={"site": "lab-1"}, node_taints=["site=lab-1:NoSchedule"])
    goal = calls.put_machine("edge-1").properties.kubernetes
    assert (goal.max_pods, goal.orchestrator_version) == (75, versions.KUBERNETES)
    assert goal.node_labels == {"site": "lab-1", **MANAGED}
    assert goal.node_taints == ["site=lab-1:NoSchedule"]
    calls.put_pool(max_pods=80, node_labels={"site": "lab-2"})
    assert calls.machine("edge-1").properties.kubernetes.node_labels == {"site": "lab-1", **MANAGED}


def test_the_node_has_its_name_in_small_letters(calls: Calls, pool: Any) -> None:
    made = calls.put_machine("Edge_1")
    assert made.properties.kubernetes.node_name == "edge_1"
    assert plain(calls.machine("EDGE_1")) == plain(made)


def test_the_etag_changes_with_the_goal_and_with_nothing_else(azure: Azure, calls: Calls, pool: Any) -> None:
    tags = [calls.put_machine("edge-1", **GOAL).properties.e_tag]
    assert calls.put_machine("edge-1", **GOAL).properties.e_tag == tags[0]
    assert calls.machine("edge-1").properties.e_tag == tags[0]
    calls.put_machine("edge-2")
    calls.put_pool(node_labels={"site": "lab-3"})
    assert calls.machine("edge-1").properties.e_tag == tags[0]
    changes: tuple[dict[str, Any], ...] = (
        {"orchestrator_version": versions.KUBERNETES},
        {"node_labels": {"source": "other"}},
        {"node_taints": ["source=machine:NoExecute"]},
    )
    tags += [calls.put_machine("edge-1", **{**GOAL, **change}).properties.e_tag for change in changes]
    assert len(set(tags)) == 4
    statuses = [one.status for one in azure.requests() if one.method == "PUT" and "/edge-1" in one.path]
    assert statuses == [201, 200, 200, 200, 200]


def test_labels_and_taints_are_replaced_as_a_whole(calls: Calls, pool: Any) -> None:
    calls.put_machine("edge-1", **GOAL)
    goal = calls.put_machine("edge-1", node_labels={"b": "2"}).properties.kubernetes
    assert goal.node_labels == {"b": "2", **MANAGED}
    assert goal.node_taints is None
    assert (goal.max_pods, goal.orchestrator_version) == (61, GOAL["orchestrator_version"])


def test_an_answer_can_be_sent_back(calls: Calls, pool: Any) -> None:
    made = calls.put_machine("edge-1", **GOAL)
    again = calls.sdk.machines.begin_create_or_update("testbed", "testbed", POOL, "edge-1", made).result()
    assert plain(again) == plain(made)


def test_a_change_by_another_is_noticed(calls: Calls, pool: Any) -> None:
    made = calls.put_machine("edge-1", **GOAL)
    calls.put_machine("edge-1", node_labels={"changed": "by-another"})
    ours = {"etag": made.properties.e_tag, "match_condition": MatchConditions.IfNotModified}
    with pytest.raises(ResourceModifiedError) as caught:
        calls.put_machine("edge-1", **GOAL, **ours)
    assert refused(caught) == (412, "PreconditionFailed")
    for name, condition in (("edge-1", MatchConditions.IfMissing), ("edge-9", MatchConditions.IfPresent)):
        with pytest.raises(HttpResponseError) as unmet:
            calls.put_machine(name, match_condition=condition)
        assert unmet.value.status_code == 412


@pytest.mark.parametrize("form", ['"{}"', "{}", 'W/"{}"', "*"])
def test_forms_of_if_match(azure: Azure, sdk: Worker, calls: Calls, pool: Any, form: str) -> None:
    tag = calls.put_machine("edge-1").properties.e_tag
    clients = sdk(ROLE)
    path = f"{azure.cluster_id}/agentPools/{POOL}/machines/edge-1"
    body = {"properties": {"kubernetes": {"nodeLabels": {"form": "changed"}}}}

    def put(value: str) -> int:
        version = {"api-version": "2026-05-02-preview"}
        return clients.try_with({"If-Match": value}, "PUT", path, body, **version).status_code

    assert put(form.format(tag)) == 200
    if form != "*":
        assert put(form.format(tag)) == 412, "by now it has another one"


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        ({"node_taints": []}, "InvalidParameter"),
        ({"kubelet_config": {"podMaxPids": 100}}, "InvalidParameter"),
        ({"kubelet_disk_type": "OS"}, "InvalidParameter"),
        ({"node_labels": {"kubernetes.azure.com/mode": "system"}}, "InvalidParameter"),
        ({"max_pods": 3}, "InvalidParameter"),
        ({"orchestrator_version": "1.34.90"}, "NodePoolMcVersionIncompatible"),
        ({"orchestrator_version": "latest"}, "InvalidParameter"),
    ],
    ids=str,
)
def test_goals_that_are_refused(calls: Calls, pool: Any, goal: dict[str, Any], expected: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        calls.put_machine("edge-1", **goal)
    assert refused(caught) == (400, expected)
    assert calls.machines() == []


@pytest.mark.parametrize(
    "body",
    [
        {"zones": ["1"], "properties": {}},
        {"properties": {"hardware": {"vmSize": "Standard_D4s_v5"}}},
        {"properties": {"mode": "User"}},
        {"properties": {"tags": {"a": "b"}}},
        {"properties": {"kubernetes": {"maxPods": "61"}}},
        {},
    ],
    ids=str,
)
def test_bodies_that_are_refused(azure: Azure, sdk: Worker, calls: Calls, pool: Any, body: Any) -> None:
    path = f"{azure.cluster_id}/agentPools/{POOL}/machines/edge-1"
    answer = sdk(ROLE).try_send("PUT", path, body, **{"api-version": "2026-05-02-preview"})
    assert answer.status_code == 400
    assert set(answer.json()) == {"code", "details", "message", "subcode"}, "AKS has no envelope"


@pytest.mark.parametrize("name", ["edge.example.org", "-edge", "a" * 41])
def test_names_that_are_refused(calls: Calls, pool: Any, name: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        calls.put_machine(name)
    assert refused(caught) == (400, "InvalidParameter")


def test_max_pods_stay(calls: Calls, pool: Any) -> None:
    calls.put_machine("edge-1", **GOAL)
    with pytest.raises(HttpResponseError) as caught:
        calls.put_machine("edge-1", **{**GOAL, "max_pods": 62})
    assert refused(caught) == (400, "PropertyChangeNotAllowed")


def test_a_put_can_be_a_long_running_operation(azure: Azure, calls: Calls, pool: Any) -> None:
    azure.settings(machine_put_seconds=5)
    poller = calls.begin_machine("edge-1", **GOAL)
    assert calls.machine("edge-1").properties.provisioning_state == "Creating"
    with pytest.raises(HttpResponseError) as caught:
        calls.put_machine("edge-1", node_labels={"b": "2"})
    assert refused(caught) == (409, "OperationNotAllowed")
    assert poller.result().properties.provisioning_state == "Succeeded"
    assert [one for one in azure.requests() if "/operations/" in one.path]
    assert calls.put_machine("edge-1", node_labels={"b": "2"}).properties.provisioning_state == "Succeeded"


def test_a_list_comes_in_pages(azure: Azure, calls: Calls, pool: Any) -> None:
    azure.settings(page_size=2)
    names = [f"edge-{number}" for number in range(5)]
    for name in names:
        calls.put_machine(name)
    azure.forget_requests()
    assert [one.name for one in calls.machines()] == names
    assert len(azure.requests()) == 3
    assert [one.name for one in calls.pools()] == [POOL]


def test_what_is_not_there(calls: Calls, pool: Any) -> None:
    with pytest.raises(ResourceNotFoundError) as caught:
        calls.machine("edge-1")
    assert refused(caught) == (404, "NotFound")
    for call in (lambda: calls.machine("edge-1", "none"), lambda: calls.machines("none")):
        with pytest.raises(ResourceNotFoundError) as caught:
            call()
        assert refused(caught) == (404, "NotFound")


def test_machines_are_deleted_together(azure: Azure, calls: Calls, pool: Any) -> None:
    for name in ("edge-1", "edge-2", "edge-3"):
        calls.put_machine(name)
    azure.forget_requests()
    calls.delete_machines("edge-1", "EDGE-3")
    assert [one.name for one in calls.machines()] == ["edge-2"]
    asked = [(one.method, one.path.split("/")[-2], one.status) for one in azure.requests()]
    assert asked[0] == ("POST", POOL, 202)
    assert ("GET", "operations", 200) in asked
    assert ("GET", "operationresults", 204) in asked


@pytest.mark.parametrize("names", [["edge-9"], []])
def test_machines_that_cannot_be_deleted(calls: Calls, pool: Any, names: list[str]) -> None:
    calls.put_machine("edge-1")
    with pytest.raises(HttpResponseError) as caught:
        calls.delete_machines(*names)
    assert refused(caught) == (400, "InvalidParameter")
    assert [one.name for one in calls.machines()] == ["edge-1"]


@pytest.mark.parametrize(
    ("path", "version", "good"),
    [
        ("", "2026-05-02-preview", True),
        ("", "2026-06-02-preview", True),
        ("", "2026-07-02-preview", True),
        ("", "2025-10-02-preview", False),
        ("", "2026-08-01", False),
        ("/machines", "2025-10-02-preview", True),
        ("/machines", "2026-07-02-preview", True),
        ("/machines", "2026-08-01", False),
        ("/machines/edge-1", "2025-10-02-preview", True),
    ],
)
def test_versions(
    azure: Azure, sdk: Worker, calls: Calls, pool: Any, path: str, version: str, good: bool
) -> None:
    calls.put_machine("edge-1")
    url = f"{azure.cluster_id}/agentPools/{POOL}{path}"
    answer = sdk(ROLE).try_send("GET", url, **{"api-version": version})
    expected = (200, None) if good else (400, "InvalidApiVersionParameter")
    assert (answer.status_code, answer.json().get("error", {}).get("code")) == expected
