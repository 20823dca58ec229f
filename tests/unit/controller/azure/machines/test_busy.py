# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines of a pool that is busy: Azure refuses what is asked of it, and its list is late."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureRefuses,
    AzureUnavailable,
    ChangedMeanwhile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import Login
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines import life
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.api import (
    CLUSTER_API_VERSION,
    Pools,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.busy import (
    Idle,
    Patience,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.fleet import (
    keep_absent,
    keep_present,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.plan import Wanted
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.pool import WantedPool
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId
from tests.contract.recorded import Recorded, aks, network
from tests.unit.controller.fake_azure import CLUSTER, FakeAzure, Fault, refusal
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Answer, answer_json

HOME = ArmId.parse(CLUSTER)
WHY = "Another operation (upgrade) is in progress"
BUSY = refusal(409, "OperationNotAllowed", WHY)
PUT, DELETE, LIST = "PUT .*/machines/", "POST .*/deleteMachines", r"GET .*/machines\?"
FOREVER = 10**6


@pytest.fixture
def pools(azure: FakeAzure, login: Login) -> Pools:
    azure.pools.add("edge")
    return Pools(Arm(login, "2026-05-02-preview", poll_interval=0), HOME)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def patience(clock: FakeClock, told: list[str]) -> Patience:
    return Patience(f"{CLUSTER}/agentPools/edge", clock, pause=5, seconds=600, tell=told.append)


def test_machines_are_written_and_deleted_after_the_other_operation(
    azure: FakeAzure, pools: Pools, patience: Patience, clock: FakeClock, told: list[str]
) -> None:
    azure.faults = [Fault(PUT, BUSY, 3), Fault(DELETE, BUSY, 2)]
    (created,) = keep_present(pools, "edge", [Wanted("edge-1")], None, patience, check=False)
    assert (created.action.kind, azure.asked(PUT), clock.naps) == ("created", 4, [5, 5, 5])
    assert told == [f"edge: waiting for another operation (OperationNotAllowed: {WHY}), 0 of 600 s"], (
        "a line a minute"
    )
    (deleted,) = keep_absent(pools, "edge", ["edge-1"], patience, check=False)
    assert (deleted.action.kind, azure.asked(DELETE)) == ("deleted", 3)
    assert azure.pools.machines["edge"] == {}


def test_what_the_upgrade_changed_is_read_again(azure: FakeAzure, pools: Pools, patience: Patience) -> None:
    """It gives the machine another eTag; a version that is wanted is written over it all the same."""
    azure.pools.add_machine("edge", "edge-1")

    def refused_once() -> None:
        azure.pools.before_put = None
        azure.pools.add_machine("edge", "edge-1", nodeLabels={"theirs": "yes"})

    azure.pools.before_put = refused_once
    azure.faults = [Fault(PUT, BUSY)]
    wanted = [Wanted("edge-1", version="1.34.5")]
    (done,) = keep_present(pools, "edge", wanted, None, patience, check=False)
    known = azure.pools.machines["edge"]["edge-1"]["kubernetes"]
    assert (done.action.kind, known["orchestratorVersion"]) == ("updated", "1.34.5")
    assert known["nodeLabels"]["theirs"] == "yes"


def test_an_upgrade_that_takes_longer_is_one_error_for_all_machines(
    azure: FakeAzure, pools: Pools, patience: Patience, told: list[str]
) -> None:
    azure.faults = [Fault(PUT, BUSY, FOREVER)]
    with pytest.raises(AzureUnavailable, match=r"does not finish .*Another operation .*, after 600 s"):
        keep_present(pools, "edge", [Wanted("edge-1"), Wanted("edge-2")], None, patience, check=False)
    assert 5 <= len(told) <= 11
    assert azure.pools.machines["edge"] == {}
    azure.pools.add_machine("edge", "edge-1")
    azure.faults = [Fault(DELETE, BUSY, FOREVER)]
    with pytest.raises(AzureUnavailable, match="operation_timeout waits longer"):
        keep_absent(pools, "edge", ["edge-1"], patience, check=False)


def test_another_refusal_is_not_waited_for(azure: FakeAzure, pools: Pools, patience: Patience) -> None:
    azure.faults = [Fault(PUT, refusal(400, "InvalidParameter", "No."))]
    with pytest.raises(AzureRefuses, match="InvalidParameter"):
        keep_present(pools, "edge", [Wanted("edge-1")], None, patience, check=False)
    assert azure.asked(PUT) == 1


def test_an_operation_that_just_ended_is_waited_for(
    azure: FakeAzure, pools: Pools, patience: Patience, clock: FakeClock, told: list[str]
) -> None:
    """Contradiction 4: AKS says EtagMismatch, though the cluster is Succeeded again."""
    another = aks.ANOTHER_OPERATION.at().sent(Answer)
    azure.faults = [Fault(PUT, another, 2)]
    (done,) = keep_present(pools, "edge", [Wanted("edge-1")], None, patience, check=False)
    assert (done.action.kind, azure.asked(PUT), clock.naps) == ("created", 3, [5, 5])
    assert "EtagMismatch" in told[0]


def test_what_a_policy_forbids_is_not_waited_for(
    azure: FakeAzure, pools: Pools, patience: Patience, clock: FakeClock
) -> None:
    """Contradiction 4: the same code as of an operation that runs, but it never passes."""
    azure.faults = [Fault(PUT, aks.POLICY.at().sent(Answer), FOREVER)]
    with pytest.raises(AzureRefuses, match="is blocked by node disruption policy"):
        keep_present(pools, "edge", [Wanted("edge-1")], None, patience, check=False)
    assert (azure.asked(PUT), clock.naps) == (1, [])


def test_a_deletion_that_azure_could_not_finish_is_repeated(
    azure: FakeAzure, login: Login, pools: Pools, clock: FakeClock
) -> None:
    """Contradiction 10: recorded of a VPN gateway; an operation of AKS ends in the same form."""
    failed = network.DELETION_FAILED.at().sent(Answer)
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    azure.pools.add_machine("edge", "edge-1")
    azure.faults = [Fault("GET /operations/", failed)]
    idle = Idle(Arm(login, CLUSTER_API_VERSION, 0), HOME, clock, pause=5, seconds=60)
    life.keep_absent(pools, "edge", idle, machines_too=True, check=False)
    assert (azure.pools.pools, azure.asked(DELETE)) == ({}, 2)
    azure.pools.add("edge")
    azure.faults = [Fault("GET /operations/", failed, FOREVER)]
    with pytest.raises(AzureRefuses, match="VmssGatewayDeploymentFailed"):
        pools.delete_machines("edge", ["edge-1"])
    assert azure.asked(DELETE) == 5, "three times, and no more"


@pytest.mark.parametrize("answer", [aks.GROUP_MISSING, aks.CLUSTER_MISSING_AT_GATEWAY, aks.POOL_MISSING])
def test_what_is_gone_with_its_group_is_deleted(azure: FakeAzure, pools: Pools, answer: Recorded) -> None:
    azure.faults = [Fault("DELETE .*/agentPools/edge", answer.at().sent(Answer))]
    pools.delete("edge")


def test_an_etag_that_changes_without_a_write_is_read_again(
    azure: FakeAzure, login: Login, pools: Pools, clock: FakeClock
) -> None:
    """Contradiction 8: while machines join, the pool has another eTag with each read."""
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    idle = Idle(Arm(login, CLUSTER_API_VERSION, 0), HOME, clock, pause=5, seconds=60)
    stale = refusal(412, "PreconditionFailed", "The eTag does not match.")
    azure.faults = [Fault("PUT .*/agentPools/edge", stale, 2)]
    done = life.keep_present(pools, "edge", WantedPool(labels={"site": "lab"}), idle, check=False)
    assert (done.pool["labels"], azure.asked("PUT .*/agentPools/edge")) == ({"site": "lab"}, 3)
    azure.faults = [Fault("PUT .*/agentPools/edge", stale, FOREVER)]
    with pytest.raises(ChangedMeanwhile):
        life.keep_present(pools, "edge", WantedPool(labels={"site": "x"}), idle, check=False)
    assert azure.asked("PUT .*/agentPools/edge") == 8


def test_a_list_that_follows_late_is_asked_for_again(
    azure: FakeAzure, pools: Pools, patience: Patience, clock: FakeClock
) -> None:
    azure.pools.add_machine("edge", "edge-1")
    before = answer_json({"value": [azure.pools._machine("edge", "edge-1")]})
    azure.faults = [Fault(LIST, before, 4)]  # the first is read before the deletion
    (done,) = keep_absent(pools, "edge", ["edge-1"], patience, check=False)
    assert (done.action.kind, azure.asked(DELETE), clock.naps) == ("deleted", 1, [5, 5, 5])


def test_a_pool_is_deleted_with_machines_that_stay_listed_for_a_while(
    azure: FakeAzure, login: Login, pools: Pools, clock: FakeClock
) -> None:
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    azure.pools.add_machine("edge", "edge-1")
    before = answer_json({"value": [azure.pools._machine("edge", "edge-1")]})
    azure.faults = [Fault(LIST, before, 3), Fault(DELETE, BUSY)]
    idle = Idle(Arm(login, CLUSTER_API_VERSION, 0), HOME, clock, pause=5, seconds=60)
    life.keep_absent(pools, "edge", idle, machines_too=True, check=False)
    assert (azure.pools.pools, azure.asked(DELETE)) == ({}, 2)
