# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What machines of FlexNodes pools get, and what is wrong with their pools."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import PoolUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.documents import handovers
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    machine_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.pools import (
    FRESH_SECONDS,
    HostState,
    Place,
    announced,
    by_place,
    defaults,
    is_current,
    is_fresh,
    options_of,
    pool_findings,
    require_documents,
    require_pools,
    wanted,
)
from tests.unit.controller.fake_azure import CLUSTER

TOKEN = "abcdef.0123456789abcdef"
DATA: dict[str, Any] = {
    "document": {
        "azure": {"bootstrapToken": {"token": TOKEN}, "targetAgentPoolName": "edge"},
        "kubernetes": {"version": "1.36.2"},
        "node": {"maxPods": 75, "labels": {"pool": "edge"}, "taints": []},
    },
    "obtained": 1000,
}
ANSWER: dict[str, Any] = {
    "name": "edge-1",
    "action": "unchanged",
    "etag": "e1",
    "version": "1.36.2",
    "max_pods": 75,
    "labels": {"site": "azure"},
    "taints": [],
}
POOL: dict[str, Any] = {
    "name": "edge",
    "id": f"{CLUSTER}/agentPools/edge",
    "readable": True,
    "type": "FlexNodes",
    "version": "1.36.2",
    "current_version": "",
    "provisioning_state": "Succeeded",
}
INFO: dict[str, Any] = {"pools": [POOL], "cluster": {"kubernetes_version": "1.36.4", "document": {}}}
PLACE = Place(CLUSTER, "edge")


def a_machine(name: str = "edge-1", **variables: Any) -> Machine:
    source = {"flexnode_config_source": "machines", "flexnode_cluster_id": CLUSTER, "flexnode_pool": "edge"}
    return machine_of(name, {**source, **variables}, lambda _path: {})


def test_a_host_of_a_pool() -> None:
    found = a_machine("Edge-1", flexnode_machines_api_version="2026-08-02-preview")
    assert (found.node, found.pool) == ("edge-1", "edge")
    assert found.document["agent"] == {"nodeName": "edge-1"}
    assert found.document["azure"] == {
        "targetAgentPoolName": "edge",
        "machines": {"apiVersion": "2026-08-02-preview"},
    }


def test_one_place_per_pool_and_version_of_the_api() -> None:
    machines = [a_machine("a"), a_machine("b"), a_machine("c", flexnode_pool="other")]
    machines.append(a_machine("d", flexnode_machines_api_version="2026-08-02-preview"))
    places = by_place(machines)
    assert [len(group) for group in places.values()] == [2, 1, 1]
    assert len({place.key for place in places}) == 3


def test_explicit_settings_are_asked_for() -> None:
    config = {
        "node": {"labels": {"site": "lab"}, "taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}
    }
    assert wanted(a_machine(flexnode_config=config)) == {
        "name": "edge-1",
        "labels": {"site": "lab"},
        "taints": ["a=b:NoSchedule"],
    }
    assert wanted(a_machine()) == {"name": "edge-1"}
    assert defaults(DATA["document"]) == {
        "version": "1.36.2",
        "max_pods": 75,
        "labels": {"pool": "edge"},
        "taints": [],
    }


@pytest.mark.parametrize(
    ("age", "fresh"), [(0, True), (FRESH_SECONDS - 1, True), (FRESH_SECONDS, False), (-5, False)]
)
def test_bootstrap_data_is_taken_anew_after_45_minutes(age: int, *, fresh: bool) -> None:
    assert is_fresh(DATA, 1000 + age) is fresh
    assert not is_fresh(None, 1000)
    assert not is_fresh({"document": {}, "obtained": 1000}, 1000)


@pytest.mark.parametrize(
    ("state", "answer", "current"),
    [
        (HostState(joined=True, version="e1"), ANSWER, True),
        (HostState(joined=True, version="e0"), ANSWER, False),  # changed in Azure meanwhile
        (HostState(joined=True, version="e1"), {**ANSWER, "action": "updated"}, False),
        (HostState(joined=False, version="e1"), ANSWER, False),  # its certificate is lost
        (HostState(joined=True), {**ANSWER, "etag": ""}, False),
    ],
)
def test_who_has_applied_the_goal(state: HostState, answer: dict[str, Any], *, current: bool) -> None:
    assert is_current(answer, state) is current


def test_the_goal_of_the_machine_is_laid_over_everything() -> None:
    config = {
        "node": {"labels": {"mine": "too"}, "kubelet": {"verbosity": 3}},
        "network": {"podCIDR": "10.9.0.0/16"},
    }
    facts = {"azure": {"targetCluster": {"location": "westeurope"}}, "network": {"podCIDR": "10.1.0.0/16"}}
    options = options_of(a_machine(flexnode_config=config), ANSWER, HostState(), DATA, facts)
    document = options["document"]["config"]
    assert (options["source"], options["document"]["configVersion"]) == ("inline", "e1")
    assert document["node"]["labels"] == {"site": "azure"}, "the machine wins"
    assert document["node"]["kubelet"] == {"verbosity": 3}
    assert document["network"] == {"podCIDR": "10.9.0.0/16"}, "explicit settings go first"
    assert document["azure"]["targetCluster"] == {"location": "westeurope"}
    assert document["azure"]["bootstrapToken"] == {"token": TOKEN}


def test_a_machine_can_get_a_new_token_but_not_over_one_of_the_inventory() -> None:
    one = a_machine(flexnode_machines_api_version="2026-08-02-preview")
    options = options_of(one, ANSWER, HostState(), DATA, {})
    found = handovers([one], documents={}, pools={one.host: options})[one.host]
    assert found["pool_data"] == {
        "cluster_id": CLUSTER,
        "pool": "edge",
        "api_version": "2026-08-02-preview",
        "obtained": 1000,
        "fresh_seconds": 2700,
    }
    own = a_machine(flexnode_config={"azure": {"bootstrapToken": {"token": "fedcba.0123456789abcdef"}}})
    assert "pool_data" not in options_of(own, ANSWER, HostState(), DATA, {})


def test_what_needs_no_bootstrap_data() -> None:
    settled = options_of(a_machine(), ANSWER, HostState(joined=True, version="e1"), None, {})
    assert settled["source"] == "stored"
    # In check mode there is none.
    assert options_of(a_machine(), ANSWER, HostState(), {"document": {}}, {})["source"] == "pending"
    known = options_of(a_machine(), ANSWER, HostState(joined=True, version="e0"), {"document": {}}, {})
    assert (known["source"], known["document"]["node"]["labels"]) == ("stored", {"site": "azure"})


@pytest.mark.parametrize("version", ["e1", "e0"], ids=["applied", "a new goal"])
def test_azure_arc_knows_the_location_of_a_machine_that_has_joined(version: str) -> None:
    """A machine is registered again where that is needed, also by a run that changes nothing else."""
    config = {"azure": {"arc": {"enabled": True}}}
    facts = {"azure": {"targetCluster": {"location": "westeurope"}}}
    one = a_machine(flexnode_config=config)
    options = options_of(one, ANSWER, HostState(joined=True, version=version), None, facts)
    found = handovers([one], documents={}, pools={one.host: options})[one.host]
    assert (found["source"], found["arc"]["enabled"], found["arc"]["location"]) == (
        "stored",
        True,
        "westeurope",
    )


def test_what_is_known_before_anything_was_created() -> None:
    bare = announced(a_machine(), INFO, None)
    assert (bare["stage"], bare["purpose"], bare["document"]["kubernetes"]["version"]) == (
        "host",
        "prepare",
        "1.36.2",
    )
    whole = announced(a_machine(), INFO, {"node": {"kubelet": {"serverURL": "https://api"}}})
    assert whole["announced"] is True
    assert whole["document"]["azure"]["bootstrapToken"]["token"] == "<minted at apply>"
    assert "stage" not in whole


def test_documents_of_pools_are_checked_whole_and_together() -> None:
    """YAML types that a user did not mean, and whatever else the machines would refuse after the write."""
    typed = {"kubernetes": {"version": 1.30}, "node": {"labels": {"gpu": True, "rev": 1.10}}}
    wrong = [
        a_machine("a", flexnode_config=typed),
        a_machine("b", flexnode_config=typed),
        a_machine("c", flexnode_config={"nodes": {}, "runc": {"version": "1.9.9"}}),
    ]
    others = [Machine("other", "rp", document={"nodes": {}})]  # checked by the module that writes it
    with pytest.raises(InventoryInvalid) as caught:
        require_documents([*wrong, a_machine("d"), *others], [])
    text = str(caught.value)
    assert text.startswith("FLEX-1106: the configuration of 3 machines is not valid: 5 errors:\n"), text
    for line in (
        'a, b: node.labels["gpu"] is true, but it must be in quotes',
        'a, b: node.labels["rev"] is 1.1, but it must be in quotes',
        "a, b: kubernetes.version is 1.3, but it must be in quotes",
        "c: runc 1.9.9 for amd64 is not in",
        "c: nodes: unknown key, did you mean node?",
    ):
        assert f"\n  {line}" in text, text
    assert "\nThis run changed nothing.\n" in text


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"azure": {"arc": {"enabled": True}}},  # its place is the cluster's
        {"azure": {"vpn": {"enabled": True, "autoProvision": True}}},  # its profile does not exist yet
        {"continuousMonitoring": True, "azure": {"managedIdentity": {}}},
        {"mirror": {"catalogue": {"containerd": {"2.0.99": {"amd64": "a" * 64}}}}},
    ],
    ids=str,
)
def test_what_only_azure_knows_is_not_missing(document: dict[str, Any]) -> None:
    require_documents([a_machine(flexnode_config=document)], [])


def findings(info: dict[str, Any], *machines: Machine) -> list[tuple[str, str]]:
    return [(found.severity, found.what) for found in pool_findings(PLACE, info, machines or [a_machine()])]


@pytest.mark.parametrize(
    ("change", "severity", "what"),
    [
        ({"type": "VirtualMachineScaleSets"}, "error", "of type VirtualMachineScaleSets, not FlexNodes"),
        ({"provisioning_state": "Deleting"}, "error", "being deleted"),
        ({"readable": False}, "warning", "may not read pool edge"),
        (
            {"missing_actions": ["X/agentPools/machines/write"]},
            "error",
            "may not machines/write at pool edge",
        ),
        ({"version": "1.37.0"}, "error", "1.37.0 is newer than the control plane, which has 1.36.4"),
    ],
)
def test_what_is_wrong_with_a_pool(change: dict[str, Any], severity: str, what: str) -> None:
    ((found, text),) = findings({**INFO, "pools": [{**POOL, **change}]})
    assert (found, what in text) == (severity, True), text


def test_a_pool_that_is_right() -> None:
    assert findings(INFO) == []
    require_pools([])


def test_a_pool_that_is_not_there() -> None:
    (found,) = pool_findings(PLACE, {**INFO, "pools": []}, [a_machine()])
    assert "az aks nodepool add" in found.fix
    assert "--name edge --vm-set-type FlexNodes" in found.fix


def test_feature_flags_that_are_not_registered() -> None:
    states = {"AKSFlexNodePreview": "NotRegistered", "PutMachinePreview": "Pending"}
    assert [severity for severity, _what in findings({**INFO, "features": states})] == ["error", "warning"]
    assert findings({**INFO, "features": dict.fromkeys(states, "Registered")}) == []


def test_a_version_of_the_inventory_above_the_control_plane() -> None:
    machines = [a_machine("a"), a_machine("b", flexnode_config={"kubernetes": {"version": "1.36.9"}})]
    (found,) = pool_findings(PLACE, INFO, machines)
    assert (found.hosts, "1.36.9" in found.what) == (("b",), True)


def test_everything_is_told_at_once() -> None:
    info = {
        **INFO,
        "pools": [{**POOL, "version": "1.37.0", "missing_actions": ["X/agentPools/machines/read"]}],
    }
    with pytest.raises(PoolUnusable) as caught:
        require_pools(list(pool_findings(PLACE, info, [a_machine()])))
    assert "machines/read" in str(caught.value)
    assert "newer than the control plane" in str(caught.value)
    assert str(caught.value).endswith("\nThis run changed nothing.\nfix: correct this, then run this again")
