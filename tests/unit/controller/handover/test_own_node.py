# SPDX-License-Identifier: GPL-3.0-or-later
"""Which Node a host is for the controller, and which of the taints that it asks for are changed there."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.own_node import (
    node_names,
    taint_changes,
    taints_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine

GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
OLD = {"key": "old", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("machine", "others", "names"),
    [
        (Machine("host-1", node="edge-1"), [Machine("edge-1")], ["edge-1"]),
        (Machine("Edge-1"), [], ["edge-1"]),
        (Machine("edge-1.plant.example"), [], ["edge-1.plant.example", "edge-1"]),
        (Machine("edge-1.north"), [Machine("edge-1.south")], ["edge-1.north"]),
        (Machine("edge-1.north"), [Machine("edge-1")], ["edge-1.north"]),
        (Machine("edge-1"), [Machine("edge-1.north")], ["edge-1"]),
        (Machine("edge-1"), [Machine("host-2", node="edge-1")], []),
        (Machine("edge-1.north"), [Machine("host-2", node="edge-1")], ["edge-1.north"]),
        (Machine("edge-1"), [Machine("EDGE-1")], []),
        (Machine("10.0.0.7"), [], ["10.0.0.7"]),
    ],
    ids=[
        "named",
        "spelling",
        "with and without the domain",
        "two domains",
        "another's whole name",
        "whole name first",
        "another is named so",
        "another is named so without the domain",
        "two spellings",
        "address",
    ],
)
def test_a_host_has_no_name_that_may_be_anothers(
    machine: Machine, others: list[Machine], names: list[str]
) -> None:
    assert node_names([machine], others) == {machine.host: names}
    assert node_names([machine, *others])[machine.host] == names


def test_taints_of_a_document_have_one_form() -> None:
    assert taints_in({"node": {"taints": [GPU, "a:NoExecute"]}}) == [
        "dedicated=gpu:NoSchedule",
        "a:NoExecute",
    ]
    assert (
        taints_in({}) == taints_in({"node": {"taints": None}}) == taints_in({"node": {"taints": "x"}}) == []
    )


def changes(name: Any = "edge-1", *, node: str = "", wanted: list[str] | None = None, **asked: Any) -> Any:
    handover = {"node": node, "node_names": [node or "edge-1"], "taints": wanted or []}
    answer = {"node": {"name": name}, "taints": {"set": [], "remove": [], **asked}}
    return taint_changes(answer, handover, "host-1")


def test_what_the_document_has_is_set_and_what_it_has_not_is_removed() -> None:
    assert changes(wanted=["dedicated=gpu:NoSchedule"], set=[GPU], remove=[OLD]) == {
        "name": "edge-1",
        "set": [GPU],
        "remove": [OLD],
        "commands": [
            "kubectl taint nodes edge-1 dedicated=gpu:NoSchedule --overwrite",
            "kubectl taint nodes edge-1 old:NoExecute-",
        ],
        "refused": [],
        "why": "",
    }


@pytest.mark.parametrize("wanted", [[], ["dedicated:NoSchedule"], ["dedicated=gpu:NoExecute"]])
def test_a_taint_that_only_the_machine_asks_for_is_told_and_not_set(wanted: list[str]) -> None:
    found = changes(wanted=wanted, set=[GPU])
    assert (found["set"], found["commands"]) == ([], [])
    assert found["refused"] == ["kubectl taint nodes edge-1 dedicated=gpu:NoSchedule --overwrite"]
    assert found["why"] == "node.taints of host-1 in the inventory does not have them"


@pytest.mark.parametrize(
    "taint",
    [
        {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        {"key": "kubernetes.azure.com/flex-node-deleting", "effect": "NoSchedule"},
        {"key": "dedicated", "effect": "NoSchedule"},
        {"key": "a; reboot", "effect": "NoSchedule"},
        {"key": "a", "effect": "NoSchedule; reboot"},
        "reboot",
        None,
    ],
    ids=["of Kubernetes", "of AKS", "of the document", "key", "effect", "text", "nothing"],
)
def test_a_taint_that_is_not_the_machines_stays(taint: Any) -> None:
    found = changes(wanted=["dedicated=gpu:NoSchedule"], remove=[taint])
    assert (found["remove"], found["commands"], found["refused"]) == ([], [], [])


@pytest.mark.parametrize("node", ["", "edge-9"])
def test_another_node_is_told_and_not_changed(node: str) -> None:
    found = changes("victim", node=node, wanted=["dedicated=gpu:NoSchedule"], set=[GPU], remove=[OLD])
    assert (found["set"], found["remove"], found["commands"]) == ([], [], [])
    assert found["refused"] == [
        "kubectl taint nodes victim dedicated=gpu:NoSchedule --overwrite",
        "kubectl taint nodes victim old:NoExecute-",
    ]
    why = "host-1 is Node edge-9 in the inventory" if node else "set agent.nodeName: victim in flexnode_host_"
    assert why in found["why"]


@pytest.mark.parametrize("name", ["x; reboot", "--all", "", None, ["x"], {"a": 1}, "x\nreboot"])
def test_a_name_that_can_be_none_is_in_no_command(name: Any) -> None:
    found = changes(name, set=[GPU])
    assert found["refused"] == ["kubectl taint nodes NODE dedicated=gpu:NoSchedule --overwrite"]


@pytest.mark.parametrize("answer", [{}, {"node": [], "taints": "x"}, {"taints": {"set": {"key": "a"}}}])
def test_what_is_no_answer_changes_nothing(answer: Any) -> None:
    found = taint_changes(answer, {"node": "", "node_names": ["edge-1"], "taints": []}, "host-1")
    assert (found["commands"], found["refused"]) == ([], [])
