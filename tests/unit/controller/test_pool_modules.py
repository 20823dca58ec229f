# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The modules of FlexNodes pools as Ansible runs them: each in check mode first, each twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.controller.fake_azure import CLUSTER, FakeAzure
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.controller.fake_pools import TOKEN
from tests.unit.controller.test_modules import run
from tests.unit.node.fake_api import a_node
from tests.unit.node.servers import Pki

PLACE = {"cluster_id": CLUSTER, "pool": "edge"}
QUICK = {**PLACE, "poll_interval": 0}


def test_the_life_of_a_pool_and_its_machines(azure: FakeAzure, tmp_path: Path) -> None:
    azure.cluster = {"properties": {"provisioningState": "Succeeded", "currentKubernetesVersion": "1.34.6"}}

    def module(name: str, *, check: bool = False, **more: Any) -> dict[str, Any]:
        return run(name, tmp_path, azure.environment, check=check, **{**QUICK, **more})

    wanted = {"version": "1.34.4", "max_pods": 75, "labels": {"site": "lab"}, "taints": []}
    planned = module("flexnode_pool", check=True, **wanted)
    assert (planned["changed"], azure.pools.pools) == (True, {})
    created = module("flexnode_pool", **wanted)
    assert created["actions"] == planned["actions"] == ["create pool edge (it does not exist)"]
    assert not module("flexnode_pool", **wanted)["changed"]

    machines = [{"name": "edge-1"}, {"name": "edge-2", "labels": {"site": "two"}}]
    assert module("flexnode_machine", check=True, machines=machines)["changed"]
    assert azure.asked("PUT .*/machines/") == 0
    made = module("flexnode_machine", machines=machines)
    assert [one["action"] for one in made["machines"]] == ["created", "created"]
    assert made["diff"][1]["after"]["labels"] == {"site": "two"}
    again = module("flexnode_machine", machines=machines)
    assert (again["changed"], [one["etag"] for one in again["machines"]]) == (
        False,
        [one["etag"] for one in made["machines"]],
    )
    changed = module("flexnode_machine", machines=[{"name": "edge-1", "version": "1.34.5"}])
    assert changed["actions"] == ["update machine edge-1 (Kubernetes 1.34.4 -> 1.34.5)"]
    fixed = module("flexnode_machine", machines=[{"name": "edge-1", "max_pods": 10}])
    assert fixed["error"]["code"] == "FLEX-1112"
    assert "recreate the machine" in fixed["msg"]

    refused = module("flexnode_pool", state="absent")
    assert refused["error"]["code"] == "FLEX-1711"
    gone = module("flexnode_machine", machines=[{"name": "edge-1"}], state="absent")
    assert [one["action"] for one in gone["machines"]] == ["deleted"]
    assert not module("flexnode_machine", machines=[{"name": "edge-1"}], state="absent")["changed"]
    assert module("flexnode_pool", state="absent", delete_machines=True, check=True)["changed"]
    assert module("flexnode_pool", state="absent", delete_machines=True)["changed"]
    assert (azure.pools.pools, module("flexnode_pool", state="absent")["changed"]) == ({}, False)


def test_bootstrap_data(azure: FakeAzure, tmp_path: Path) -> None:
    azure.pools.add("edge", nodeLabels={"site": "lab"})
    azure.pools.data = {"bootstrap": {"ociImage": "x"}}
    planned = run("flexnode_bootstrap_data", tmp_path, azure.environment, check=True, **QUICK)
    assert (planned["document"], azure.asked("listBootstrapData")) == ({}, 0)
    found = run("flexnode_bootstrap_data", tmp_path, azure.environment, **QUICK)
    document = found["document"]
    assert document["azure"]["bootstrapToken"]["token"] == TOKEN
    assert document["node"]["kubelet"]["serverURL"] == "https://plant.hcp.example:443"
    assert document["node"]["labels"] == {"site": "lab"}
    assert any("bootstrap" in note for note in found["notes"]), "unknown keys are told, not refused"
    azure.pools.data = {"node": {}}
    incomplete = run("flexnode_bootstrap_data", tmp_path, azure.environment, **QUICK)
    assert incomplete["error"]["code"] == "FLEX-1113"


def test_pools_with_the_state_of_their_nodes(azure: FakeAzure, pki: Pki, tmp_path: Path) -> None:
    azure.pools.add("edge")
    azure.pools.add_machine("edge", "edge-1")
    azure.features = {"AKSFlexNodePreview": "Registered"}
    with FakeCluster(nodes={"edge-1": a_node()}).running(pki) as cluster:
        azure.kubeconfigs = {"listClusterAdminCredential": yaml.safe_dump(cluster.kubeconfig(pki))}
        found = run(
            "flexnode_pool_info",
            tmp_path,
            azure.environment,
            cluster_id=CLUSTER,
            checks=True,
            node_states=True,
        )
    assert [one["node_state"] for one in found["pools"][0]["machines"]] == ["Ready"]
    assert (found["features"], found["pools"][0]["missing_actions"]) == (
        {"AKSFlexNodePreview": "Registered"},
        [],
    )
    none = run("flexnode_pool_info", tmp_path, azure.environment, cluster_id=CLUSTER, pools=["other"])
    assert (none["pools"], none["missing"]) == ([], ["other"])


@pytest.mark.parametrize("module", ["flexnode_pool", "flexnode_machine", "flexnode_bootstrap_data"])
@pytest.mark.parametrize(
    "wrong", [{"pool": "Edge-1"}, {"cluster_id": "/subscriptions/x"}], ids=lambda wrong: str(*wrong)
)
def test_wrong_names_are_refused_before_any_call(
    azure: FakeAzure, tmp_path: Path, module: str, wrong: dict[str, str]
) -> None:
    machines = {"machines": [{"name": "edge-1"}]} if module == "flexnode_machine" else {}
    answer = run(module, tmp_path, azure.environment, **{**QUICK, **machines, **wrong})
    assert answer["error"]["code"] == "FLEX-1101"
    assert azure.server.asked == []
