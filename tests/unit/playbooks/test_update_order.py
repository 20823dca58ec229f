# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of an update: nodes that follow their source apply what is written there by themselves, at once.

So nothing is written for a machine before its tasks of flexnode_update_before have ended well.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playbooks.stage import CLUSTER, Fleet, Stage, done, hook

WRITERS = {"rp": "flexnode_config", "blob": "flexnode_config_blob"}
REFUSES = {"ansible.builtin.fail": {"msg": "the site is busy"}}
SOURCES = pytest.mark.parametrize("source", ["rp", "blob"])


def fleet_of(stage: Stage, source: str, *names: str) -> Fleet:
    stage.answer(flexnode_cluster_info={"clusters": []}, flexnode_reconcile=done("updated (labels)"))
    stage.answer(**{name: {"nodes": []} for name in (*WRITERS.values(), "flexnode_bootstrap_token")})
    return Fleet(stage, *names, flexnode_config_source=source, flexnode_cluster_id=CLUSTER)


def steps(stage: Stage, source: str) -> list[tuple[str, str]]:
    """What happened, in order: a hook, a configuration that was written, a machine that was changed."""
    found: list[tuple[str, str]] = []
    for name, given in stage.calls:
        if name == "flexnode_status_info" and given.get("names"):
            found.append(("hook", given["host"]))
        elif name == WRITERS[source] and given.get("state", "present") == "present":
            found.append(("written", ",".join(node["name"] for node in given["nodes"])))
        elif name == "flexnode_reconcile":
            found.append(("applied", given["host"]))
    return found


@SOURCES
def test_hooks_run_before_the_configuration_of_their_batch_is_written(stage: Stage, source: str) -> None:
    fleet = fleet_of(stage, source, "a", "b", "c")
    notes = {"aks.flexnode.flexnode_status_info": {"names": ["hook"]}}
    fleet.update(serial=2, flexnode_update_before=hook(stage, "before.yml", **notes))
    assert stage.status == 0, stage.output
    seen = [step for step in steps(stage, source) if step != ("written", "")]
    assert [sorted(seen[:2]), seen[2], sorted(seen[3:5])] == [
        [("hook", "a"), ("hook", "b")],
        ("written", "a,b"),
        [("applied", "a"), ("applied", "b")],
    ]
    assert seen[5:] == [("hook", "c"), ("written", "c"), ("applied", "c")]


@SOURCES
@pytest.mark.parametrize("no_answer", [False, True], ids=["fails", "no answer"])
def test_nothing_is_written_for_a_machine_whose_hook_failed(
    stage: Stage, source: str, no_answer: bool
) -> None:
    fleet = fleet_of(stage, source, "a", "b", "c")
    task: dict[str, Any] = {"ansible.builtin.ping": {}, "delegate_to": "balancer"} if no_answer else REFUSES
    fleet.hosts["balancer"] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    before = hook(stage, "before.yml", **task, when="inventory_hostname == 'a'")
    fleet.update("--limit", "!balancer", serial=2, flexnode_update_before=before)
    assert steps(stage, source) == [("written", "b"), ("applied", "b")], stage.output
    assert fleet.table["a"][1].startswith("failed"), stage.output
    assert (fleet.table["b"][1], fleet.table["c"][1]) == ("updated (labels)", "not attempted")
    assert stage.status != 0


@pytest.mark.parametrize("once", [False, True], ids=["each", "once"])
def test_a_batch_whose_hooks_all_failed_leaves_azure_as_it_was(stage: Stage, once: bool) -> None:
    fleet = fleet_of(stage, "rp", "a", "b", "c")
    before = hook(stage, "before.yml", **REFUSES, run_once=once)
    fleet.update(serial=2, flexnode_update_before=before)
    assert steps(stage, "rp") == [], stage.output
    assert [cells[1] for cells in fleet.table.values()][1:] == ["failed", "failed", "not attempted"]
    assert "the site is busy" in stage.output
    assert stage.status != 0


def test_a_batch_without_a_hook_after_one_that_may_fail_goes_on(stage: Stage) -> None:
    """Only machines of the first batch have a hook."""
    fleet = fleet_of(stage, "rp", "a", "b")
    fleet.hosts["a"]["flexnode_update_before"] = hook(stage, "before.yml", **REFUSES)
    fleet.update("-e", "flexnode_max_fail_percentage=100", serial=1)
    assert steps(stage, "rp") == [("written", "b"), ("applied", "b")], stage.output
    assert (fleet.table["a"][1], fleet.table["b"][1]) == ("failed", "updated (labels)")


def test_azure_that_refuses_after_the_hooks_changes_no_machine(stage: Stage) -> None:
    fleet = fleet_of(stage, "rp", "a", "b")
    stage.answer(flexnode_config={"failed": True, "msg": "FLEX-1702: not allowed"})
    before = hook(stage, "before.yml", **{"ansible.builtin.ping": {}})
    fleet.update(serial=2, flexnode_update_before=before)
    assert fleet.updated == []
    assert fleet.table["a"][1] == fleet.table["b"][1] == "failed FLEX-1702", stage.output


def test_a_machine_that_does_not_answer_gets_no_hook(stage: Stage) -> None:
    fleet = fleet_of(stage, "rp", "a")
    fleet.hosts["a"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    before = hook(stage, "before.yml", **{"ansible.builtin.debug": {"msg": "silence"}})
    fleet.update(flexnode_update_before=before)
    assert "Task of before.yml" not in stage.output
    assert fleet.table["a"][1] == "failed"
