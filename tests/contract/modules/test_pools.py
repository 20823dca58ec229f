# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The modules of FlexNodes pools against the emulated Azure, which AKS's own SDK accepts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testbed.azure import Azure, Fault
from tests.contract.modules.conftest import Person

POOL = "edge"
AGENT = "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"
CONTRIBUTOR = "Azure Kubernetes Service Contributor Role"
TEN = [{"name": f"edge-{number}"} for number in range(10)]


@pytest.fixture(autouse=True)
def no_pools(azure: Azure) -> Iterator[None]:
    """Each test starts and ends without pools."""
    azure.forget_pools()
    yield
    azure.forget_pools()


@pytest.fixture
def contributor(person: Callable[..., Person]) -> Person:
    """Somebody who may do all that the modules do."""
    return person(CONTRIBUTOR)


@pytest.fixture
def agent(azure: Azure, person: Callable[..., Person]) -> Person:
    """Somebody with the role of the pool, at the pool, and nothing else."""
    azure.pools.put(POOL, maxPods=60, nodeLabels={"site": "lab"})
    someone = person()
    azure.grant(someone.principal, AGENT, f"{azure.cluster_id}/agentPools/{POOL}")
    return someone


def place(someone: Person, **more: Any) -> dict[str, Any]:
    return {"cluster_id": someone.bed.azure.cluster_id, "pool": POOL, "poll_interval": 1, **more}


def calls(azure: Azure, someone: Person, method: str, pattern: str) -> int:
    return sum(
        one.method == method and bool(re.search(pattern, one.path, re.IGNORECASE))
        for one in azure.requests()
        if one.principal == someone.principal.name
    )


def test_a_pool_is_created_changed_and_deleted_each_planned_first_each_twice(
    azure: Azure, contributor: Person
) -> None:
    def pool(*, check: bool = False, **more: Any) -> dict[str, Any]:
        return contributor.do("flexnode_pool", check=check, **place(contributor, **more))

    wanted: dict[str, Any] = {"max_pods": 60, "labels": {"site": "lab"}, "taints": [], "max_unavailable": "1"}
    assert pool(check=True, **wanted)["changed"]
    assert azure.pools.find(POOL) is None
    assert pool(**wanted)["pool"]["type"] == "FlexNodes"
    assert not pool(**wanted)["changed"]
    assert azure.pools.get(POOL)["properties"]["nodeLabels"]["site"] == "lab"

    tainted: dict[str, Any] = {"taints": ["site=lab:NoSchedule"]}
    assert pool(check=True, **tainted)["diff"]["after"]["taints"] == ["site=lab:NoSchedule"]
    assert pool(**tainted)["changed"]
    assert not pool(**tainted)["changed"]
    properties = azure.pools.get(POOL)["properties"]
    assert (properties["nodeTaints"], properties["maxPods"]) == (["site=lab:NoSchedule"], 60)
    assert pool(taints=[])["changed"], "an empty list is left out, which removes them"
    assert not azure.pools.get(POOL)["properties"].get("nodeTaints")

    contributor.do("flexnode_machine", **place(contributor, machines=[{"name": "edge-1"}]))
    refused = contributor.run("flexnode_pool", **place(contributor, state="absent"))
    assert refused["error"]["code"] == "FLEX-1711"
    assert pool(state="absent", delete_machines=True, check=True)["changed"]
    assert pool(state="absent", delete_machines=True)["changed"]
    assert azure.pools.find(POOL) is None
    assert not pool(state="absent")["changed"]


def test_ten_machines_with_the_role_of_the_pool_alone(azure: Azure, agent: Person) -> None:
    azure.forget_requests()
    data = agent.do("flexnode_bootstrap_data", **place(agent))
    document = data["document"]
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", document["azure"]["bootstrapToken"]["token"])
    assert document["azure"]["targetAgentPoolName"] == POOL
    assert (document["node"]["maxPods"], document["node"]["labels"]) == (60, {"site": "lab"})
    # It may not read the pool: its values are those of the bootstrap data.
    defaults = {"version": document["kubernetes"]["version"], "max_pods": 60, "labels": {"site": "lab"}}
    options = place(agent, machines=TEN, defaults=defaults)
    made = agent.do("flexnode_machine", **options)
    assert {one["action"] for one in made["machines"]} == {"created"}
    again = agent.do("flexnode_machine", **options)
    assert (again["changed"], [one["etag"] for one in again["machines"]]) == (
        False,
        [one["etag"] for one in made["machines"]],
    )
    assert calls(azure, agent, "POST", "/listBootstrapData") == 1
    assert calls(azure, agent, "PUT", "/machines/") == 10
    assert calls(azure, agent, "GET", r"/machines$") == 2
    known = azure.pools.machines(POOL)["edge-1"]["properties"]
    assert known["kubernetes"]["maxPods"] == 60
    refused = agent.run("flexnode_machine", **place(agent, machines=TEN[:1], state="absent"))
    assert refused["error"]["code"] == "FLEX-1702"
    assert "deleteMachines" in refused["msg"]


def test_goals_are_changed_and_only_by_us_if_nobody_else_did(azure: Azure, contributor: Person) -> None:
    azure.pools.put(POOL, maxPods=60)

    def machine(**goal: Any) -> dict[str, Any]:
        return contributor.run(
            "flexnode_machine", **place(contributor, machines=[{"name": "edge-1", **goal}])
        )

    created = machine(labels={"site": "lab"})["machines"][0]
    azure.pools.set_goal("edge-1", POOL, nodeLabels={"theirs": "yes"})
    kept = machine()["machines"][0]
    assert (kept["action"], kept["labels"]) == ("unchanged", {"theirs": "yes"})
    assert kept["etag"] != created["etag"]
    changed = machine(taints=["a=b:NoSchedule"])["machines"][0]
    assert (changed["action"], changed["labels"]) == ("updated", {"theirs": "yes"})
    assert machine(taints=["a=b:NoSchedule"])["changed"] is False
    assert machine(taints=[])["machines"][0]["action"] == "updated"
    assert machine(max_pods=10)["error"]["code"] == "FLEX-1112"


def test_machines_are_deleted_and_others_stay(azure: Azure, contributor: Person) -> None:
    azure.pools.put(POOL)
    for name in ("edge-1", "theirs"):
        azure.pools.set_goal(name, POOL)
    options = place(contributor, machines=[{"name": "edge-1"}, {"name": "edge-9"}], state="absent")
    assert contributor.do("flexnode_machine", check=True, **options)["changed"]
    done = contributor.do("flexnode_machine", **options)
    assert [one["action"] for one in done["machines"]] == ["deleted", "absent"]
    assert set(azure.pools.machines(POOL)) == {"theirs"}
    assert not contributor.do("flexnode_machine", **options)["changed"]


def test_slow_operations_are_waited_for(azure: Azure, contributor: Person) -> None:
    azure.pools.put(POOL)
    azure.settings(machine_put_seconds=2)
    made = contributor.do("flexnode_machine", **place(contributor, machines=TEN[:2]))
    assert [one["provisioning_state"] for one in made["machines"]] == ["Succeeded", "Succeeded"]
    assert all(one["etag"] for one in made["machines"])


def test_throttling_is_obeyed(azure: Azure, agent: Person) -> None:
    azure.settings(bootstrap_data_burst=1, bootstrap_data_rate=0.1)
    for _call in range(2):
        assert agent.do("flexnode_bootstrap_data", **place(agent))["document"]
    assert calls(azure, agent, "POST", "/listBootstrapData") > 2, "one was refused and repeated"


def test_unknown_keys_are_told_and_missing_ones_are_an_error(azure: Azure, agent: Person) -> None:
    azure.settings(bootstrap_data_patch={"bootstrap": {"ociImage": "x"}})
    notes = agent.do("flexnode_bootstrap_data", **place(agent))["notes"]
    assert any("bootstrap" in note for note in notes)
    azure.settings(bootstrap_data_patch={"node": {"kubelet": {"clusterFQDN": None}}})
    assert agent.run("flexnode_bootstrap_data", **place(agent))["error"]["code"] == "FLEX-1113"


def test_a_missing_role_names_the_pool_and_the_role(azure: Azure, person: Callable[..., Person]) -> None:
    azure.pools.put(POOL)
    answer = person().run("flexnode_bootstrap_data", **place(person()))
    assert answer["error"]["code"] == "FLEX-1702"
    assert f'--role "{AGENT}" --scope {azure.cluster_id}/agentPools/{POOL}' in answer["msg"]


def test_what_preflight_reads(azure: Azure, contributor: Person, agent: Person) -> None:
    azure.settings(flex_node_feature=False)
    azure.pools.set_goal("edge-1", POOL)

    def info(someone: Person, **more: Any) -> dict[str, Any]:
        return someone.do("flexnode_pool_info", cluster_id=azure.cluster_id, checks=True, **more)

    seen = info(contributor)
    assert [pool["name"] for pool in seen["pools"]] == [POOL]
    assert seen["pools"][0]["missing_actions"] == []
    assert [one["name"] for one in seen["pools"][0]["machines"]] == ["edge-1"]
    assert (seen["cluster"]["readable"], bool(seen["cluster"]["kubernetes_version"])) == (True, True)
    assert seen["cluster"]["document"]["azure"]["targetCluster"]["resourceId"] == azure.cluster_id
    # The role of the pool reads neither cluster nor pool nor its own permissions, and can work all the same.
    narrow = info(agent, pools=[POOL])
    assert (narrow["cluster"]["readable"], narrow["pools"][0]["readable"]) == (False, False)
    assert narrow["pools"][0]["missing_actions"] == []


def test_roles_at_the_pool(azure: Azure, person: Callable[..., Person]) -> None:
    azure.pools.put(POOL)
    manager, machine = person("Role Based Access Control Administrator"), person()
    node = {"name": "edge-1", "principal_id": machine.principal.object_id, "pool": POOL}
    options: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": [node]}
    made = manager.do("flexnode_role_assignment", **options)
    assert [(one["action"], one["role_id"]) for one in made["assignments"]] == [("created", AGENT)]
    assert made["assignments"][0]["scope"] == f"{azure.cluster_id}/agentPools/{POOL}"
    assert machine.do("flexnode_bootstrap_data", **place(machine))["document"]
    assert not manager.do("flexnode_role_assignment", **options)["changed"]
    gone = manager.do("flexnode_role_assignment", **options, state="absent")
    assert [one["action"] for one in gone["assignments"]] == ["deleted"]
    assert machine.run("flexnode_bootstrap_data", **place(machine))["error"]["code"] == "FLEX-1702"


def test_a_lost_answer_is_no_conflict(azure: Azure, contributor: Person) -> None:
    azure.pools.put(POOL)
    azure.fail(Fault(r"/machines/edge-0$", method="PUT", times=1, lose_answer=True))
    made = contributor.do("flexnode_machine", **place(contributor, machines=TEN[:1]))
    assert made["machines"][0]["etag"] == azure.pools.machines(POOL)["edge-0"]["properties"]["eTag"]
