# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks for machines of FlexNodes pools, with modules that only write down what they are asked for."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest

from tests.unit.playbooks.stage import CLUSTER as BARE
from tests.unit.playbooks.stage import NAMED, Stage

CLUSTER = BARE.replace("/subscriptions/s/", "/subscriptions/12345678-1234-1234-1234-123456789abc/")
TOKEN = "abcdef.0123456789abcdef"
DOCUMENT = {
    "azure": {
        "targetCluster": {"resourceId": CLUSTER},
        "targetAgentPoolName": "edge",
        "bootstrapToken": {"token": TOKEN},
    },
    "kubernetes": {"version": "1.34.4"},
    "node": {"maxPods": 75, "labels": {"pool": "edge"}, "taints": [], "kubelet": {"caCertData": "Q0E="}},
}
POOL = {
    "name": "edge",
    "id": f"{CLUSTER}/agentPools/edge",
    "readable": True,
    "type": "FlexNodes",
    "version": "1.34.4",
    "current_version": "1.34.4",
    "provisioning_state": "Succeeded",
    "missing_actions": [],
}
FACTS = {
    "id": CLUSTER,
    "kubernetes_version": "1.34.6",
    "document": {
        "azure": {"targetCluster": {"location": "westeurope"}},
        "network": {"podCIDR": "10.1.0.0/16"},
    },
}
INFO = {"pools": [POOL], "missing": [], "cluster": FACTS, "features": {}, "identity": "oid"}
NODE = {"kubeletVersion": "1.34.4", "containerRuntime": "containerd 2.2.9"}
JOINED = {"changed": True, "node": NODE, "summary": "joined", "timings": {}, "drains": False, "actions": []}


def hosts(*names: str, **variables: Any) -> dict[str, dict[str, Any]]:
    source = {"flexnode_config_source": "machines", "flexnode_cluster_id": CLUSTER, "flexnode_pool": "edge"}
    return {name: {**source, **variables} for name in names}


def machine(name: str, action: str = "created", etag: str = "e1") -> dict[str, Any]:
    goal = {"version": "1.34.4", "max_pods": 75, "labels": {"pool": "edge"}, "taints": []}
    return {"name": name, "action": action, "etag": etag, **goal}


@pytest.fixture
def pools(stage: Stage) -> Stage:
    stage.answer(
        flexnode_pool_info=INFO,
        flexnode_bootstrap_data={
            "changed": True,
            "document": DOCUMENT,
            "notes": [],
            "obtained": int(time.time()),
        },
        flexnode_reconcile=JOINED,
        flexnode_preflight_info={"ok": True, "joined": False, "config_version": "", "table": []},
    )
    return stage


def asked(stage: Stage, module: str) -> list[dict[str, Any]]:
    return [given for name, given in stage.calls if name == module]


def test_ten_hosts_are_one_call_each_and_all_are_checked_first(pools: Stage) -> None:
    names = [f"edge-{number}" for number in range(10)]
    pools.answer(flexnode_machine={"changed": True, "machines": [machine(name) for name in names]})
    pools.play("aks.flexnode.bootstrap", hosts(*names))
    assert pools.status == 0, pools.output
    order = [name for name, _given in pools.calls]
    for once in ("flexnode_bootstrap_data", "flexnode_machine"):
        assert order.count(once) == 1
    assert [one["name"] for one in asked(pools, "flexnode_machine")[0]["machines"]] == names
    checks = [number for number, name in enumerate(order) if name == "flexnode_preflight_info"]
    assert len(checks) == 10
    assert max(checks) < order.index("flexnode_bootstrap_data") < order.index("flexnode_machine")
    assert order.index("flexnode_machine") < order.index("flexnode_reconcile")
    assert TOKEN not in pools.output
    for given in asked(pools, "flexnode_reconcile"):
        bundle = json.loads(given["document"])
        assert bundle["configVersion"] == "e1"
        config = bundle["config"]
        assert config["azure"]["bootstrapToken"]["token"] == TOKEN
        assert config["azure"]["targetCluster"]["location"] == "westeurope"
        assert config["network"] == {"podCIDR": "10.1.0.0/16"}
        assert config["agent"]["nodeName"] in names


# Each call has a token of its own, and is as old as the list says.
DATA_BY_CALL = """
import time
with open(os.environ["CALLS"]) as file:
    call = file.read().count('"flexnode_bootstrap_data"')
answer["document"]["azure"]["bootstrapToken"]["token"] = "abcde%d.0123456789abcdef" % call
answer["obtained"] = int(time.time()) - AGES[min(call, len(AGES)) - 1]
"""


def data_by_call(stage: Stage, *ages: int) -> None:
    """The first is asked for twice: before machines are written and, as it is old, after that."""
    ages = (ages[0], *ages)
    answer = {"changed": True, "document": DOCUMENT, "notes": []}
    stage.answer_by_code("flexnode_bootstrap_data", DATA_BY_CALL.replace("AGES", repr(ages)), answer)


def tokens(stage: Stage) -> list[str]:
    """The tokens that machines got, in order."""
    given = (json.loads(one["document"]) for one in asked(stage, "flexnode_reconcile"))
    return [one["config"]["azure"]["bootstrapToken"]["token"].partition(".")[0] for one in given]


def test_a_machine_whose_turn_comes_late_gets_a_new_token(pools: Stage) -> None:
    """Azure's tokens are valid for an hour, and a fleet may take longer. What else it gets is the same."""
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a"), machine("b")]})
    data_by_call(pools, 3000, 0)
    api = "2026-08-02-preview"
    pools.play("aks.flexnode.bootstrap", hosts("a", "b", flexnode_machines_api_version=api))
    assert pools.status == 0, pools.output
    assert sorted(tokens(pools)) == ["abcde3", "abcde4"]
    for given in asked(pools, "flexnode_bootstrap_data"):
        assert (given["cluster_id"], given["pool"], given["api_version"]) == (CLUSTER, "edge", api)
    for given in asked(pools, "flexnode_reconcile"):
        bundle = json.loads(given["document"])
        assert bundle["configVersion"] == "e1"
        assert bundle["config"]["azure"]["targetCluster"]["location"] == "westeurope"
    assert "0123456789abcdef" not in pools.output


def test_a_later_play_of_the_same_run_does_not_use_the_token_of_an_earlier_one(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a")]})
    data_by_call(pools, 3000, 100, 0)
    twice = pools.directory / "twice.yml"
    both = [{"name": "Join", "ansible.builtin.import_playbook": "aks.flexnode.bootstrap"}] * 2
    twice.write_text(json.dumps(both))
    pools.play(str(twice), hosts("a"))
    assert pools.status == 0, pools.output
    assert tokens(pools) == ["abcde3", "abcde4"]


def test_a_token_that_can_not_be_renewed_fails_that_machine_alone(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a"), machine("b")]})
    data_by_call(pools, 3000, 0)
    module = pools.collection / "plugins/modules/flexnode_bootstrap_data.py"
    failing = "\nif call == 3: answer = {'failed': True, 'msg': 'FLEX-1705: busy'}\nprint"
    module.write_text(module.read_text().replace("\nprint", failing))
    pools.play("aks.flexnode.bootstrap", hosts("a", "b"), "-f", "1")
    assert pools.status != 0
    assert "FLEX-1705: busy" in pools.output
    assert tokens(pools) == ["abcde4"]


def test_an_upgrade_that_a_machine_waits_for_is_shown(pools: Stage) -> None:
    tells = 'with open(given["progress_file"], "a") as file:\n    file.write("edge: waiting\\n")'
    pools.answer_by_code("flexnode_machine", tells, {"changed": True, "machines": [machine("a")]})
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status == 0, pools.output
    assert "\nedge: waiting\n" in pools.output


def test_what_azure_did_not_take_is_a_warning(pools: Stage) -> None:
    note = "Azure did not take this for machine a: remove taint a:NoSchedule"
    pools.answer(flexnode_machine={"changed": False, "notes": [note], "machines": [machine("a")]})
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status == 0, pools.output
    assert f"[WARNING]: {note}" in " ".join(pools.output.split())


def named(**sections: dict[str, str]) -> dict[str, Any]:
    """Bootstrap data with versions that the pool names."""
    document = {**DOCUMENT, **sections}
    return {"changed": True, "document": document, "notes": [], "obtained": int(time.time())}


OWN_BUILD = {"mirror": {"catalogue": {"containerd": {"2.0.99": {"amd64": "a" * 64}}}}}


def test_each_machine_gets_the_versions_of_the_pool_that_it_can_verify(pools: Stage) -> None:
    """One knows the pool's containerd from its own mirror, which lacks the default; two others do not."""
    pools.answer(
        flexnode_bootstrap_data=named(containerd={"version": "2.0.99"}),
        flexnode_machine={"changed": True, "machines": [machine(name) for name in ("a", "b", "c")]},
    )
    pools.play("aks.flexnode.bootstrap", {**hosts("a", flexnode_config=OWN_BUILD), **hosts("b", "c")})
    assert pools.status == 0, pools.output
    given = [json.loads(one["document"])["config"] for one in asked(pools, "flexnode_reconcile")]
    found = {one["agent"]["nodeName"]: one.get("containerd") for one in given}
    assert found == {"a": {"version": "2.0.99"}, "b": None, "c": None}
    assert " ".join(pools.output.split()).count("b, c: the pool names containerd 2.0.99") == 1, pools.output


def test_neither_the_pools_version_nor_the_default_can_be_verified(pools: Stage) -> None:
    """Known as soon as the pool has said its version: nothing was written to Azure."""
    pools.answer(flexnode_bootstrap_data=named(containerd={"version": "2.2.7"}))
    pools.play("aks.flexnode.bootstrap", hosts("a", flexnode_config=OWN_BUILD))
    assert pools.status != 0
    assert "FLEX-1204" in pools.output
    assert "This run changed no machine" in pools.output
    assert not asked(pools, "flexnode_machine") + asked(pools, "flexnode_reconcile")


@pytest.mark.parametrize("playbook", ["bootstrap", "config_put", "update"])
def test_documents_with_wrong_types_are_never_written(pools: Stage, playbook: str) -> None:
    """All of them are told, also without preflight: Azure would store `True` and `1.3`."""
    labelled = hosts("a", "b", flexnode_config={"node": {"labels": {"gpu": True}}})
    versioned = hosts("c", flexnode_config={"kubernetes": {"version": 1.30}})
    pools.play(f"aks.flexnode.{playbook}", {**labelled, **versioned}, "-e", "flexnode_preflight=false")
    assert pools.status != 0
    assert "FLEX-1106: the configuration of 3 machines is not valid: 2 errors" in pools.output, pools.output
    assert "must be in quotes" in pools.output
    assert not asked(pools, "flexnode_machine") + asked(pools, "flexnode_bootstrap_data")


def test_a_machine_that_fails_preflight_costs_nothing_in_azure(pools: Stage) -> None:
    wrong = {"ok": False, "table": ["error  swap  swap is on"], "joined": False, "config_version": ""}
    pools.answer(flexnode_preflight_info=wrong)
    pools.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert pools.status != 0
    assert "swap is on" in pools.output
    assert not asked(pools, "flexnode_machine") + asked(pools, "flexnode_bootstrap_data")


def test_joined_machines_without_a_difference_need_no_bootstrap_data(pools: Stage) -> None:
    pools.answer(
        flexnode_preflight_info={"ok": True, "joined": True, "config_version": "e1", "table": []},
        flexnode_machine={"changed": False, "machines": [machine("a", "unchanged")]},
        flexnode_reconcile={**JOINED, "changed": False},
    )
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status == 0, pools.output
    assert "changed=0" in pools.output
    assert asked(pools, "flexnode_bootstrap_data") == []
    (given,) = asked(pools, "flexnode_reconcile")
    assert given["source"] == "stored"


def test_labels_are_set_over_those_of_a_pool_that_the_login_may_not_read(pools: Stage) -> None:
    """Bootstrap data names the labels of the pool; without explicit labels it is not needed."""
    pools.answer(
        flexnode_pool_info={**INFO, "pools": [{**POOL, "readable": False, "type": ""}]},
        flexnode_preflight_info={"ok": True, "joined": True, "config_version": "e1", "table": []},
        flexnode_machine={"changed": False, "machines": [machine("a", "unchanged")]},
    )
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert asked(pools, "flexnode_bootstrap_data") == []
    pools.play("aks.flexnode.bootstrap", hosts("a", flexnode_config={"node": {"labels": {"site": "lab"}}}))
    assert len(asked(pools, "flexnode_bootstrap_data")) == 1
    assert asked(pools, "flexnode_machine")[-1]["defaults"]["labels"] == {"pool": "edge"}


def test_a_goal_that_was_changed_in_azure_is_applied(pools: Stage) -> None:
    pools.answer(
        flexnode_preflight_info={"ok": True, "joined": True, "config_version": "e1", "table": []},
        flexnode_machine={
            "changed": False,
            "machines": [{**machine("a", "unchanged", "e2"), "labels": {"site": "azure"}}],
        },
    )
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status == 0, pools.output
    bundle = json.loads(asked(pools, "flexnode_reconcile")[0]["document"])
    assert (bundle["configVersion"], bundle["config"]["node"]["labels"]) == ("e2", {"site": "azure"})


def test_explicit_settings_reach_the_machine(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a")]})
    mine = {
        "kubernetes": {"version": "1.34.3"},
        "node": {"labels": {"site": "lab"}, "taints": ["a=b:NoSchedule"]},
    }
    pools.play(
        "aks.flexnode.bootstrap",
        hosts("A", flexnode_config=mine, flexnode_host_config={"node": {"maxPods": 50}}),
    )
    (given,) = asked(pools, "flexnode_machine")
    assert given["machines"] == [
        {
            "name": "a",
            "version": "1.34.3",
            "max_pods": 50,
            "labels": {"site": "lab"},
            "taints": ["a=b:NoSchedule"],
        }
    ], pools.output


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"flexnode_pool": ""}, "source machines needs flexnode_pool"),
        ({"flexnode_pool": "Edge-1"}, "is not the name of a pool"),
        ({"flexnode_cluster_id": ""}, "source machines needs flexnode_cluster_id"),
        ({"flexnode_config": {"agent": {"nodeName": "a.lab"}}}, "can't be the name of a machine in Azure"),
        ({"flexnode_config_source": "cluster"}, "flexnode_pool has no effect with source cluster"),
    ],
)
def test_what_the_inventory_lacks_is_told_before_any_call(
    pools: Stage, variables: dict[str, Any], found: str
) -> None:
    pools.play("aks.flexnode.bootstrap", hosts("a", **variables))
    assert pools.status != 0
    assert found in pools.output
    assert pools.calls == []


def test_a_pool_that_can_not_be_used_stops_the_run(pools: Stage) -> None:
    pools.answer(flexnode_pool_info={**INFO, "pools": [{**POOL, "type": "VirtualMachineScaleSets"}]})
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status != 0
    assert "FLEX-1711" in pools.output
    assert "not FlexNodes" in pools.output
    assert not asked(pools, "flexnode_preflight_info") + asked(pools, "flexnode_machine")


def test_check_mode_gets_no_token(pools: Stage) -> None:
    pools.answer(
        flexnode_machine={"changed": True, "machines": [machine("a", etag="")]},
        flexnode_bootstrap_data={"changed": True, "document": {}, "notes": [], "obtained": 1},
    )
    pools.play("aks.flexnode.bootstrap", hosts("a"), "--check")
    assert pools.status == 0, pools.output
    assert asked(pools, "flexnode_reconcile") == []
    assert "would create the configuration of this machine in Azure" in pools.output


# -- update -------------------------------------------------------------------------------------------------


def test_batches_of_an_update_share_the_bootstrap_data(pools: Stage) -> None:
    names = ["a", "b", "c"]
    seen = {"name": "a", "status": "Ready", "joined": True, "certificate": {}, "kubeletVersion": "1.34.3"}
    status = {"phase": "NodeJoined", "node": seen, "config": {"version": "e1"}}
    pools.answer(
        flexnode_status_info={"status": status, "words": {}},
        flexnode_machine={"changed": True, "machines": [machine(name, "updated", "e2") for name in names]},
    )
    pools.play(
        "aks.flexnode.update", hosts(*names), "-e", "flexnode_serial=1", "-e", "flexnode_preflight=false"
    )
    assert pools.status == 0, pools.output
    assert len(asked(pools, "flexnode_machine")) == 3
    assert len(asked(pools, "flexnode_bootstrap_data")) == 1
    versions = {
        json.loads(given["document"])["configVersion"] for given in asked(pools, "flexnode_reconcile")
    }
    assert versions == {"e2"}


def test_a_node_that_waits_long_in_its_batch_gets_a_new_token(pools: Stage) -> None:
    """Its certificate may have expired; then it joins again, with the token."""
    seen = {"name": "a", "status": "Ready", "joined": True, "kubeletVersion": "1.34.3"}
    status = {"phase": "NodeJoined", "node": seen, "config": {"version": "e1"}}
    pools.answer(
        flexnode_status_info={"status": status, "words": {}},
        flexnode_machine={"changed": True, "machines": [machine("a", "updated", "e2")]},
    )
    data_by_call(pools, 3000, 0)
    pools.play("aks.flexnode.update", hosts("a"), "-e", "flexnode_preflight=false")
    assert pools.status == 0, pools.output
    assert tokens(pools) == ["abcde3"]


# -- unbootstrap, config_delete, config_list, preflight ------------------------------------------------------


def test_leaving_deletes_the_node_and_then_the_machine(pools: Stage) -> None:
    pools.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": "refused"},
        flexnode_machine={"changed": True, "machines": [machine("a", "deleted", "")]},
        flexnode_node={"changed": True},
    )
    pools.play("aks.flexnode.unbootstrap", hosts("a"), *NAMED)
    assert pools.status == 0, pools.output
    order = [name for name, _given in pools.calls]
    assert order.index("flexnode_reconcile") < order.index("flexnode_node") < order.index("flexnode_machine")
    (node,), (deleted,) = asked(pools, "flexnode_node"), asked(pools, "flexnode_machine")
    assert (node["cluster_id"], node["state"]) == (CLUSTER, "absent")
    assert (deleted["state"], deleted["pool"], deleted["machines"]) == ("absent", "edge", [{"name": "a"}])


def test_without_rights_in_the_cluster_aks_deletes_the_node(pools: Stage) -> None:
    pools.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": "refused"},
        flexnode_machine={"changed": True, "machines": [machine("a", "deleted", "")]},
        flexnode_node={"failed": True, "msg": "FLEX-1702: no"},
    )
    pools.play("aks.flexnode.unbootstrap", hosts("a"), *NAMED)
    assert pools.status == 0, pools.output
    assert "AKS deletes its Node" in pools.output


def test_a_machine_that_was_deleted_in_another_cluster_deletes_no_node_here(pools: Stage) -> None:
    """Two machines have the same name, each in its own cluster. AKS deletes the Node of one of them only."""
    there = CLUSTER.replace("/plant", "/depot")
    gone = {"changed": True, "machines": [machine("x", "deleted", "")]}
    absent = {"changed": False, "machines": [machine("x", "absent", "")]}
    pools.answer_by_code(
        "flexnode_machine", f"answer = {gone!r} if given['cluster_id'] == {CLUSTER!r} else {absent!r}"
    )
    pools.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "x", "node_remains": "refused"},
        flexnode_node={"failed": True, "msg": "FLEX-1702: no"},
    )
    named = {"flexnode_config": {"agent": {"nodeName": "x"}}}
    fleet = {**hosts("a", **named), **hosts("b", **{**named, "flexnode_cluster_id": there})}
    pools.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert sorted(given["cluster_id"] for given in asked(pools, "flexnode_node")) == [there, CLUSTER]
    assert "fatal: [a]" not in pools.output, pools.output
    assert re.search(r"fatal: \[b\].*Node x: FLEX-1702", pools.output), pools.output


def test_a_machine_that_was_not_ours_stays_in_azure_and_is_named(pools: Stage) -> None:
    pools.answer(
        flexnode_reconcile={"changed": False, "remains": [], "node_name": "", "node_remains": ""},
        flexnode_pool_info={**INFO, "pools": [{**POOL, "machines": [{"name": "a"}, {"name": "x"}]}]},
    )
    pools.play("aks.flexnode.unbootstrap", hosts("a", "b"), *NAMED)
    assert pools.status == 0, pools.output
    assert asked(pools, "flexnode_machine") == []
    said = " ".join(pools.output.split())
    assert "machine a of pool edge stays in Azure" in said
    assert "config_delete -l a" in said
    assert "machine b of pool" not in said


def test_a_machine_of_a_pool_that_is_not_its_source_any_more_is_named(pools: Stage) -> None:
    left = {"changed": True, "remains": [], "node_name": "a", "node_remains": "", "pool": "edge"}
    pools.answer(flexnode_reconcile=left)
    pools.play("aks.flexnode.unbootstrap", {"a": {}}, *NAMED)
    assert pools.status != 0
    said = " ".join(pools.output.split())
    assert "this remains:" in said
    assert "machine a of pool edge in Azure: set flexnode_config_source: machines" in said
    assert "aks.flexnode.config_delete --limit a" in said


def test_a_machine_that_can_not_be_deleted_in_azure_is_named(pools: Stage) -> None:
    pools.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": ""},
        flexnode_machine={"failed": True, "msg": "FLEX-1702: the identity may not deleteMachines"},
    )
    pools.play("aks.flexnode.unbootstrap", hosts("a"), *NAMED)
    assert pools.status != 0
    assert "in Azure: FLEX-1702: the identity may not deleteMachines" in pools.output


def test_the_configuration_of_named_machines_is_deleted(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a", "deleted", "")]})
    pools.play("aks.flexnode.config_delete", hosts("a", "b"), "--limit", "a")
    assert pools.status == 0, pools.output
    assert [given["machines"] for given in asked(pools, "flexnode_machine")] == [[{"name": "a"}]]


def test_machines_are_created_without_touching_the_hosts(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a")]})
    pools.play("aks.flexnode.config_put", hosts("a"))
    assert pools.status == 0, pools.output
    assert {name for name, _given in pools.calls} == {"flexnode_pool_info", "flexnode_machine"}


def test_the_machines_of_a_pool_are_listed_with_their_nodes(pools: Stage) -> None:
    one = {"name": "a", "version": "1.34.4", "node_state": "Ready", "kubelet_version": "1.34.3"}
    pools.answer(flexnode_pool_info={**INFO, "pools": [{**POOL, "machines": [one]}]})
    extra = ("-e", f"flexnode_cluster_id={CLUSTER}", "-e", "flexnode_pool=edge")
    pools.play("aks.flexnode.config_list", {}, *extra)
    assert pools.status == 0, pools.output
    assert "Ready" in pools.output
    assert "1.34.3" in pools.output
    assert asked(pools, "flexnode_config_info") == []


def test_preflight_tells_all_of_a_pool_and_of_the_machines(pools: Stage) -> None:
    lacking = ["Microsoft.ContainerService/managedClusters/agentPools/listBootstrapData/action"]
    pools.answer(
        flexnode_pool_info={
            **INFO,
            "pools": [{**POOL, "missing_actions": lacking}],
            "features": {"AKSFlexNodePreview": "NotRegistered"},
        },
        flexnode_cluster_info={"failed": True, "msg": "FLEX-1702: no"},
        flexnode_preflight_info={
            "ok": True,
            "name": "a",
            "node_name": "a",
            "cluster_id": CLUSTER.lower(),
            "summary": "ready",
            "table": ["a  fine"],
            "joined": False,
            "config_version": "",
        },
    )
    pools.play("aks.flexnode.preflight", hosts("a"))
    assert pools.status != 0
    for text in (
        "az feature register --namespace Microsoft.ContainerService --name AKSFlexNodePreview",
        f"--role 8f139b0f-7eaf-460b-a9da-5b1246d9ed0d --scope {CLUSTER}/agentPools/edge",
        "a  fine",
    ):
        assert text in pools.output
    (given,) = asked(pools, "flexnode_preflight_info")
    assert (given["stage"], given["purpose"]) == ("host", "prepare"), "the API server is not known"
    assert not asked(pools, "flexnode_machine") + asked(pools, "flexnode_bootstrap_data")


def test_taints_without_rights_in_the_cluster_are_left_to_aks(pools: Stage) -> None:
    taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
    pools.answer(
        flexnode_machine={"changed": True, "machines": [{**machine("a"), "taints": ["a=b:NoSchedule"]}]},
        flexnode_reconcile={
            **JOINED,
            "node": {**NODE, "name": "a"},
            "taints": {"set": [taint], "remove": []},
        },
        flexnode_node={"failed": True, "msg": "FLEX-1702: no"},
    )
    pools.play("aks.flexnode.bootstrap", hosts("a"))
    assert pools.status == 0, pools.output
    assert "AKS changes them by the goal of the machine in its pool" in pools.output
    assert "kubectl taint nodes a a=b:NoSchedule" in pools.output


def test_other_sources_of_the_same_run_are_not_checked_twice(pools: Stage) -> None:
    pools.answer(flexnode_machine={"changed": True, "machines": [machine("a")]})
    other = {"b": {"flexnode_config_source": "inline"}}
    pools.play("aks.flexnode.bootstrap", {**hosts("a"), **other})
    assert pools.status == 0, pools.output
    assert len(asked(pools, "flexnode_preflight_info")) == 1
    assert len(asked(pools, "flexnode_reconcile")) == 2
