# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `unbootstrap`: what is cleaned up, what remains, and how both are told."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.stage import CLUSTER, NAMED, Stage, hosts, touched

# Nothing listens there.
DEAD = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
STAYS = {"changed": True, "remains": [], "node_name": "x", "node_remains": "refused"}


def failing_on_b(stage: Stage) -> dict[str, dict[str, Any]]:
    names = ("a", "b", "c", "d")
    answers = {name: {**STAYS, "node_name": name} for name in names}
    answers["b"] = {"failed": True, "msg": "FLEX-1309: in use"}
    stage.answer_by_host("flexnode_reconcile", **answers)
    return stage.machines(*names)


def test_what_had_to_stay_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    left = {"remains": ["file:/etc/x: someone changed it"], "node_name": "gone", "node_remains": "refused"}
    stage.answer(
        flexnode_reconcile={"changed": True, **left},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert sorted(stage.asked("flexnode_node")) == [["a"], ["b"]]
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(
            rf"fatal: \[{host}\].*has left the cluster, but this remains:.*changed it", stage.output
        )


def test_trouble_in_azure_arc_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"},
        arc_register={"failed": True, "msg": "FLEX-1814: azcmagent show gives no answer"},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert sorted(stage.asked("flexnode_node")) == [["a"], ["b"]]
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(rf"fatal: \[{host}\].*this remains:.*in Azure Arc: FLEX-1814", stage.output)


def test_nodes_that_nobody_could_delete_are_named(stage: Stage) -> None:
    left = {"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"}
    stage.answer(flexnode_reconcile=left)
    fleet = {"gone": hosts("a", source="inline")["a"]}
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert stage.status != 0
    assert "set flexnode_kubeconfig, or type: kubectl delete node gone" in " ".join(stage.output.split())
    assert "Node gone" in stage.output


def test_machines_that_left_nothing_behind_are_fine(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": ""})
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="inline"), *NAMED)
    assert stage.status == 0, stage.output


def test_a_machine_that_fails_lets_its_batch_finish_and_stops_the_next(stage: Stage) -> None:
    """The others of the batch have left: their Nodes must go, and what remains must be said."""
    fleet = failing_on_b(stage)
    stage.answer(flexnode_node={"changed": True})
    options = ("-e", "flexnode_hosts=all", "-e", "flexnode_serial=3")
    stage.play("aks.flexnode.unbootstrap", fleet, *options, flexnode_kubeconfig="/k")
    assert stage.status != 0
    assert touched(stage) == 3, stage.output
    assert sorted(names for (names,) in stage.asked("flexnode_node")) == ["a", "c"]
    assert re.search(r"fatal: \[b\].*could not leave the cluster:.*FLEX-1309", stage.output)
    assert "a  removed from the cluster: Node deleted, 0 changes on the machine undone" in stage.output


@pytest.mark.parametrize(
    ("left", "arguments", "sentence"),
    [
        (
            {"changed": True, "node_name": "x", "actions": ["stop kubelet", "delete Node x"]},
            (),
            "x  removed from the cluster: Node deleted, all 2 changes on the machine undone",
        ),
        (  # a second run, after the first was interrupted: the Node may have been deleted then
            {"changed": True, "node_name": "x", "actions": ["stop kubelet"]},
            (),
            "x  no Node to delete, 1 change on the machine undone",
        ),
        (
            {"changed": True, "node_name": "", "actions": ["restored file:/etc/x"]},
            (),
            "edge-1  was not joined: 1 change on the machine undone",
        ),
        (
            {"changed": True, "node_name": "", "actions": ["leave the cluster"]},
            ("--check",),
            "edge-1  would leave the cluster and undo 1 change on the machine",
        ),
        ({"changed": False}, (), "edge-1  not a node of a cluster, nothing to do"),
    ],
    ids=["done", "again", "never joined", "check mode", "nothing to do"],
)
def test_the_result_of_leaving_says_only_what_is_true(
    stage: Stage, left: dict[str, Any], arguments: tuple[str, ...], sentence: str
) -> None:
    stage.answer(flexnode_reconcile={"remains": [], "node_remains": "", **left})
    stage.play("aks.flexnode.unbootstrap", {"edge-1": {}}, "--limit", "edge-1", *arguments)
    assert stage.status == 0, stage.output
    assert sentence in stage.output
    assert "Check the inventory and get each machine's configuration]" in stage.output


def test_what_can_not_be_deleted_is_told_with_everything_else(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile={**STAYS, "remains": ["file:/etc/x: changed"]},
        flexnode_config_blob={"failed": True, "msg": "FLEX-1705: no answer of storage"},
        flexnode_node={"failed": True, "msg": "FLEX-1504: no answer of the API server"},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.status != 0
    for host in ("a", "b"):
        said = re.search(rf"fatal: \[{host}\].*this remains:.*", stage.output)
        assert said, stage.output
        for part in ("file:/etc/x: changed", "FLEX-1705", "FLEX-1504"):
            assert part in said[0]


def test_each_machine_has_the_kubeconfig_of_its_cluster(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**STAYS, "node_name": "{host}"}, flexnode_node={"changed": True})
    fleet = {"east": {"flexnode_kubeconfig": "/east"}, "west": {}, "north": {"flexnode_kubeconfig": "/north"}}
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    used = sorted(params["kubeconfig"] for name, params in stage.calls if name == "flexnode_node")
    assert used == ["/east", "/north"]
    assert re.search(r"fatal: \[west\].*set flexnode_kubeconfig", stage.output)


# -- another node than the inventory says --------------------------------------------------------------------


def expected(stage: Stage) -> dict[str, dict[str, str]]:
    """By host, which node it must be."""
    return {
        given["host"]: given.get("expected") for name, given in stage.calls if name == "flexnode_reconcile"
    }


def test_a_machine_is_told_which_node_it_must_be(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": False, "remains": []}, flexnode_config_blob={"nodes": []})
    fleet = stage.machines("a", "b", "c", "d", flexnode_cluster_id=CLUSTER)
    fleet["a"] |= {"flexnode_config_source": "blob"}
    fleet["b"] |= {
        "flexnode_config_source": "cluster",
        "flexnode_host_config": {"agent": {"nodeName": "edge-2"}},
    }
    fleet["c"] |= {"flexnode_config_source": "machines", "flexnode_pool": "edge"}
    fleet["d"] |= {"flexnode_cluster_id": ""}
    stage.answer(flexnode_pool_info={"pools": [], "cluster": {}})
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert stage.status == 0, stage.output
    assert expected(stage) == {
        "a": {"node_name": "a", "cluster_id": CLUSTER, "pool": ""},
        "b": {"node_name": "edge-2", "cluster_id": CLUSTER, "pool": ""},
        "c": {"node_name": "c", "cluster_id": CLUSTER, "pool": "edge"},
        "d": {"node_name": "", "cluster_id": "", "pool": ""},  # its host name decides
    }


def test_nothing_of_another_node_is_deleted_in_azure(stage: Stage) -> None:
    """After a change of addresses, the machine that answers as b is another node: b's blob is in use."""
    refused = {"failed": True, "msg": "FLEX-1101: this machine is Node c"}
    gone = {"changed": True, "remains": [], "node_name": "a", "node_remains": ""}
    stage.answer_by_host("flexnode_reconcile", gone, b=refused)
    stage.answer(flexnode_config_blob={"nodes": []})
    fleet = stage.machines("a", "b", flexnode_config_source="blob", flexnode_cluster_id=CLUSTER)
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert stage.asked("flexnode_config_blob") == [["a"]], stage.output
    assert re.search(r"fatal: \[b\].*could not leave the cluster:.*this machine is Node c", stage.output)


def test_a_machine_does_not_say_which_node_the_administrator_deletes(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**STAYS, "node_name": "victim"}, flexnode_node={"changed": True})
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="cluster"), *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_node") == [["a"]], stage.output


def test_role_node_alone_reads_the_inventory(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={**STAYS, "node_name": "edge-1"}, flexnode_node={"changed": True})
    book = stage.directory / "book.yml"
    tasks = [
        {"ansible.builtin.import_role": {"name": "aks.flexnode.node", "tasks_from": entry}}
        for entry in ("absent", "left")
    ]
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    fleet = stage.machines("a", flexnode_host_config={"agent": {"nodeName": "edge-1"}})
    stage.play(str(book), fleet, flexnode_kubeconfig="/k")
    assert stage.status == 0, stage.output
    assert expected(stage) == {"a": {"node_name": "edge-1", "cluster_id": "", "pool": ""}}
    assert stage.asked("flexnode_node") == [["edge-1"]]


# -- machines that do not answer -----------------------------------------------------------------------------


def test_what_may_still_exist_of_a_machine_that_does_not_answer_is_named(stage: Stage) -> None:
    fleet = {"edge-1": {**hosts("a", source="blob")["a"], **DEAD}}
    stage.play("aks.flexnode.unbootstrap", fleet, "--limit", "edge-1")
    assert stage.status != 0
    (said,) = re.findall(r"fatal: \[edge-1\]: FAILED!.*could not leave the cluster:.*", stage.output)
    for line in (
        "it did not answer: ",
        "if it is lost, delete its Node: kubectl delete node edge-1",
        "if it is lost, delete its configuration in the blob: "
        "ansible-playbook -i INVENTORY aks.flexnode.config_delete --limit edge-1",
    ):
        assert line in said
    assert stage.calls == [], "nothing of it is deleted: it may come back"


def test_the_configuration_of_a_machine_that_does_not_answer_is_deleted_without_it(stage: Stage) -> None:
    stage.answer(flexnode_config_blob={"nodes": [{"name": "edge-1", "action": "tombstoned"}]})
    fleet = {"edge-1": {**hosts("a", source="blob")["a"], **DEAD}}
    stage.play("aks.flexnode.config_delete", fleet, "--limit", "edge-1")
    assert stage.status == 0, stage.output
    assert stage.asked("flexnode_config_blob") == [["edge-1"]]
    assert "edge-1  tombstoned" in stage.output


def test_what_a_machine_says_of_itself_is_compared_with_its_node(stage: Stage) -> None:
    """A Node of the same name may be another machine, in another cluster."""
    said = {
        name: {"machine_id": letter * 32, "api_server": f"https://{name}.example", "ca_sha256": [letter]}
        for name, letter in (("east", "e"), ("west", "f"))
    }
    stage.answer_by_host("flexnode_reconcile", **{name: {**STAYS, "machine": said[name]} for name in said})
    refused = "FLEX-1904: Node x in this cluster is another machine"
    stage.answer_by_code(
        "flexnode_node",
        f"if given['kubeconfig'] == '/west': answer = {{'failed': True, 'msg': {refused!r}}}",
        {"changed": True},
    )
    fleet = stage.machines("east", "west")
    for name, variables in fleet.items():
        variables["flexnode_kubeconfig"] = f"/{name}"
        variables["flexnode_config"] = {"agent": {"nodeName": "x"}}
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    given = {params["kubeconfig"]: params for name, params in stage.calls if name == "flexnode_node"}
    for name, params in given.items():
        assert params["nodes"] == [{"name": "x", **said[name.strip("/")]}]
        assert not params.get("names")
    assert stage.status != 0
    assert re.search(r"fatal: \[west\].*this remains:.*Node x: FLEX-1904", stage.output), stage.output
    assert "fatal: [east]" not in stage.output
