# SPDX-License-Identifier: GPL-3.0-or-later
"""What AKS does by itself with the Nodes of a pool: in the real cluster, with Nodes that have no machines."""

from __future__ import annotations

from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from testbed.azure import Azure
from testbed.layout import versions
from tests.contract.pools.preview import POOL, Calls, refused
from tests.contract.pools.standins import StandIns

OLD, NEW = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES
DELETING = "kubernetes.azure.com/flex-node-deleting=true:NoSchedule"
NAMES = ("contract-1", "contract-2", "contract-3", "contract-4")


@pytest.fixture(autouse=True)
def time_limits(azure: Azure) -> None:
    """An act that goes wrong ends the test, it does not keep it waiting."""
    azure.settings(upgrade_seconds=20, drain_seconds=20)


@pytest.fixture
def joined(calls: Calls, nodes: StandIns) -> dict[str, str]:
    """Four machines at the old version with their Nodes; the uids of the Nodes."""
    calls.put_pool(orchestrator_version=OLD)
    for name in NAMES:
        calls.put_machine(name)
    return {name: nodes.join(name, OLD) for name in NAMES}


def steps(azure: Azure, kind: str, machine: str) -> list[str]:
    return [one.step for one in azure.acts() if (one.kind, one.machine) == (kind, machine)]


def version_of(calls: Calls) -> Any:
    """What a machine that follows its goal would install."""
    return lambda name: calls.machine(name).properties.kubernetes.current_orchestrator_version


def test_labels_and_taints_come_onto_the_node(calls: Calls, nodes: StandIns, pool: Any) -> None:
    calls.put_machine("contract-1", node_labels={"a": "1", "b": "1"}, node_taints=["old=1:NoSchedule"])
    nodes.join("contract-1", NEW, {"a": "1", "b": "1", "own": "kept"})
    calls.put_machine("contract-1", node_labels={"a": "2", "c": "3"}, node_taints=["new=1:NoExecute"])
    nodes.until("the labels", lambda: nodes.labels("contract-1").get("a") == "2")
    found = nodes.labels("contract-1")
    assert "b" not in found
    assert (found["c"], found["own"], found["kubernetes.azure.com/managed"]) == ("3", "kept", "false")
    assert nodes.taints("contract-1") == {"new=1:NoExecute"}
    calls.put_machine("contract-1", node_labels={"a": "2", "c": "3"})
    nodes.until("the taint to go", lambda: not nodes.taints("contract-1"))
    assert nodes.node("contract-1")["metadata"]["labels"]["a"] == "2"


def test_a_region_that_does_not_patch(azure: Azure, calls: Calls, nodes: StandIns, pool: Any) -> None:
    azure.settings(patch_nodes=False)
    before = calls.put_machine("contract-1", node_labels={"a": "1"})
    nodes.join("contract-1", NEW, {"a": "1"})
    after = calls.put_machine("contract-1", node_labels={"a": "2"})
    assert after.properties.e_tag != before.properties.e_tag
    nodes.until("the act", lambda: steps(azure, "patch", "contract-1") == ["goal"])
    assert nodes.labels("contract-1")["a"] == "1"


def test_a_new_version_of_a_machine_touches_no_node(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str]
) -> None:
    calls.put_machine("contract-1", orchestrator_version=NEW)
    assert nodes.node("contract-1")["metadata"]["uid"] == joined["contract-1"]
    assert azure.acts() == []


@pytest.mark.parametrize(("budget", "most"), [("1", 1), ("50%", 2)])
def test_an_upgrade_goes_by_the_budget(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str], budget: str, most: int
) -> None:
    nodes.pod("contract-pod", "contract-2")
    tags = {name: calls.machine(name).properties.e_tag for name in NAMES}
    settings = calls.models.AgentPoolUpgradeSettings(max_unavailable=budget)
    with nodes.coming_back(version_of(calls), *NAMES):
        done = calls.put_pool(orchestrator_version=NEW, upgrade_settings=settings)
    assert (done.provisioning_state, done.current_orchestrator_version) == ("Succeeded", NEW)
    assert "contract-pod" not in nodes.pods()
    for name in NAMES:
        node = nodes.node(name)
        assert node["metadata"]["uid"] != joined[name]
        assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{NEW}"
        assert steps(azure, "upgrade", name) == ["goal", "cordon", "drain", "delete", "done"]
        machine = calls.machine(name).properties
        assert machine.kubernetes.orchestrator_version == NEW
        assert machine.e_tag != tags[name]
    down, worst = set(), 0
    for act in azure.acts():
        down |= {act.machine} if act.step == "cordon" else set()
        worst = max(worst, len(down))
        down -= {act.machine} if act.step == "done" else set()
    assert worst == most


def test_an_upgrade_stops_when_a_machine_does_not_come_back(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str]
) -> None:
    azure.settings(upgrade_seconds=8)
    with nodes.coming_back(lambda _: OLD, *NAMES), pytest.raises(HttpResponseError) as caught:
        calls.put_pool(orchestrator_version=NEW)
    reason = f"contract-1 is not Ready at version {NEW}: its Node is Ready at version {OLD}"
    assert reason in str(caught.value)
    assert [nodes.node(name)["metadata"]["uid"] for name in NAMES[1:]] == [joined[name] for name in NAMES[1:]]
    failed = calls.pool()
    assert (failed.provisioning_state, failed.orchestrator_version) == ("Failed", NEW)
    assert failed.current_orchestrator_version == OLD
    assert failed.status.provisioning_error.code == "UpgradeFailed"
    azure.settings(upgrade_seconds=60)
    with nodes.coming_back(version_of(calls), *NAMES):
        calls.sdk.agent_pools.begin_create_or_update("testbed", "testbed", POOL, failed).result()
    assert calls.pool().provisioning_state == "Succeeded"
    assert nodes.node("contract-4")["status"]["nodeInfo"]["kubeletVersion"] == f"v{NEW}"


def test_a_budget_of_pods_stops_a_drain(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str]
) -> None:
    azure.settings(drain_seconds=2)
    nodes.pod("contract-pod", "contract-1")
    nodes.budget("contract-pod")
    with pytest.raises(HttpResponseError, match="default/contract-pod"):
        calls.put_pool(orchestrator_version=NEW)
    assert nodes.node("contract-1")["metadata"]["uid"] == joined["contract-1"]
    assert "contract-pod" in nodes.pods()


def test_a_machine_without_a_node_takes_its_goal_and_nobody_waits_for_it(calls: Calls) -> None:
    calls.put_pool(orchestrator_version=OLD)
    calls.put_machine("contract-9")
    calls.put_pool(orchestrator_version=NEW)
    assert calls.machine("contract-9").properties.kubernetes.orchestrator_version == NEW


def test_one_operation_at_a_time(azure: Azure, calls: Calls, joined: dict[str, str]) -> None:
    azure.settings(service_stop_after="cordon")
    poller = calls.sdk.agent_pools.begin_create_or_update(
        "testbed", "testbed", POOL, calls.pool_body(orchestrator_version=NEW)
    )
    assert calls.pool().provisioning_state == "Upgrading"
    assert calls.sdk.managed_clusters.get("testbed", "testbed").provisioning_state == "Updating"
    for call in (
        lambda: calls.put_pool("other"),
        lambda: calls.put_pool(max_pods=50),
        calls.delete_pool,
        lambda: calls.delete_machines("contract-1"),
    ):
        with pytest.raises(HttpResponseError) as caught:
            call()
        assert refused(caught) == (409, "OperationNotAllowed")
    azure.end_acts()
    with pytest.raises(HttpResponseError):
        poller.result()
    assert calls.pool().provisioning_state == "Canceled"


@pytest.mark.parametrize(
    ("step", "cordoned", "there"),
    [("goal", False, True), ("cordon", True, True), ("drain", True, True), ("delete", False, False)],
)
def test_an_upgrade_can_be_held(
    azure: Azure,
    calls: Calls,
    nodes: StandIns,
    joined: dict[str, str],
    step: str,
    cordoned: bool,
    there: bool,
) -> None:
    azure.settings(service_stop_after=step)
    poller = calls.sdk.agent_pools.begin_create_or_update(
        "testbed", "testbed", POOL, calls.pool_body(orchestrator_version=NEW)
    )
    nodes.until("the step", lambda: steps(azure, "upgrade", "contract-1")[-1:] == [step])
    assert calls.machine("contract-1").properties.kubernetes.orchestrator_version == NEW
    assert calls.machine("contract-2").properties.kubernetes.orchestrator_version == OLD
    node = nodes.find("contract-1")
    assert (node is not None) == there
    assert bool(node and node["spec"].get("unschedulable")) == cordoned
    azure.settings(service_stop_after="")
    with nodes.coming_back(version_of(calls), *NAMES):
        poller.result()
    assert calls.pool().provisioning_state == "Succeeded"


def test_deleted_machines_leave_by_steps(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str]
) -> None:
    azure.settings(node_removal_seconds=10)
    nodes.pod("contract-pod", "contract-1")
    calls.delete_machines("contract-1", "contract-2")
    assert [one.name for one in calls.machines()] == ["contract-3", "contract-4"]
    for name in NAMES[:2]:
        assert nodes.taints(name) == {DELETING}
        assert nodes.node(name)["spec"]["unschedulable"]
    assert "contract-pod" not in nodes.pods()
    nodes.until(
        "the last step of both",
        lambda: all(steps(azure, "delete", name)[-1:] == ["delete"] for name in NAMES[:2]),
    )
    assert not any(nodes.find(name) for name in NAMES[:2])
    assert steps(azure, "delete", "contract-1") == ["goal", "cordon", "drain", "taint", "delete"]
    assert nodes.node("contract-3")["metadata"]["uid"] == joined["contract-3"]


@pytest.mark.parametrize(
    ("step", "cordoned", "tainted"),
    [("goal", False, False), ("cordon", True, False), ("drain", True, False), ("taint", True, True)],
)
def test_a_deletion_can_be_held(
    azure: Azure,
    calls: Calls,
    nodes: StandIns,
    joined: dict[str, str],
    step: str,
    cordoned: bool,
    tainted: bool,
) -> None:
    azure.settings(service_stop_after=step, node_removal_seconds=0)
    poller = calls.begin_delete_machines("contract-1")
    nodes.until("the step", lambda: steps(azure, "delete", "contract-1")[-1:] == [step])
    assert [one.name for one in calls.machines()] == list(NAMES[1:]), "gone from Azure from the first step on"
    node = nodes.node("contract-1")
    assert bool(node["spec"].get("unschedulable")) == cordoned
    assert (DELETING in nodes.taints("contract-1")) == tainted
    assert not poller.done()
    azure.settings(service_stop_after="")
    poller.result()
    nodes.until("the removal", lambda: nodes.find("contract-1") is None)


def test_a_node_that_joined_again_stays(
    azure: Azure, calls: Calls, nodes: StandIns, joined: dict[str, str]
) -> None:
    azure.settings(node_removal_seconds=60)
    calls.delete_machines("contract-1")
    calls.put_machine("contract-1")
    nodes.close()  # the machine took its Node away, and joins again
    uid = nodes.join("contract-1", NEW)
    nodes.until("the end of the act", lambda: steps(azure, "delete", "contract-1")[-1:] == ["done"])
    assert nodes.node("contract-1")["metadata"]["uid"] == uid
