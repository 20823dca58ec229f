# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Many nodes in one run: how often Azure is asked, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    NotInAzure,
    PermissionMissing,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.api import (
    FlexNodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.fleet import (
    Nodes,
    Outcome,
    described,
    keep_absent,
    keep_present,
    regenerate,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.plan import (
    properties_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import (
    Member,
    members_of,
    node_names,
    tokens_by_cluster,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.parallel import NodesFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.controller.fake_azure import CLUSTER, FakeAzure, Fault, refusal

PLANT = ArmId.parse(CLUSTER)
DOCUMENT = {"kubernetes": {"version": "1.34.4"}, "node": {"labels": {"site": "lab"}}}
TEN = [Member(f"edge-{n}", PLANT, DOCUMENT) for n in range(10)]
Connect = Callable[[ArmId], Nodes]


@pytest.fixture
def connect(arm: Arm) -> Connect:
    return lambda cluster: FlexNodes(arm, cluster)


def present(connect: Connect, members: list[Member], **options: Any) -> list[Outcome]:
    wanted = {"secret_anyway": False, "need_url": True, "check": False, **options}
    return keep_present(connect, members, lambda member: properties_of(member.document), **wanted)


def kinds(outcomes: list[Outcome]) -> list[str]:
    return [outcome.action.kind for outcome in outcomes]


def test_ten_nodes_are_one_login_one_list_and_a_write_each(azure: FakeAzure, connect: Connect) -> None:
    outcomes = present(connect, TEN)
    assert kinds(outcomes) == ["created"] * 10
    assert [outcome.member.name for outcome in outcomes] == [member.name for member in TEN]
    assert len({outcome.issued.config_url for outcome in outcomes}) == 10
    asked = [azure.asked(p) for p in ("POST .*/oauth2/", "GET .*/flexNodeConfig", "PUT .*/flexNodeConfig/")]
    assert asked == [1, 1, 10]


def test_a_name_that_another_machine_has_costs_nothing_and_stops_no_other(
    azure: FakeAzure, connect: Connect
) -> None:
    present(connect, TEN[:2])
    azure.ready = {"edge-0"}
    azure.server.requests.clear()
    reinstalled = [replace(member, joined=False) for member in TEN[:2]]
    for check in (True, False):
        taken, other = (outcome.as_dict() for outcome in present(connect, reinstalled, check=check))
        assert (taken["action"], "config_url" in taken) == ("refused", False)
        assert (other["action"], "config_url" in other, other["joined"]) == ("regenerated", True, False)
    assert (azure.asked("PUT"), azure.asked("POST .*/regenerateToken")) == (0, 1)


@pytest.mark.parametrize("list_tells_all", [True, False])
def test_a_second_run_writes_nothing(azure: FakeAzure, connect: Connect, list_tells_all: bool) -> None:
    present(connect, TEN)
    azure.list_tells_all, azure.ready = list_tells_all, {member.name for member in TEN}
    azure.server.requests.clear()
    outcomes = present(connect, TEN)
    assert kinds(outcomes) == ["unchanged"] * 10
    assert all(outcome.joined and "config_url" not in outcome.as_dict() for outcome in outcomes)
    assert azure.asked("PUT|POST .*/regenerateToken") == 0
    assert azure.asked("GET .*/flexNodeConfig") == (1 if list_tells_all else 11)


def test_only_what_needs_it_is_touched(azure: FakeAzure, connect: Connect) -> None:
    present(connect, TEN[:3])
    azure.ready = {"edge-0", "edge-1"}
    azure.nodes["edge-1"] = {**azure.nodes["edge-1"], "versions": {"kubernetes": "1.33.1"}}
    azure.server.requests.clear()
    outcomes = present(connect, TEN[:4])
    assert kinds(outcomes) == ["unchanged", "updated", "regenerated", "created"]
    assert outcomes[1].action.reasons == ("versions.kubernetes",)
    assert (azure.asked("PUT"), azure.asked("POST .*/regenerateToken")) == (2, 1)
    assert azure.nodes["edge-1"]["versions"] == {"kubernetes": "1.34.4"}


def test_check_mode_asks_for_no_change(azure: FakeAzure, connect: Connect) -> None:
    present(connect, TEN[:1])
    azure.server.requests.clear()
    outcomes = present(connect, TEN[:2], check=True)
    assert kinds(outcomes) == ["regenerated", "created"]
    assert {outcome.issued.config_url for outcome in outcomes} == {"<minted at apply>"}
    assert azure.asked("PUT|DELETE|regenerateToken") == 0
    assert kinds(keep_absent(connect, TEN[:2], check=True)) == ["deleted", "unchanged"]
    assert list(azure.nodes) == ["edge-0"]


def test_absent_deletes_once(azure: FakeAzure, connect: Connect) -> None:
    present(connect, TEN[:2])
    assert kinds(keep_absent(connect, TEN[:3], check=False)) == ["deleted", "deleted", "unchanged"]
    assert azure.nodes == {}
    assert kinds(keep_absent(connect, TEN[:3], check=False)) == ["unchanged"] * 3
    assert azure.asked("DELETE") == 2


def test_regenerating_is_always_a_change(azure: FakeAzure, connect: Connect) -> None:
    present(connect, TEN[:2])
    urls = {outcome.issued.config_url for outcome in regenerate(connect, TEN[:2], check=False)}
    assert len(urls) == 2
    assert {outcome.issued.config_url for outcome in regenerate(connect, TEN[:2], check=True)} == {
        "<minted at apply>"
    }


def test_regenerating_what_is_not_there(connect: Connect) -> None:
    with pytest.raises(NotInAzure, match="edge-0, edge-1"):
        regenerate(connect, TEN[:2], check=False)


def test_no_token_is_spent_before_all_are_known_to_exist(azure: FakeAzure, connect: Connect) -> None:
    present(connect, TEN[:1])

    class Empty:
        """Another cluster, without any."""

        def list(self) -> list[Any]:
            return []

    field = ArmId.parse(CLUSTER.replace("plant", "field"))
    members = [TEN[0], Member("edge-8", field, DOCUMENT), TEN[1]]

    def either(cluster: ArmId) -> Any:
        return Empty() if cluster == field else connect(cluster)

    with pytest.raises(NotInAzure, match="edge-1, edge-8"):
        regenerate(either, members, check=False)
    assert azure.asked("regenerateToken") == 0


def test_one_cause_for_all_is_one_error(azure: FakeAzure, connect: Connect) -> None:
    azure.forbidden = "PUT"
    with pytest.raises(PermissionMissing):
        present(connect, TEN)
    assert azure.asked("PUT") == 10


def test_different_causes_are_told_together(azure: FakeAzure, connect: Connect) -> None:
    azure.faults = [
        Fault("PUT .*/edge-1", refusal(400, "InvalidParameter", "One.")),
        Fault("PUT .*/edge-2", refusal(409, "Conflict", "Two.")),
    ]
    with pytest.raises(NodesFailed) as caught:
        present(connect, TEN[:4])
    error = caught.value.as_result()
    assert "edge-1: FLEX-1704: " in str(caught.value)
    assert "Two." in str(caught.value)
    assert (error["code"], set(error["nodes"])) == ("FLEX-1704", {"edge-1", "edge-2"})
    assert set(azure.nodes) == {"edge-0", "edge-3"}, "the others were done"


def test_all_that_is_wrong_with_the_nodes_is_told_at_once() -> None:
    nodes: list[dict[str, Any]] = [
        {"name": "Edge_1"},
        {"name": "edge-2", "cluster_id": "/subscriptions/1"},
        {"name": "edge-3", "cluster_id": CLUSTER},
        {"name": "edge-3", "cluster_id": CLUSTER.upper()},
        {"name": "edge-4"},
    ]
    with pytest.raises(ConfigInvalid) as caught:
        members_of(nodes)
    paths = ["nodes[0].name", "nodes[1].cluster_id", "nodes[3].name", "nodes[4].cluster_id"]
    assert [problem.path for problem in caught.value.problems] == paths
    with pytest.raises(
        ConfigInvalid, match=r"nodes\[1\].name is edge-1, but another one has this name. Set each node once"
    ):
        node_names([{"name": "edge-1"}, {"name": "edge-1"}])


def test_tokens_are_sought_where_they_belong() -> None:
    other = CLUSTER.replace("plant", "field")
    options: dict[str, Any] = {
        "nodes": [{"name": "edge-1"}, {"name": "edge-2", "cluster_id": other}],
        "cluster_id": CLUSTER,
        "token_ids": ["abcdef"],
    }
    by_name = {
        part.cluster.name if part.cluster else "": part
        for part in tokens_by_cluster(options, kubernetes=False)
    }
    assert (by_name["plant"].names, by_name["plant"].token_ids) == (("edge-1",), ("abcdef",))
    assert (by_name["field"].names, by_name["field"].token_ids) == (("edge-2",), ())
    (only,) = tokens_by_cluster(options, kubernetes=True)
    assert (only.cluster, only.names) == (None, ("edge-1", "edge-2"))
    assert only.without == by_name["plant"].without == frozenset()
    some = [{"name": "edge-1", "token": False}, {"name": "edge-1", "token": True, "cluster_id": other}]
    assert [part.without for part in tokens_by_cluster({**options, "nodes": some}, kubernetes=False)] == [
        {"edge-1"},
        frozenset(),
    ]
    (ids,) = tokens_by_cluster({**options, "nodes": []}, kubernetes=False)
    assert (ids.cluster, ids.names, ids.token_ids) == (PLANT, (), ("abcdef",))


def test_what_is_told_of_a_node_opens_no_door() -> None:
    status = {
        "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}],
        "lastSeen": "2026-02-26T15:30:45Z",
        "appliedConfigVersion": "16",
    }
    config = {
        "azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}},
        "kubernetes": {"version": "1.34.4"},
    }
    told = described(
        {
            "name": "edge-1",
            "properties": {
                "provisioningState": "Succeeded",
                "configVersion": "17",
                "configUrl": "https://s3cret",
                "config": config,
                "status": status,
            },
        },
        PLANT,
    )
    assert "0123456789abcdef" not in str(told)
    assert "s3cret" not in str(told)
    assert told == {
        "name": "edge-1",
        "cluster_id": CLUSTER,
        "config_version": "17",
        "applied_config_version": "16",
        "provisioning_state": "Succeeded",
        "ready": False,
        "phase": "",
        "reason": "KubeletNotReady",
        "message": "",
        "drift": 0,
        "leftovers": [],
        "last_seen": "2026-02-26T15:30:45Z",
        "status": status,
        "config": {
            "azure": {"bootstrapToken": {"token": "<minted at apply>"}},
            "kubernetes": {"version": "1.34.4"},
        },
    }


def told_of(ready: str, **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": "KubeletReports", "message": "of the kubelet"}]
    return described({"name": "a", "properties": {"status": {"conditions": conditions, **status}}}, PLANT)


def test_the_reason_is_what_the_node_says_of_itself() -> None:
    told = told_of("True", reason="Drift", message="1 item", drift=1, phase="NodeJoined")
    assert (told["reason"], told["message"], told["drift"], told["leftovers"]) == ("Drift", "1 item", 1, [])
    told = told_of("True", reason="NodeJoined", phase="NodeJoined")
    assert (told["reason"], told["message"]) == ("NodeJoined", "")


def test_a_node_that_said_it_is_right_and_is_silent_since_is_not_right() -> None:
    told = told_of("Unknown", reason="NodeJoined", phase="NodeJoined")
    assert (told["reason"], told["message"]) == ("KubeletReports", "of the kubelet")


def test_the_node_of_a_machine_that_left_is_a_leftover() -> None:
    assert told_of("Unknown", reason="Resetting", phase="Resetting")["leftovers"] == ["Node a"]
    assert told_of("True", reason="Resetting", phase="Resetting")["leftovers"] == [], "it is leaving now"
