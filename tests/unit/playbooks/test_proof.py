# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook `proof`, and the proof at the end of `bootstrap`: which nodes of which clusters are tested."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.modules import flexnode_proof
from tests.unit.playbooks.stage import CLUSTER, READY, Stage, done, hosts


def asked(stage: Stage) -> dict[str, Any]:
    (given,) = [params for name, params in stage.calls if name == "flexnode_proof"]
    return given


IMAGE = yaml.safe_load(flexnode_proof.DOCUMENTATION)["options"]["image"]["default"]


def node(name: str, kubeconfig: str, machine_id: str = "", image: str = IMAGE) -> dict[str, str]:
    return {"name": name, "kubeconfig": kubeconfig, "machine_id": machine_id, "image": image}


@pytest.mark.parametrize("first", [{}, {"flexnode_kubeconfig": "/a"}], ids=["none", "only one has it"])
def test_a_proof_without_a_kubeconfig_is_refused_before_machines_join(
    stage: Stage, first: dict[str, str]
) -> None:
    stage.answer(flexnode_reconcile=done("joined"))
    stage.play("aks.flexnode.bootstrap", {"a": first, "b": {}}, "-e", "flexnode_proof=true")
    assert "flexnode_proof needs flexnode_kubeconfig" in stage.output, stage.output
    assert stage.calls == []


def test_a_proof_may_be_wanted_of_some_machines(stage: Stage) -> None:
    """By a variable that only hosts have, in a playbook that imports this one."""
    wanted = {"flexnode_proof": "{{ tested }}"}
    book = stage.directory / "book.yml"
    book.write_text(yaml.safe_dump([{"import_playbook": "aks.flexnode.bootstrap", "vars": wanted}]))
    joined = done("joined", node={**READY, "name": "{host}"})
    stage.answer(flexnode_reconcile=joined, flexnode_proof={"nodes": []})
    stage.play(str(book), {"a": {"tested": False}, "b": {"tested": True}})
    assert "\n  b: flexnode_proof needs flexnode_kubeconfig\n" in stage.output, stage.output
    assert stage.calls == []
    stage.play(str(book), {"a": {"tested": False}, "b": {"tested": True, "flexnode_kubeconfig": "/k"}})
    assert stage.status == 0, stage.output
    assert asked(stage)["nodes"] == [node("b", "/k")], stage.output


@pytest.mark.parametrize("playbook", ["update", "preflight", "config_put"])
def test_playbooks_without_a_proof_need_no_kubeconfig_for_it(stage: Stage, playbook: str) -> None:
    written = {"nodes": [{"name": "a", "cluster_id": CLUSTER, "action": "updated"}]}
    stage.answer(flexnode_config=written, flexnode_reconcile=done("joined"))
    stage.play(f"aks.flexnode.{playbook}", hosts("a", source="rp"), flexnode_proof=True)
    assert "flexnode_proof" not in stage.output, stage.output
    assert stage.calls != []


def test_each_node_pulls_the_image_of_its_site(stage: Stage) -> None:
    fleet: dict[str, dict[str, Any]] = {"a": {"flexnode_proof_image": "registry.a/busybox"}, "b": {}}
    stage.answer(flexnode_proof={"nodes": []})
    stage.play("aks.flexnode.proof", fleet, flexnode_kubeconfig="/k")
    assert asked(stage)["nodes"] == [
        node("a", "/k", image="registry.a/busybox"),
        node("b", "/k"),
    ], "the first machine's is not for the others"


def test_a_proof_asks_for_nodes_by_their_own_names(stage: Stage) -> None:
    fleet = {"203.0.113.10": {"flexnode_config": {"agent": {"nodeName": "edge-1"}}}, "edge-2": {}}
    stage.answer(flexnode_proof={"nodes": []})
    stage.play("aks.flexnode.proof", fleet, flexnode_kubeconfig="/k")
    given = asked(stage)
    assert (given["names"], given["kubeconfig"]) == ([], "/k")
    assert given["nodes"] == [node("edge-1", "/k"), node("edge-2", "/k")], stage.output


def test_each_node_is_tested_in_the_cluster_of_its_machine(stage: Stage) -> None:
    """Also where a name is in several clusters, and the kubeconfig of one machine is a template."""
    fleet = {
        "north": {"flexnode_kubeconfig": "/north", "flexnode_config": {"agent": {"nodeName": "edge-1"}}},
        "south": {
            "flexnode_kubeconfig": "/{{ inventory_hostname }}",
            "flexnode_config": {"agent": {"nodeName": "edge-1"}},
        },
        "west": {"flexnode_kubeconfig": ""},
        "east": {},
    }
    stage.answer(flexnode_proof={"nodes": [{"summary": "edge-1  proven"}]})
    stage.play("aks.flexnode.proof", fleet)
    assert asked(stage)["nodes"] == [node("edge-1", "/north"), node("edge-1", "/south")], stage.output
    assert stage.output.count("edge-1  proven") == 1
    assert "A proof needs flexnode_kubeconfig" in stage.output
    assert stage.status != 0, "two machines were not tested"


def test_after_a_join_the_machine_ids_are_known(stage: Stage) -> None:
    joined = {
        name: done("joined", node={**READY, "name": f"edge-{name}"}, machine={"machine_id": name * 32})
        for name in ("a", "b")
    }
    stage.answer_by_host("flexnode_reconcile", **joined)
    stage.answer(flexnode_proof={"nodes": []})
    fleet = stage.machines("a", "b", flexnode_kubeconfig="/k")
    stage.play("aks.flexnode.bootstrap", fleet, "-e", "flexnode_proof=true")
    assert stage.status == 0, stage.output
    assert asked(stage)["nodes"] == [
        node("edge-a", "/k", "a" * 32),
        node("edge-b", "/k", "b" * 32),
    ]


def test_names_that_are_given_are_left_to_the_module(stage: Stage) -> None:
    stage.play("aks.flexnode.proof", {"a": {}}, flexnode_kubeconfig="/k", flexnode_proof_nodes="a, other")
    given = asked(stage)
    assert (given["names"], given["nodes"]) == ("a, other", [node("a", "/k")])


def test_a_variable_of_the_play_is_seen(stage: Stage) -> None:
    play = stage.directory / "own.yml"
    role = {"role": "aks.flexnode.proof"}
    of_play = {"hosts": "all", "gather_facts": False, "vars": {"flexnode_kubeconfig": "/play"}}
    play.write_text(yaml.safe_dump([{**of_play, "roles": [role]}]))
    stage.play(str(play), {"a": {"flexnode_kubeconfig": "/a"}, "b": {}})
    assert asked(stage)["nodes"] == [node("a", "/play"), node("b", "/play")], stage.output
