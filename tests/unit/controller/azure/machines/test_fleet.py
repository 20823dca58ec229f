# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Machines of a pool, against a server that behaves as Azure does: at protocol level, with the real SDK."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureRefuses,
    AzureUnavailable,
    ChangedMeanwhile,
    NotInAzure,
    PermissionMissing,
    PoolUnusable,
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
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.machines.reading import (
    cluster_facts,
    features,
    missing_actions,
    pools_of,
    with_nodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import NodesFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import (
    MachineUnusable,
    MaxPodsFixed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import Goal
from tests.contract.recorded import aks
from tests.unit.controller.fake_azure import CLUSTER, FakeAzure, Fault, refusal
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import answer_json

VERSION = "2026-05-02-preview"
HOME = ArmId.parse(CLUSTER)
TEN = [Wanted(f"edge-{number}") for number in range(10)]


@pytest.fixture
def pools(azure: FakeAzure, login: Login) -> Pools:
    azure.pools.add("edge")
    return Pools(Arm(login, VERSION, poll_interval=0), HOME)


@pytest.fixture
def idle(login: Login) -> Idle:
    return Idle(Arm(login, CLUSTER_API_VERSION, 0), HOME, FakeClock(), pause=5, seconds=60)


def test_ten_machines_are_one_list_and_ten_puts_and_then_none(azure: FakeAzure, pools: Pools) -> None:
    done = keep_present(pools, "edge", TEN, check=False)
    assert {one.action.kind for one in done} == {"created"}
    assert (azure.asked("GET .*/machines"), azure.asked("PUT .*/machines/")) == (1, 10)
    assert azure.asked("POST .*/oauth2/") == 1
    again = keep_present(pools, "edge", TEN, check=False)
    assert {one.action.kind for one in again} == {"unchanged"}
    assert (azure.asked("GET .*/machines"), azure.asked("PUT .*/machines/")) == (2, 10)
    assert [one.etag for one in again] == [one.etag for one in done]


def test_every_page_of_a_list_is_read(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.page = 3
    for number in range(7):
        azure.pools.add_machine("edge", f"edge-{number}")
    assert {one.action.kind for one in keep_present(pools, "edge", TEN[:7], check=False)} == {"unchanged"}
    assert azure.asked("GET .*/machines") == 3


def test_only_four_fields_are_sent_and_no_empty_taints(azure: FakeAzure, pools: Pools) -> None:
    keep_present(pools, "edge", [Wanted("edge-1", labels={"site": "lab"})], check=False)
    goal = {"orchestratorVersion": "1.34.4", "maxPods": 75, "nodeLabels": {"site": "lab"}}
    assert azure.pools.bodies == [("edge-1", {"properties": {"kubernetes": goal}})]


def test_what_azure_made_of_a_goal_is_the_goal(azure: FakeAzure, pools: Pools) -> None:
    """It completes a version, and has its own maxPods where none was sent: the node gets the same."""
    answer = {
        "name": "edge-1",
        "properties": {
            "provisioningState": "Succeeded",
            "eTag": "abc",
            "kubernetes": {
                "orchestratorVersion": "1.34",
                "currentOrchestratorVersion": "1.34.3",
                "maxPods": 30,
                "nodeLabels": {"site": "lab"},
            },
        },
    }
    azure.faults = [Fault("PUT .*/machines/edge-1", answer_json(answer, 201))]
    azure.pools.add("edge", orchestratorVersion="1.34", maxPods=None)
    (done,) = keep_present(pools, "edge", [Wanted("edge-1")], check=False)
    found = done.as_dict()
    assert (found["version"], found["max_pods"], found["labels"]) == ("1.34.3", 30, {"site": "lab"})


@pytest.mark.parametrize(
    ("kept", "wanted", "named"),
    [
        ({"nodeTaints": ["a=b:NoSchedule"]}, Wanted("edge-1", taints=()), "remove taint a=b:NoSchedule"),
        ({"nodeLabels": {}}, Wanted("edge-1", labels={"site": "lab"}), "label site=lab"),
        ({"nodeLabels": {"theirs": "yes"}}, Wanted("edge-1", labels={}), "remove label theirs"),
    ],
)
def test_what_azure_does_not_take_is_named_and_no_change(
    azure: FakeAzure, pools: Pools, kept: dict[str, Any], wanted: Wanted, named: str
) -> None:
    """Otherwise each run would say again that it updated the machine."""
    etag = azure.pools.add_machine("edge", "edge-1", **kept)
    azure.pools.keeps = kept
    for _run in (1, 2):
        (done,) = keep_present(pools, "edge", [wanted], check=False)
        assert (done.action.kind, done.action.reasons, done.etag) == ("unchanged", (), etag)
        assert "edge-1" in done.note
        assert named in done.note
    azure.pools.keeps = {}
    (done,) = keep_present(pools, "edge", [wanted], check=False)
    assert (done.action.kind, done.action.reasons, done.note) == ("updated", (named,), "")


def test_of_a_write_that_azure_takes_in_part_only_that_part_is_told(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add_machine("edge", "edge-1", nodeTaints=["a:NoSchedule"])
    azure.pools.keeps = {"nodeTaints": ["a:NoSchedule"]}
    (done,) = keep_present(pools, "edge", [Wanted("edge-1", version="1.34.5", taints=())], check=False)
    assert (done.action.kind, done.action.reasons) == ("updated", ("Kubernetes 1.34.4 -> 1.34.5",))
    assert done.action.goal.taints == ("a:NoSchedule",), "the node gets what the machine has"
    assert "remove taint a:NoSchedule" in done.note
    azure.pools.keeps = {"nodeLabels": {}}
    azure.pools.add("edge", nodeLabels={"pool": "edge"})
    (new,) = keep_present(pools, "edge", [Wanted("edge-2")], check=False)
    assert (new.action.kind, "label pool=edge" in new.note) == ("created", True)


def test_another_version_or_max_pods_than_what_was_asked_for_is_an_error(
    azure: FakeAzure, pools: Pools
) -> None:
    azure.pools.add_machine("edge", "edge-1")
    azure.pools.keeps = {"orchestratorVersion": "1.34.4"}
    with pytest.raises(AzureRefuses, match=r"not Kubernetes 1\.34\.4 -> 1\.34\.5 .*/machines/edge-1"):
        keep_present(pools, "edge", [Wanted("edge-1", version="1.34.5")], check=False)
    azure.pools.keeps = {"maxPods": 30}
    with pytest.raises(MaxPodsFixed) as caught:
        keep_present(pools, "edge", [Wanted("edge-2", max_pods=200)], check=False)
    assert caught.value.where.endswith("/agentPools/edge/machines/edge-2")
    (done,) = keep_present(pools, "edge", [Wanted("edge-3")], check=False)
    assert "maxPods 75" in done.note


def test_check_mode_writes_nothing(azure: FakeAzure, pools: Pools) -> None:
    done = keep_present(pools, "edge", TEN, check=True)
    assert ({one.action.kind for one in done}, azure.asked("PUT")) == ({"created"}, 0)
    azure.pools.add_machine("edge", "edge-1")
    keep_absent(pools, "edge", ["edge-1"], check=True)
    assert azure.asked("POST .*/deleteMachines") == 0


def test_an_operation_is_followed_to_its_end_and_the_machine_read(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.slow, azure.polls = True, 2
    (done,) = keep_present(pools, "edge", TEN[:1], check=False)
    assert azure.asked("GET /operations/") == 2
    assert done.etag == azure.pools.machines["edge"]["edge-0"]["eTag"]


def test_a_write_names_the_etag_that_was_read(azure: FakeAzure, pools: Pools) -> None:
    etag = azure.pools.add_machine("edge", "edge-1")
    keep_present(pools, "edge", [Wanted("edge-1", version="1.34.5")], check=False)
    put = next(one for one in azure.server.requests if one.method == "PUT")
    assert put.headers["If-Match"] == f'"{etag}"'


def test_what_someone_else_changed_meanwhile_is_read_again_once(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add_machine("edge", "edge-1")

    def someone_else() -> None:
        azure.pools.before_put = None
        azure.pools.add_machine("edge", "edge-1", nodeLabels={"theirs": "yes"})

    azure.pools.before_put = someone_else
    (done,) = keep_present(pools, "edge", [Wanted("edge-1", version="1.34.5")], check=False)
    known = azure.pools.machines["edge"]["edge-1"]["kubernetes"]
    assert (done.action.kind, known["orchestratorVersion"]) == ("updated", "1.34.5")
    assert known["nodeLabels"]["theirs"] == "yes", "their change is not undone"


def test_what_changes_all_the_time_is_an_error(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add_machine("edge", "edge-1")
    azure.pools.before_put = lambda: azure.pools.add_machine("edge", "edge-1")  # type: ignore[assignment]
    with pytest.raises(ChangedMeanwhile, match="FLEX-1710"):
        keep_present(pools, "edge", [Wanted("edge-1", version="1.34.5")], check=False)
    assert azure.asked("PUT .*/machines/") == 2


def test_a_lost_answer_to_our_own_put_is_no_conflict(azure: FakeAzure, pools: Pools) -> None:
    """The retry finds the machine that the first attempt has created."""
    (created,) = keep_present(pools, "edge", TEN[:1], check=False)
    azure.faults = [Fault("GET .*/machines[?]", answer_json({"value": []}))]
    (done,) = keep_present(pools, "edge", TEN[:1], check=False)
    assert (done.action.kind, done.etag) == ("unchanged", created.etag)


def test_all_machines_are_compared_before_the_first_is_written(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add_machine("edge", "edge-1")
    azure.pools.add_machine("edge", "edge-2", "Updating")
    wanted = [Wanted("edge-0"), Wanted("edge-1", max_pods=10), Wanted("edge-2")]
    with pytest.raises(NodesFailed) as caught:
        keep_present(pools, "edge", wanted, check=False)
    assert {name: type(error) for name, error in caught.value.errors.items()} == {
        "edge-1": MaxPodsFixed,
        "edge-2": MachineUnusable,
    }
    assert azure.asked("PUT") == 0


def test_throttling_is_obeyed(azure: FakeAzure, pools: Pools) -> None:
    busy = refusal(429, "TooManyRequests", "Slow down.", Retry_After="1")
    azure.faults = [Fault("POST .*/listBootstrapData", busy)]
    pools.get("edge")
    azure.times.clear()
    assert pools.bootstrap_data("edge")["node"]["maxPods"] == 75
    assert azure.times[1] - azure.times[0] >= 1


def test_a_pool_that_is_missing_or_of_another_type(azure: FakeAzure, pools: Pools) -> None:
    with pytest.raises(NotInAzure, match=r"az aks nodepool add .*--vm-set-type FlexNodes"):
        keep_present(pools, "other", TEN, check=False)
    azure.pools.add("vms", type="VirtualMachineScaleSets")
    with pytest.raises(PoolUnusable, match="not FlexNodes"):
        keep_present(pools, "vms", TEN, check=False)


def test_a_login_that_may_use_the_pool_but_not_read_it(azure: FakeAzure, pools: Pools) -> None:
    azure.forbidden = r"GET .*/agentPools/edge\?"
    with pytest.raises(PermissionMissing):
        keep_present(pools, "edge", TEN[:1], check=False)
    (done,) = keep_present(pools, "edge", TEN[:1], Goal("1.34.4", 75), check=False)
    assert done.action.kind == "created"
    # Of a machine that exists the pool decides nothing, unless labels are set over those of the pool.
    (again,) = keep_present(pools, "edge", TEN[:1], check=False)
    assert again.action.kind == "unchanged"
    (newer,) = keep_present(pools, "edge", [replace(TEN[0], version="1.34.5")], check=False)
    assert (newer.action.kind, newer.action.goal.max_pods) == ("updated", 75)
    with pytest.raises(PermissionMissing):
        keep_present(pools, "edge", [replace(TEN[0], labels={"site": "lab"})], check=False)


def test_a_missing_right_names_the_pool_and_its_role(azure: FakeAzure, pools: Pools) -> None:
    azure.faults = [Fault("POST .*/listBootstrapData", refusal(403, "AuthorizationFailed", "No."), 9)]
    with pytest.raises(PermissionMissing) as caught:
        pools.bootstrap_data("edge")
    assert '--role "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"' in caught.value.fix
    assert caught.value.fix.endswith(f"--scope {CLUSTER}/agentPools/edge")


def test_an_unknown_version_of_the_api_is_refused(azure: FakeAzure, login: Login) -> None:
    with pytest.raises(AzureRefuses, match="InvalidApiVersionParameter"):
        Pools(Arm(login, "2025-01-01", 0), HOME).get("edge")


def test_machines_are_deleted_in_one_call_and_others_stay(azure: FakeAzure, pools: Pools) -> None:
    for name in ("edge-1", "edge-2", "theirs"):
        azure.pools.add_machine("edge", name)
    done = keep_absent(pools, "edge", ["edge-1", "edge-2", "edge-3"], check=False)
    assert [one.action.kind for one in done] == ["deleted", "deleted", "absent"]
    assert azure.pools.bodies == [("edge", {"machineNames": ["edge-1", "edge-2"]})]
    assert list(azure.pools.machines["edge"]) == ["theirs"]
    assert {one.action.kind for one in keep_absent(pools, "edge", ["edge-1"], check=False)} == {"absent"}
    assert azure.asked("POST .*/deleteMachines") == 1


def test_a_deletion_that_deletes_nothing_is_an_error(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add_machine("edge", "edge-1")
    azure.pools.keeps_deleted = True
    clock = FakeClock()
    with pytest.raises(AzureUnavailable, match=r"still lists edge-1 after they were deleted .* for 60 s"):
        keep_absent(pools, "edge", ["edge-1"], Patience("edge", clock), check=False)
    assert sum(clock.naps) == 60


def test_without_a_pool_there_is_nothing_to_delete(pools: Pools) -> None:
    (done,) = keep_absent(pools, "other", ["edge-1"], check=False)
    assert done.action.kind == "absent"


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("ResourceGroupNotFound", "resource group [^ ]+ of flexnode_cluster_id was not found"),
        ("SubscriptionNotFound", "subscription [^ ]+ of flexnode_cluster_id was not found"),
        ("ParentResourceNotFound", "the cluster set in flexnode_cluster_id was not found"),
    ],
)
def test_a_mistyped_cluster_id_is_never_taken_for_a_deletion(
    azure: FakeAzure, pools: Pools, idle: Idle, code: str, named: str
) -> None:
    azure.faults = [Fault("/agentPools/edge", refusal(404, code, "It could not be found."), 99)]
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    with pytest.raises(NotInAzure, match=named):
        keep_absent(pools, "edge", ["edge-1"], check=False)
    with pytest.raises(NotInAzure, match=named):
        life.keep_absent(pools, "edge", idle, machines_too=True, check=False)
    with pytest.raises(NotInAzure, match=named):
        keep_present(pools, "edge", TEN, check=False)
    with pytest.raises(NotInAzure, match=named):
        pools_of(pools, ["edge"], machines=False)


# -- pools --------------------------------------------------------------------------------------------------


def wanted_pool(**settings: Any) -> WantedPool:
    return WantedPool(**settings)


def test_the_life_of_a_pool(azure: FakeAzure, pools: Pools, idle: Idle) -> None:
    azure.cluster = {"properties": {"currentKubernetesVersion": "1.34.6", "provisioningState": "Succeeded"}}
    del azure.pools.pools["edge"]
    first = wanted_pool(version="1.34.4", max_pods=75, max_unavailable="1")
    planned = life.keep_present(pools, "edge", first, idle, check=True)
    assert (planned.actions, azure.pools.pools) == (["create pool edge (it does not exist)"], {})
    done = life.keep_present(pools, "edge", first, idle, check=False)
    assert (done.pool["type"], done.pool["max_unavailable"]) == ("FlexNodes", "1")
    assert life.keep_present(pools, "edge", first, idle, check=False).actions == []
    upgraded = life.keep_present(pools, "edge", wanted_pool(version="1.34.5"), idle, check=False)
    assert upgraded.actions == ["upgrade pool edge (version)"]
    assert upgraded.diff["before"]["version"] == "1.34.4"
    assert azure.pools.pools["edge"]["maxPods"] == 75, "what is not asked for stays"
    with pytest.raises(PoolUnusable, match="newer than the control plane"):
        life.keep_present(pools, "edge", wanted_pool(version="1.35.0"), idle, check=False)
    azure.pools.add_machine("edge", "edge-1")
    with pytest.raises(PoolUnusable, match="the pool has 1 machine: edge-1"):
        life.keep_absent(pools, "edge", idle, machines_too=False, check=False)
    gone = life.keep_absent(pools, "edge", idle, machines_too=True, check=False)
    assert gone.actions == ["delete machines edge-1", "delete pool edge (it exists)"]
    assert azure.pools.pools == {}
    assert life.keep_absent(pools, "edge", idle, machines_too=False, check=False).actions == []


def test_a_running_operation_is_waited_for(azure: FakeAzure, pools: Pools, idle: Idle) -> None:
    upgrading = answer_json({"id": CLUSTER, "properties": {"provisioningState": "Upgrading"}})
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    azure.faults = [
        Fault(rf"GET {CLUSTER}\?", upgrading, 3),
        Fault("PUT .*/agentPools/edge", refusal(409, "OperationNotAllowed", "Another operation runs.")),
    ]
    done = life.keep_present(pools, "edge", wanted_pool(labels={"site": "lab"}), idle, check=False)
    assert done.pool["labels"] == {"site": "lab"}
    assert azure.asked("PUT .*/agentPools/edge") == 2


def test_what_the_operation_changed_that_was_waited_for_is_not_written_back(
    azure: FakeAzure, pools: Pools, idle: Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is upgraded by someone else: it has another eTag and another version afterwards."""
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    wait = idle.wait

    def upgraded() -> None:
        wait()
        azure.pools.add("edge", orchestratorVersion="1.34.5")

    monkeypatch.setattr(idle, "wait", upgraded)
    done = life.keep_present(pools, "edge", wanted_pool(labels={"site": "lab"}), idle, check=False)
    assert (done.pool["labels"], done.pool["version"]) == ({"site": "lab"}, "1.34.5")


def test_a_label_does_not_change_the_release_of_a_minor_version(
    azure: FakeAzure, pools: Pools, idle: Idle
) -> None:
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    wanted = wanted_pool(version="1.34", labels={"site": "lab"})
    done = life.keep_present(pools, "edge", wanted, idle, check=False)
    assert (done.actions, done.pool["version"]) == (["update pool edge (labels)"], "1.34.4")
    azure.pools.add_machine("edge", "edge-1")
    one = Wanted("edge-1", version="1.34", labels={"rack": "7"})
    keep_present(pools, "edge", [one], check=False)
    assert azure.pools.bodies[-1][1]["properties"]["kubernetes"]["orchestratorVersion"] == "1.34.4"


def test_what_azure_does_not_take_for_a_pool_is_named_and_no_change(
    azure: FakeAzure, pools: Pools, idle: Idle
) -> None:
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    azure.pools.add("edge", nodeTaints=["a:NoSchedule"])
    azure.pools.keeps = {"nodeTaints": ["a:NoSchedule"]}
    done = life.keep_present(pools, "edge", wanted_pool(taints=()), idle, check=False)
    assert (done.actions, done.diff) == ([], {})
    assert done.note == "Azure accepted a write of pool edge, but did not take this: taints"
    both = wanted_pool(taints=(), labels={"site": "lab"})
    done = life.keep_present(pools, "edge", both, idle, check=False)
    assert (done.actions, "this: taints" in done.note) == (["update pool edge (labels)"], True)
    azure.pools.keeps = {}
    assert life.keep_present(pools, "edge", both, idle, check=False).note == ""


def test_max_unavailable_of_a_pool_that_exists_is_told_and_not_written_again(
    azure: FakeAzure, pools: Pools, idle: Idle
) -> None:
    """Recorded: a PUT with 50% is answered with 200, twice, and 30% stays."""
    azure.cluster = {"properties": {"provisioningState": "Succeeded"}}
    stays = aks.MAX_UNAVAILABLE_STAYS.body["properties"]["upgradeSettings"]
    azure.pools.add("edge", upgradeSettings=stays)
    azure.pools.keeps = {"upgradeSettings": stays}
    done = life.keep_present(pools, "edge", wanted_pool(max_unavailable="50%"), idle, check=False)
    assert (done.actions, done.pool["max_unavailable"], azure.asked("PUT")) == ([], "30%", 0)
    assert done.note.startswith("Azure keeps maxUnavailable 30% of pool edge")
    both = wanted_pool(max_unavailable="50%", labels={"site": "lab"})
    done = life.keep_present(pools, "edge", both, idle, check=False)
    assert (done.actions, azure.asked("PUT")) == (["update pool edge (labels)"], 1)
    assert "Set max_unavailable to what is there" in done.note
    done = life.keep_present(pools, "edge", wanted_pool(max_unavailable="30%"), idle, check=False)
    assert (done.actions, done.note) == ([], "")


def test_an_operation_that_does_not_end(azure: FakeAzure, pools: Pools, idle: Idle) -> None:
    azure.cluster = {"properties": {"provisioningState": "Upgrading"}}
    with pytest.raises(AzureUnavailable, match="another operation on the cluster does not finish"):
        life.keep_present(pools, "edge", wanted_pool(max_pods=50), idle, check=False)
    assert azure.asked("PUT") == 0


# -- what can be read ---------------------------------------------------------------------------------------


def test_what_a_cluster_determines(azure: FakeAzure, login: Login) -> None:
    azure.cluster = {
        "location": "westeurope",
        "properties": {
            "currentKubernetesVersion": "1.34.4",
            "nodeResourceGroup": "MC_rg",
            "networkProfile": {"serviceCidr": "10.0.0.0/16", "podCidr": "10.244.0.0/16"},
        },
    }
    facts = cluster_facts(login, HOME)
    assert (facts["readable"], facts["kubernetes_version"]) == (True, "1.34.4")
    assert facts["document"]["azure"]["targetCluster"] == {
        "resourceId": CLUSTER,
        "location": "westeurope",
        "nodeResourceGroup": "MC_rg",
    }
    assert facts["document"]["network"] == {"serviceCIDR": "10.0.0.0/16", "podCIDR": "10.244.0.0/16"}
    assert "kubernetes" not in facts["document"], "the pool says which version"


def test_a_cluster_that_may_not_be_read(azure: FakeAzure, login: Login) -> None:
    azure.forbidden = rf"GET {CLUSTER}\?"
    facts = cluster_facts(login, HOME)
    assert facts["readable"] is False
    assert facts["document"]["azure"]["targetCluster"] == {"resourceId": CLUSTER}
    assert facts["document"]["azure"]["tenantId"]


def test_feature_flags_and_permissions(azure: FakeAzure, login: Login, pools: Pools) -> None:
    azure.features = {"AKSFlexNodePreview": "NotRegistered"}
    assert features(login, HOME) == {"AKSFlexNodePreview": "NotRegistered"}
    assert missing_actions(login, pools, "edge") == []
    azure.permissions = [{"actions": ["*/read"]}]
    assert missing_actions(login, pools, "edge") == [
        "Microsoft.ContainerService/managedClusters/agentPools/listBootstrapData/action",
        "Microsoft.ContainerService/managedClusters/agentPools/machines/write",
    ]
    # The role of a pool may not read permissions.
    azure.forbidden = "permissions"
    assert missing_actions(login, pools, "edge") == []
    azure.forbidden = "permissions|machines"
    assert len(missing_actions(login, pools, "edge") or ()) == 3


def test_pools_with_machines_and_their_nodes(azure: FakeAzure, pools: Pools) -> None:
    azure.pools.add("vms", type="VirtualMachineScaleSets")
    azure.pools.add_machine("edge", "edge-1")
    azure.pools.add_machine("edge", "edge-2")
    found, _missing = pools_of(pools, [], machines=True)
    assert [pool["name"] for pool in found] == ["edge"]
    conditions = [{"type": "Ready", "status": "True"}]
    node = {"status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.34.4"}}}
    (pool,) = with_nodes(found, {"edge-1": node})
    assert [(one["name"], one["node_state"], one["kubelet_version"]) for one in pool["machines"]] == [
        ("edge-1", "Ready", "1.34.4"),
        ("edge-2", "no Node", ""),
    ]
    azure.forbidden = r"GET .*/agentPools/edge\?"
    found, missing = pools_of(pools, ["edge", "none"], machines=False)
    assert ([pool["readable"] for pool in found], missing) == ([False], ["none"])
