# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The machine of a node: its id, its goal, and what a changed goal means."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import (
    MachineUnusable,
    MaxPodsFixed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import (
    Goal,
    body_of,
    changes,
    cluster_and_pool,
    goal_of_document,
    is_machine,
    machine_id,
    machine_name,
    own_labels,
    pool_id,
    pool_of,
)
from tests.unit.node.config.test_samples import CLUSTER

ETAG = "7b6f2f0c-3a5e-4d7e-9d55-1f1f2a3b4c5d"


def machine(**kubernetes: Any) -> dict[str, Any]:
    """A machine as the service returns it."""
    return {
        "id": machine_id(CLUSTER, "edge", "edge-1"),
        "name": "edge-1",
        "properties": {
            "provisioningState": "Succeeded",
            "eTag": ETAG,
            "kubernetes": {
                "nodeName": "edge-1",
                "orchestratorVersion": "1.35.7",
                "currentOrchestratorVersion": "1.35.7",
                "maxPods": 61,
                "nodeLabels": {"site": "lab-1", "kubernetes.azure.com/managed": "false"},
                "nodeTaints": ["site=lab-1:NoSchedule"],
                **kubernetes,
            },
        },
    }


def test_ids_are_built_and_taken_apart() -> None:
    pool, resource = pool_id(CLUSTER, "edge"), machine_id(CLUSTER, "edge", "edge-1")
    assert resource == f"{CLUSTER}/agentPools/edge/machines/edge-1"
    assert pool_of(resource) == pool
    assert pool_of(resource.lower()) == pool.lower()
    assert cluster_and_pool(pool) == (CLUSTER, "edge")
    assert is_machine(resource)
    assert not is_machine(f"{CLUSTER}/flexNodeConfig/edge-1")


@pytest.mark.parametrize("name", ["edge-1", "Edge-1", "4", "a" * 40])
def test_a_machine_has_the_name_of_its_node_in_lower_case(name: str) -> None:
    assert machine_name(name) == name.lower()


@pytest.mark.parametrize("name", ["edge-1.lab.test", "a" * 41, "-edge", "edge_1", ""])
def test_a_name_that_no_machine_can_have_is_an_error_that_names_the_field(name: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        machine_name(name)
    assert [problem.path for problem in caught.value.problems] == ["agent.nodeName"]


def test_the_goal_of_a_machine_has_nothing_that_aks_sets_itself() -> None:
    taints = ["site=lab-1:NoSchedule", "kubernetes.azure.com/flex-node-deleting=true:NoSchedule"]
    goal = Goal.of(machine(nodeTaints=taints))
    assert goal == Goal("1.35.7", 61, {"site": "lab-1"}, ("site=lab-1:NoSchedule",), ETAG)


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({"provisioningState": "Creating"}, '"Creating", not Succeeded'),
        ({"provisioningState": None}, '"not set", not Succeeded'),
        ({"eTag": ""}, "no eTag"),
        ({"kubernetes": {"maxPods": 30}}, 'orchestratorVersion is "not set"'),
        ({"kubernetes": {"orchestratorVersion": "newest"}}, 'orchestratorVersion is "newest"'),
        ({"kubernetes": None}, 'orchestratorVersion is "not set"'),
    ],
)
def test_a_machine_that_is_not_ready_is_not_used(properties: dict[str, Any], why: str) -> None:
    """FLEX-1111."""
    found = machine()
    found["properties"].update(properties)
    with pytest.raises(MachineUnusable) as caught:
        Goal.of(found)
    assert why in caught.value.why
    assert caught.value.where == found["id"]


def test_what_is_no_machine_at_all_is_not_used() -> None:
    with pytest.raises(MachineUnusable):
        Goal.of({})


def test_a_goal_replaces_four_fields_of_a_document_and_no_other() -> None:
    document = {
        "azure": {"targetAgentPoolName": "edge"},
        "kubernetes": {"version": "1.34.4", "urlTemplate": "https://mirror.test"},
        "node": {
            "labels": {"old": "x"},
            "taints": ["a=b:NoExecute"],
            "maxPods": 30,
            "kubelet": {"verbosity": 4},
        },
    }
    assert Goal.of(machine()).over(document) == {
        "azure": {"targetAgentPoolName": "edge"},
        "kubernetes": {"version": "1.35.7", "urlTemplate": "https://mirror.test"},
        "node": {
            "labels": {"site": "lab-1"},
            "taints": ["site=lab-1:NoSchedule"],
            "maxPods": 61,
            "kubelet": {"verbosity": 4},
        },
    }


@pytest.mark.parametrize(
    ("goal", "current", "installed", "version"),
    [
        ("1.35", "1.35.7", "1.34.4", "1.35.7"),  # the service names the patch
        ("1.35", "", "1.35.2", "1.35.2"),  # one is installed, or was named by bootstrap data
        ("1.31", "", "1.30.2", "1.31.14"),  # the newest that can be verified
        ("1.3", "", "1.34.4", "1.3"),  # none: refused later, as what it is
    ],
)
def test_a_version_without_a_patch_is_completed(
    goal: str, current: str, installed: str, version: str
) -> None:
    found = Goal.of(machine(orchestratorVersion=goal, currentOrchestratorVersion=current))
    assert found.over({"kubernetes": {"version": installed}})["kubernetes"] == {"version": version}


def test_the_goal_of_a_document_is_the_body_of_a_put() -> None:
    document = {
        "kubernetes": {"version": "v1.35.7"},
        "node": {
            "labels": {"b": "1", "a": "2"},
            "taints": [{"key": "k", "effect": "NoExecute"}, "a=b:NoSchedule"],
        },
    }
    goal = goal_of_document(document)
    assert goal == Goal("1.35.7", 110, {"a": "2", "b": "1"}, ("a=b:NoSchedule", "k:NoExecute"))
    assert body_of(goal) == {
        "properties": {
            "kubernetes": {
                "orchestratorVersion": "1.35.7",
                "maxPods": 110,
                "nodeLabels": {"a": "2", "b": "1"},
                "nodeTaints": ["a=b:NoSchedule", "k:NoExecute"],
            }
        }
    }


def test_an_empty_list_of_taints_is_not_sent() -> None:
    """Azure refuses it."""
    kubernetes = body_of(goal_of_document({"kubernetes": {"version": "1.35.7"}}))["properties"]["kubernetes"]
    assert kubernetes == {"orchestratorVersion": "1.35.7", "maxPods": 110, "nodeLabels": {}}


def test_a_label_without_a_value_is_no_label() -> None:
    assert own_labels({"site": None, "rack": "", "row": "7"}) == {"rack": "", "row": "7"}


def test_a_label_that_yaml_made_something_else_of_is_never_turned_into_text() -> None:
    """`gpu: yes` would be the label True in Azure, `rev: 1.10` the label 1.1."""
    labels = {"gpu": True, "rev": 1.10}
    assert own_labels(labels) == labels
    assert goal_of_document({"node": {"labels": labels}}).labels == labels


def test_a_taint_that_is_none_names_its_field() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        goal_of_document({"kubernetes": {"version": "1.35.7"}, "node": {"taints": ["a=b:Never"]}})
    assert [problem.path for problem in caught.value.problems] == ["node.taints[0]"]


def test_what_a_put_would_change() -> None:
    current = Goal("1.35.7", 61, {"site": "lab-1", "old": "x"}, ("a=b:NoSchedule",), ETAG)
    assert changes(current, Goal("1.35.7", 61, {"site": "lab-1", "old": "x"}, ("a=b:NoSchedule",))) == []
    assert changes(current, Goal("1.36.2", 61, {"site": "lab-2"}, ("c:NoExecute",))) == [
        "Kubernetes 1.35.7 -> 1.36.2",
        "label site=lab-2",
        "remove label old",
        "taint c:NoExecute",
        "remove taint a=b:NoSchedule",
    ]


@pytest.mark.parametrize(("current", "wanted"), [("1.35", "1.35.7"), ("1.35.7", "1.35")])
def test_a_patch_release_is_its_minor_version(current: str, wanted: str) -> None:
    assert changes(Goal(current), Goal(wanted)) == []


def test_settings_of_the_user_go_over_the_goal_of_the_machine() -> None:
    """Precedence: explicit setting, machine, pool. A null removes a label."""
    pool = {"kubernetes": {"version": "1.35.7"}, "node": {"maxPods": 30, "labels": {"pool": "x"}}}
    current = Goal.of(machine())
    user = {"node": {"labels": {"rack": "7", "site": None}}}
    wanted = goal_of_document(merge(current.over(pool), user))
    assert changes(current, wanted) == ["label rack=7", "remove label site"]
    assert changes(current, goal_of_document(merge(current.over(pool), {}))) == []


def test_max_pods_of_a_machine_can_not_change() -> None:
    """FLEX-1112."""
    with pytest.raises(MaxPodsFixed) as caught:
        changes(Goal("1.35.7", 61), Goal("1.35.7", 110))
    assert "110" in caught.value.what
    assert "61" in caught.value.what
    assert "recreate the machine" in caught.value.fix
