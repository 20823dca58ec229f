# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks under settings of a user's ansible.cfg and command line that their author may not have."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks.stage import (
    AKS,
    BAD,
    IN_ARC,
    LEFT,
    NAMED,
    ROOT,
    Fleet,
    Stage,
    arc_hosts,
    done,
    hook,
    hosts,
)

UNREACHABLE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}


def reconciled(stage: Stage) -> list[str]:
    return [params.get("host", "") for name, params in stage.calls if name == "flexnode_reconcile"]


@pytest.mark.parametrize("playbook", sorted((ROOT / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_every_play_says_how_it_runs_its_machines(playbook: Path) -> None:
    """A strategy of ansible.cfg would run tasks that are for all machines once for each of them."""
    for play in yaml.safe_load(playbook.read_text()):
        assert play["hosts"] == "localhost" or play["strategy"].startswith("ansible.builtin."), play["name"]


@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_a_strategy_of_ansible_cfg_changes_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    monkeypatch.setenv("ANSIBLE_STRATEGY", strategy)
    stage.answer(flexnode_reconcile=LEFT, flexnode_config_blob={"nodes": []})
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED)
    assert stage.status == 0, stage.output
    assert stage.asked("flexnode_config_blob") == [["a", "b"]]


# --- leaving -----------------------------------------------------------------------------------------------


def test_a_mistake_in_the_inventory_is_found_before_the_first_batch_leaves(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    fleet = {"a": {}, "b": {"flexnode_config": "{{ nowhere }}"}, "c": {}}
    stage.play("aks.flexnode.unbootstrap", fleet, "-e", "flexnode_hosts=all", "-e", "flexnode_serial=1")
    assert stage.status != 0
    assert "flexnode_config can't be evaluated" in stage.output
    assert stage.calls == []


def test_one_machine_that_can_not_leave_keeps_no_other_from_being_cleaned_up(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_ANY_ERRORS_FATAL", "true")
    fleet = stage.machines("a", "b", flexnode_config_source="blob", flexnode_cluster_id=AKS)
    stage.answer_by_host("flexnode_reconcile", LEFT, b={"failed": True, "msg": "FLEX-1601: busy"})
    stage.answer(flexnode_config_blob={"nodes": []})
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert stage.asked("flexnode_config_blob") == [["a"]], stage.output
    assert "no Node to delete" in stage.output
    assert re.search(r"fatal: \[b\].*could not leave.*FLEX-1601", stage.output)
    assert not re.search(r"fatal: \[a\]", stage.output)
    assert stage.status != 0


@pytest.mark.parametrize("blank", ["", None])
def test_a_blank_kubeconfig_deletes_no_node_and_says_so(stage: Stage, blank: str | None) -> None:
    stage.answer(flexnode_reconcile={**LEFT, "node_remains": "forbidden"})
    stage.play("aks.flexnode.unbootstrap", {"a": {"flexnode_kubeconfig": blank}}, *NAMED)
    assert re.search(r"fatal: \[a\].*kubectl delete node x", stage.output), stage.output
    assert stage.status != 0


def test_what_remains_is_told_on_lines_of_its_own(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**LEFT, "remains": ["file:/etc/x: someone changed it"]})
    stage.play("aks.flexnode.unbootstrap", {"a": {}}, *NAMED)
    assert r"but this remains:\\n" not in stage.output
    assert r"but this remains:\n  file:/etc/x" in stage.output, stage.output


def test_a_task_chosen_to_start_at_removes_nobody_who_was_not_named(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    start = ("--start-at-task", "Leave the cluster and undo the changes on the machine")
    stage.play("aks.flexnode.unbootstrap", {"a": {}, "b": {}}, *start)
    assert stage.status != 0
    assert reconciled(stage) == [], stage.output


# --- updating ----------------------------------------------------------------------------------------------


def test_an_updated_machine_is_reported_as_such_though_another_one_failed(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_ANY_ERRORS_FATAL", "true")
    fleet.stage.answer_by_host("flexnode_reconcile", done("updated (labels)"), b=BAD)
    fleet.update(serial=2)
    assert fleet.table["a"][1] == "updated (labels)", fleet.stage.output
    assert fleet.table["b"][1] == "ROLLED BACK FLEX-1501"
    assert fleet.table["c"][1] == "not attempted"


@pytest.mark.parametrize(
    ("when", "updated", "result"),
    [
        ("before", ["b"], "failed (no answer in flexnode_update_before)"),
        ("after", ["a", "b"], "failed (no answer in flexnode_update_after) after it was updated (labels)"),
    ],
)
def test_a_hook_that_gets_no_answer_is_a_failure(
    fleet: Fleet, when: str, updated: list[str], result: str
) -> None:
    """Of a balancer that a task is delegated to, for example."""
    fleet.stage.answer_by_host("flexnode_reconcile", done("updated (labels)"))
    ping = {"ansible.builtin.ping": {}, "delegate_to": "balancer", "when": "inventory_hostname == 'a'"}
    name = hook(fleet.stage, f"{when}.yml", **ping)
    fleet.hosts["balancer"] = UNREACHABLE
    fleet.update("--limit", "!balancer", serial=2, **{f"flexnode_update_{when}": name})
    assert fleet.updated == updated, fleet.stage.output
    assert fleet.table["a"][1] == result
    assert fleet.table["b"][1] == "updated (labels)"
    assert fleet.table["c"][1] == "not attempted"
    assert fleet.stage.status != 0


def test_a_hook_that_fails_once_for_all_still_ends_with_a_table(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done("updated (labels)"))
    after = hook(fleet.stage, "after.yml", **{"ansible.builtin.fail": {"msg": "no"}, "run_once": True})
    fleet.update(serial=2, flexnode_update_after=after)
    assert fleet.updated == ["a", "b"]
    assert "after it was updated (labels)" in fleet.table["a"][1], fleet.stage.output
    assert "after it was updated (labels)" in fleet.table["b"][1]
    assert fleet.table["c"][1] == "not attempted"
    assert fleet.stage.status != 0


def test_wheels_that_can_not_be_downloaded_fail_no_machine(fleet: Fleet) -> None:
    fleet.stage.answer_by_host(
        "flexnode_reconcile", done("updated (labels)"), a=done("updated (pull)", pull_pending=True)
    )
    fleet.stage.answer(flexnode_wheelhouse={"failed": True, "msg": "FLEX-1201: no answer"})
    output = fleet.update(serial=2, flexnode_pull_wheelhouse="./wheels")
    assert fleet.table["b"][1] == "updated (labels)", fleet.stage.output
    assert "WARNING: the wheels of ansible-core can't be downloaded on the controller. FLEX-1201" in output
    assert fleet.updated == ["a", "a", "b", "c", "d", "e"], "ansible-pull is tried with what is there"
    assert fleet.stage.status == 0


@pytest.mark.parametrize("playbook", ["update", "bootstrap"])
def test_a_node_that_waits_for_its_turn_is_no_failure(fleet: Fleet, playbook: str) -> None:
    waits = {key: value for key, value in done("waits (FLEX-1522: others restart)").items() if key != "node"}
    fleet.stage.answer_by_host("flexnode_reconcile", {**waits, "changed": False})
    fleet.stage.play(f"aks.flexnode.{playbook}", {"a": fleet.hosts["a"]})
    assert fleet.stage.status == 0, fleet.stage.output
    assert "waits (FLEX-1522: others restart)" in fleet.stage.output


# --- after the join ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["flexnode_bootstrap_token", "flexnode_identity_binding"])
def test_what_can_not_be_removed_after_a_join_keeps_the_rest_from_nothing(stage: Stage, module: str) -> None:
    """Rights are revoked, tokens deleted, ansible-pull installed; then the run says what it could not do."""
    fleet = arc_hosts("a", source="blob", autoRoleAssignment=True)
    token = {"azure": {**fleet["a"]["flexnode_config"]["azure"], "bootstrapToken": {}}}
    fleet["a"]["flexnode_config"] = {**token, "kubernetesAuth": {"method": "bootstrapToken"}}
    fleet |= arc_hosts("b", autoRoleAssignment=True)
    stage.answer(arc_register={**IN_ARC, "missing_roles": []}, flexnode_config_fetch={"config": {}})
    stage.answer(flexnode_cluster_info={"clusters": []}, flexnode_config_blob={"nodes": []})
    stage.answer(flexnode_reconcile=done("joined", pull_pending=True))
    stage.answer(flexnode_bootstrap_token={"nodes": []}, flexnode_identity_binding={})
    refuses = """
if given.get("state") == "absent":
    answer = {"failed": True, "msg": "FLEX-1702: not allowed"}
"""
    stage.answer_by_code(module, refuses, {"nodes": []})
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0)
    absent = [name for name, params in stage.calls if params.get("state") == "absent"]
    assert {"flexnode_identity_binding", "flexnode_bootstrap_token"} <= set(absent), stage.output
    pulled = [params for name, params in stage.calls if params.get("components") == ["pull"]]
    assert len(pulled) == 2, stage.output
    assert re.search(
        r"fatal: \[a\].*The machines have joined, but this was not removed:.*FLEX-1702", stage.output
    )
    assert stage.status != 0


# --- the machine first, then Azure -------------------------------------------------------------------------

DOCKER = {"ok": False, "table": ["docker owns containerd"]}


@pytest.mark.parametrize("source", ["rp", "cluster", "blob"])
def test_a_machine_that_can_not_become_a_node_costs_nothing_in_azure(stage: Stage, source: str) -> None:
    fleet = stage.machines("a", "b", flexnode_config_source=source, flexnode_cluster_id=AKS)
    stage.answer_by_host("flexnode_preflight_info", {"ok": True, "table": []}, a=DOCKER)
    stage.answer(flexnode_config={"nodes": []}, flexnode_bootstrap_token={"nodes": []})
    stage.answer(flexnode_cluster_info={"clusters": []}, flexnode_config_blob={"nodes": []})
    stage.answer(flexnode_reconcile=done("joined"))
    stage.play("aks.flexnode.bootstrap", fleet)
    assert re.search(r"fatal: \[a\].*docker owns containerd", stage.output), stage.output
    written = {"rp": "flexnode_config", "cluster": "flexnode_bootstrap_token", "blob": "flexnode_config_blob"}
    assert stage.asked(written[source])[0] == ["b"]
    checked = [params for name, params in stage.calls if name == "flexnode_preflight_info"]
    assert {(params["stage"], params["purpose"]) for params in checked} == {("host", "prepare")}


def test_nor_is_it_registered_with_azure_arc(stage: Stage) -> None:
    stage.answer(arc_info={"installed": False, "resource_id": "", "registered_by_us": False})
    stage.answer(flexnode_preflight_info=DOCKER, flexnode_config_fetch={"config": {}})
    stage.play("aks.flexnode.bootstrap", arc_hosts("a"), flexnode_arc_lend_token=True)
    assert "docker owns containerd" in stage.output
    assert not {"flexnode_access_token", "arc_register"} & {name for name, _params in stage.calls}


def test_no_machine_is_checked_where_the_checks_are_off(stage: Stage) -> None:
    stage.answer(flexnode_preflight_info=DOCKER, flexnode_config={"nodes": []})
    stage.answer(flexnode_reconcile=done("joined"))
    stage.play("aks.flexnode.bootstrap", hosts("a", source="rp"), flexnode_preflight=False)
    assert stage.asked("flexnode_config") == [["a"]], stage.output
