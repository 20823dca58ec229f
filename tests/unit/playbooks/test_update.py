# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `update`, as Ansible runs it: batches, hooks, the table at the end, taints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.unit.playbooks.stage import BAD, CLUSTER, READY, Fleet, Stage, done, hook, hosts

BARE = {"phase": "NotStarted", "node": {"status": "NotConfigured", "ready": False}}


def test_five_machines_in_batches_of_two_and_one_is_bad(fleet: Fleet) -> None:
    """The batch stops, the others are untouched, the table says who is where."""
    fleet.stage.answer_by_host("flexnode_reconcile", done("updated (maxPods)"), d=BAD)
    output = fleet.update(serial=2)
    assert fleet.updated == ["a", "b", "c", "d"], fleet.stage.output
    assert fleet.table == {
        "HOST": ["NODE", "RESULT", "KUBELET", "RUNTIME"],
        "a": ["a", "updated (maxPods)", "1.34.5", "containerd 2.3.4"],
        "b": ["b", "updated (maxPods)", "1.34.5", "containerd 2.3.4"],
        "c": ["c", "updated (maxPods)", "1.34.5", "containerd 2.3.4"],
        "d": ["d", "ROLLED BACK FLEX-1501", "1.34.4", "containerd 2.3.4"],
        "e": ["e", "not attempted", "1.34.4", "containerd 2.3.4"],
    }
    assert fleet.stage.status != 0
    assert "1 machine was not attempted" in output
    assert re.search(r"fatal: \[d\].*FLEX-1501: kubelet does not run", fleet.stage.output)


def test_a_bad_machine_of_the_first_batch_keeps_its_neighbour_and_no_other(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done(), a=BAD)
    fleet.update(serial=2)
    assert fleet.updated == ["a", "b"]
    assert [cells[1] for cells in fleet.table.values()][1:] == [
        "ROLLED BACK FLEX-1501",
        "unchanged",
        *["not attempted"] * 3,
    ]
    assert fleet.stage.status != 0


def test_a_whole_batch_that_fails_is_in_the_table_too(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", BAD)
    fleet.update(serial=2)
    assert fleet.updated == ["a", "b"]
    assert fleet.table["b"][1] == "ROLLED BACK FLEX-1501"
    assert fleet.table["e"][1] == "not attempted"
    assert fleet.stage.status != 0


def test_some_may_fail(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done(), a=BAD)
    fleet.update("-e", "flexnode_max_fail_percentage=50", serial=2)
    assert fleet.updated == ["a", "b", "c", "d", "e"]
    assert "not attempted" not in fleet.stage.output
    assert fleet.stage.status != 0, "one machine failed all the same"


def test_a_fleet_that_is_fine(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done(), b=done("updated (maxPods, labels)"))
    output = fleet.update(serial=3)
    assert fleet.stage.status == 0, fleet.stage.output
    assert (
        "Ready kubelet 1.34.5 containerd 2.3.4 updated (maxPods, labels) in 4.2 s (download 1.2 s," in output
    )
    assert "Ready kubelet 1.34.5 containerd 2.3.4 unchanged" in output
    assert "Check the inventory and get each machine's configuration" in output


def test_a_machine_that_is_no_node_is_named_and_left(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    fleet.stage.answer_by_host(
        "flexnode_status_info", {"status": BARE}, b={"status": {"phase": "NodeJoined", "node": READY}}
    )
    fleet.update()
    assert fleet.updated == ["b"], fleet.stage.output
    assert fleet.table["a"][1] == "not a node: run bootstrap"
    assert fleet.stage.status == 0


def test_a_machine_that_does_not_answer_counts_as_failed(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    fleet.hosts["a"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    fleet.update(serial=2)
    assert fleet.updated == ["b"], fleet.stage.output
    assert fleet.table["a"][1] == "failed"
    assert fleet.table["c"][1] == "not attempted"
    assert fleet.stage.status != 0


def test_configurations_are_written_batch_by_batch_and_for_nodes_only(stage: Stage) -> None:
    """A machine that follows its configuration would otherwise not wait for its batch."""
    fleet = Fleet(stage, "a", "b", "c", flexnode_config_source="rp", flexnode_cluster_id=CLUSTER)
    fleet.stage.answer_by_host(
        "flexnode_status_info",
        {"status": {"phase": "NodeJoined", "node": READY}},
        a={"status": BARE},
    )
    stage.answer(flexnode_config={"nodes": []})
    fleet.stage.answer_by_host("flexnode_reconcile", done(), b=BAD)
    fleet.update(serial=2)
    assert stage.asked("flexnode_config") == [["b"]], stage.output


def test_azure_that_refuses_fails_the_batch_and_stops_the_next(stage: Stage) -> None:
    fleet = Fleet(stage, "a", "b", "c", flexnode_config_source="rp", flexnode_cluster_id=CLUSTER)
    stage.answer(flexnode_config={"failed": True, "msg": "FLEX-1702: not allowed"})
    fleet.update(serial=2)
    assert fleet.updated == []
    assert [cells[1] for cells in fleet.table.values()][1:] == ["failed FLEX-1702"] * 2 + ["not attempted"]
    assert stage.status != 0


def test_a_token_for_a_node_that_was_not_ready_is_deleted_after_its_batch(stage: Stage) -> None:
    fleet = Fleet(stage, "a", "b", flexnode_config_source="cluster", flexnode_cluster_id=CLUSTER)
    created = {"name": "a", "cluster_id": CLUSTER, "joined": False, "token": "abcdef.0123456789abcdef"}
    stage.answer(flexnode_cluster_info={"clusters": []}, flexnode_bootstrap_token={"nodes": [created]})
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    fleet.update()
    calls = [params for name, params in stage.calls if name == "flexnode_bootstrap_token"]
    assert [params.get("state", "present") for params in calls] == ["present", "absent"], stage.output
    assert stage.status == 0


# --- hooks -------------------------------------------------------------------------------------------------


def test_hooks_run_around_each_update(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    before = hook(fleet.stage, "before.yml", **{"ansible.builtin.debug": {"msg": "{{ inventory_hostname }}"}})
    after = hook(fleet.stage, "after.yml", **{"ansible.builtin.debug": {"msg": "{{ inventory_hostname }}"}})
    fleet.update(serial=2, flexnode_update_before=before, flexnode_update_after=after)
    assert fleet.stage.status == 0, fleet.stage.output
    titles = [
        title
        for title in re.findall(r"^TASK \[(.*?)\]", fleet.stage.output, re.MULTILINE)
        if re.search("Task of|Apply the configuration", title)
    ]
    assert [re.sub("^.* : ", "", title) for title in titles[:3]] == [
        "Task of before.yml",
        "Apply the configuration and wait for the Node to be Ready",
        "Task of after.yml",
    ]


def test_a_failing_before_hook_leaves_the_machine_untouched(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    refuses = {"ansible.builtin.fail": {"msg": "the site is busy"}, "when": "inventory_hostname == 'a'"}
    fleet.update(serial=2, flexnode_update_before=hook(fleet.stage, "before.yml", **refuses))
    assert fleet.updated == ["b"], fleet.stage.output
    assert fleet.table["a"][1] == "failed"
    assert re.search(r"fatal: \[a\].*the site is busy", fleet.stage.output)
    assert fleet.stage.status != 0


def test_a_failing_after_hook_says_that_the_machine_was_updated(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done("updated (labels)"))
    after = hook(fleet.stage, "after.yml", **{"ansible.builtin.fail": {"msg": "still silent"}})
    fleet.update(serial=2, flexnode_update_after=after)
    assert fleet.table["a"][1] == "failed after it was updated (labels)"


def test_a_hook_that_does_not_exist_is_found_before_anything_is_touched(fleet: Fleet) -> None:
    output = fleet.update(flexnode_update_before="nowhere.yml")
    assert fleet.stage.status != 0
    assert fleet.stage.calls == []
    assert "flexnode_update_before: there is no file nowhere.yml" in output


# --- check mode, retry -------------------------------------------------------------------------------------


def test_check_mode_tells_per_machine_what_would_happen_and_whether_it_drains(fleet: Fleet) -> None:
    would = done("updated (kubernetes)", actions=["install kubelet 1.35.4", "restart kubelet"], drains=True)
    fleet.stage.answer_by_host("flexnode_reconcile", done(), b=would)
    output = fleet.update("--check")
    assert fleet.stage.status == 0, fleet.stage.output
    assert fleet.table["b"][1] == "would be updated (kubernetes), drained first"
    assert fleet.table["a"][1] == "unchanged"
    assert "install kubelet 1.35.4" in output


@pytest.mark.parametrize("playbook", ["update", "bootstrap"])
def test_a_rolled_back_configuration_is_tried_again_on_request(fleet: Fleet, playbook: str) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    for retry in (False, True):
        options = ("-e", "flexnode_retry=true") if retry else ()
        fleet.stage.play(f"aks.flexnode.{playbook}", {"a": fleet.hosts["a"]}, *options)
        (params,) = [params for name, params in fleet.stage.calls if name == "flexnode_reconcile"]
        assert str(params["retry"]).lower() == str(retry).lower()
        (fleet.stage.directory / "calls").unlink()


# --- taints ------------------------------------------------------------------------------------------------

GPU = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
TAINTED = {"taints": {"set": [GPU], "remove": [{"key": "old", "effect": "NoExecute"}]}}
# As the inventory has it: a machine alone does not decide what an administrator's credential does.
EDGE_1 = {"agent": {"nodeName": "edge-1"}, "node": {"taints": ["dedicated=gpu:NoSchedule"]}}


@pytest.mark.parametrize("playbook", ["update", "bootstrap"])
@pytest.mark.parametrize(
    ("variables", "credential"),
    [
        ({"flexnode_kubeconfig": "/k"}, {"kubeconfig": "/k"}),
        ({"flexnode_config_source": "rp", "flexnode_cluster_id": CLUSTER}, {"cluster_id": CLUSTER}),
        (
            {
                "flexnode_config_source": "rp",
                "flexnode_cluster_id": CLUSTER,
                "flexnode_kubeconfig": "/k",
            },
            {"kubeconfig": "/k"},
        ),
    ],
    ids=["kubeconfig", "azure", "kubeconfig-first"],
)
def test_taints_are_changed_by_the_controller(
    stage: Stage, playbook: str, variables: dict[str, str], credential: dict[str, str]
) -> None:
    fleet = Fleet(stage, "a", flexnode_config=EDGE_1, **variables)
    stage.answer(flexnode_config={"nodes": []}, flexnode_node={"changed": True})
    said = {"machine_id": "1" * 32, "api_server": "https://plant.example", "ca_sha256": ["2"]}
    fleet.stage.answer_by_host(
        "flexnode_reconcile",
        done("updated (taints)", **TAINTED, node={**READY, "name": "edge-1"}, machine=said),
    )
    stage.play(f"aks.flexnode.{playbook}", fleet.hosts)
    assert stage.status == 0, stage.output
    assert [name for name, _params in stage.calls].count("flexnode_node") == 1
    (params,) = [params for name, params in stage.calls if name == "flexnode_node"]
    assert (params["nodes"], params["taints"], params["taints_absent"]) == (
        [{"name": "edge-1", **said}],  # so that no other machine of this name is tainted
        [GPU],
        [{"key": "old", "effect": "NoExecute"}],
    )
    assert {name: params[name] for name in ("kubeconfig", "cluster_id") if name in params} == credential


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("playbook", ["update", "bootstrap"])
def test_taints_that_were_not_changed_are_named_with_the_commands(
    stage: Stage, playbook: str, refused: bool
) -> None:
    fleet = Fleet(stage, "a", flexnode_config=EDGE_1, **({"flexnode_kubeconfig": "/k"} if refused else {}))
    stage.answer(flexnode_node={"failed": True, "msg": "FLEX-1505: not allowed"})
    fleet.stage.answer_by_host(
        "flexnode_reconcile", done("updated (taints)", **TAINTED, node={**READY, "name": "edge-1"})
    )
    stage.play(f"aks.flexnode.{playbook}", fleet.hosts)
    assert stage.status != 0
    output = " ".join(stage.output.replace("\\n", " ").split())
    assert "kubectl taint nodes edge-1 dedicated=gpu:NoSchedule --overwrite" in output
    assert re.search(r"kubectl taint nodes edge-1 old:NoExecute-(?!\\S)", output)
    assert ("FLEX-1505" if refused else "there is no credential for its cluster") in output


def test_a_run_without_changes_of_taints_needs_no_credential(fleet: Fleet) -> None:
    fleet.stage.answer_by_host("flexnode_reconcile", done())
    fleet.update()
    assert not [name for name, _params in fleet.stage.calls if name == "flexnode_node"]


# --- versions, before anything is written ------------------------------------------------------------------


@pytest.mark.parametrize("playbook", ["bootstrap", "config_put", "update"])
@pytest.mark.parametrize("source", ["rp", "blob"])
def test_a_version_that_machines_would_refuse_is_not_written(
    stage: Stage, tmp_path: Path, playbook: str, source: str
) -> None:
    machines = hosts("a", "b", "c", source=source)
    machines["a"]["flexnode_config"] = {"containerd": {"version": "2.3.99"}}
    machines["b"]["flexnode_config"] = {"kubernetes": {"version": "1.30.0"}}
    stage.answer(
        flexnode_cluster_info={
            "clusters": [{"id": CLUSTER, "kubernetes_version": "1.35.4", "document": {}}],
        }
    )
    stage.play(f"aks.flexnode.{playbook}", machines)
    assert stage.status != 0
    reads = {"flexnode_cluster_info", "flexnode_preflight_info"}
    assert {name for name, _params in stage.calls} <= reads
    output = " ".join(stage.output.replace("\\n", " ").split())
    known = "this collection's list of known versions"
    said = (
        rf" a: containerd 2\.3\.99 for amd64 is not in {known}: the nearest ones are [\d., ]+ \(FLEX-1204\) "
    )
    assert re.search(said, output)
    if source == "blob":
        older = "it is more than 3 minors older (FLEX-1506) "
        assert f" b: kubelet 1.30.0 is not supported by API server 1.35.4: {older}" in output
