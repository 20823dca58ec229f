# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of a run, as the inventory describes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    machine_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import (
    config_file,
    read_inventory,
)

PLANT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
HOSTVARS: dict[str, dict[str, Any]] = {
    "edge-1": {
        "flexnode_config_source": "rp",
        "flexnode_cluster_id": PLANT,
        "flexnode_config": {"node": {"labels": {"site": "a", "rack": "1"}}},
        "flexnode_host_config": {"node": {"labels": {"site": "b"}}},
    },
    "edge-2": {
        "flexnode_config_source": "cluster",
        "flexnode_config": {
            "agent": {"nodeName": "second"},
            "azure": {"targetCluster": {"resourceId": PLANT}},
        },
    },
    "edge-3": {},
}


def loaded(path: str) -> Any:
    return yaml.safe_load(Path(path).read_text())


def no_file(path: str) -> Mapping[str, Any]:
    raise AssertionError(path)


def test_a_host_has_its_own_settings_over_those_of_its_group() -> None:
    machine = machine_of("edge-1", HOSTVARS["edge-1"], no_file)
    assert machine.request(document=machine.document) == {
        "name": "edge-1",
        "cluster_id": PLANT,
        "document": {
            "node": {"labels": {"site": "b", "rack": "1"}},
            "agent": {"nodeName": "edge-1"},
        },
    }


def test_the_name_and_the_cluster_may_come_from_the_configuration() -> None:
    assert machine_of("edge-2", HOSTVARS["edge-2"], no_file).request() == {
        "name": "second",
        "cluster_id": PLANT,
    }


def test_a_host_without_a_source_is_inline_and_its_machine_names_the_node() -> None:
    assert machine_of("edge-3", {}, no_file) == Machine("edge-3")


@pytest.mark.parametrize("source", ["inline", "rp", "cluster", "blob"])
def test_a_file_lies_below_the_variables_for_every_source(source: str) -> None:
    variables = {
        "flexnode_config_source": source,
        "flexnode_config_file": "node.yml",
        "flexnode_config": {"node": {"maxPods": 50}},
    }
    bundle = {"config": {"node": {"maxPods": 20, "labels": {"a": "b"}}}, "configVersion": "1"}
    machine = machine_of("a", variables, lambda path: bundle if path == "node.yml" else {})
    assert machine.document["node"] == {"maxPods": 50, "labels": {"a": "b"}}


def test_a_null_still_removes_a_key_of_what_a_url_gives() -> None:
    variables = {
        "flexnode_config_source": "url",
        "flexnode_config_url": "https://x",
        "flexnode_config": {"proxy": {"http": "http://p:1"}, "node": {"maxPods": 5}},
        "flexnode_host_config": {"proxy": None},
    }
    assert machine_of("a", variables, no_file).document == {"proxy": None, "node": {"maxPods": 5}}


ARC = {"arc": {"enabled": True}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, True),
        ({"azure": ARC}, False),
        ({"azure": {"arc": {"enabled": False}}}, True),
        ({"azure": {"servicePrincipal": {"clientId": "c"}}}, False),
        ({"azure": {"managedIdentity": {}}}, False),  # the system-assigned one
        ({"azure": ARC, "kubernetesAuth": {"method": "bootstrapToken"}}, True),
        ({"azure": ARC, "kubernetesAuth": {"useAzureAuth": False}}, True),
        ({"kubernetesAuth": {"method": "arc"}}, False),
        ({"kubernetesAuth": {"useAzureAuth": True}}, False),
        ({"azure": ARC, "kubernetesAuth": {"profile": "token"}}, False),
        ({"azureAuth": {"method": "managedIdentity"}}, False),
        ({"azure": {"managedIdentity": None}}, True),
        ({"azure": {**ARC, "managedIdentity": {}}}, False),  # one of them has to be chosen
    ],
)
def test_a_machine_with_an_identity_needs_no_token(document: dict[str, Any], expected: bool) -> None:
    variables = {"flexnode_config_source": "cluster", "flexnode_config": document}
    assert machine_of("a", variables, no_file).wants_token == expected


class Counted(Mapping[str, Mapping[str, Any]]):
    """Variables of hosts; reading those of one host is expensive in Ansible."""

    def __init__(self, hosts: dict[str, dict[str, Any]]) -> None:
        self.hosts, self.reads = hosts, 0

    def __getitem__(self, host: str) -> Mapping[str, Any]:
        self.reads += 1
        return self.hosts[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)


def test_the_variables_of_each_host_are_read_once() -> None:
    """200 hosts took 31 s when each host read those of all others."""
    hostvars = Counted(
        {
            f"edge-{index}": {
                "flexnode_config": {
                    "cni": {"mode": "bridge", "podCIDR": f"10.{index // 250}.{index % 250}.0/24"}
                }
            }
            for index in range(300)
        }
    )
    run = [f"edge-{index}" for index in range(200)]
    inventory = read_inventory(run, hostvars, lambda path, host: {}, others=hostvars)
    assert len(inventory.machines) == 200
    assert inventory.findings == []
    assert hostvars.reads == 300


def test_a_relative_file_is_found_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "node.yml").write_text("node: {maxPods: 20}\n")
    found = config_file("node.yml", ["/nonexistent", None, str(tmp_path)], loaded)
    assert found == {"node": {"maxPods": 20}}


def test_a_missing_file_names_the_places_that_were_tried() -> None:
    with pytest.raises(InventoryInvalid, match=r"tried /a/node\.yml, /b/node\.yml"):
        config_file("node.yml", ["/a", "/b"], loaded)


def test_a_file_that_is_no_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "node.yml").write_text("just text\n")
    with pytest.raises(InventoryInvalid, match="is no configuration document"):
        config_file("node.yml", [str(tmp_path)], loaded)


@pytest.mark.parametrize("text", ["node: [x]\n", "config: {node: [x]}\nconfigVersion: 1\n"])
def test_a_file_with_a_part_of_the_wrong_shape_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "node.yml").write_text(text)
    with pytest.raises(InventoryInvalid, match="node is a list, not a mapping"):
        config_file("node.yml", [str(tmp_path)], loaded)


@pytest.mark.parametrize("source", ["inline", "url", "cluster", "machines"])
def test_choices_and_booleans_are_those_that_the_node_reads(source: str) -> None:
    """Whatever layer they come from, and whatever source follows."""
    variables = {
        "flexnode_config_source": source,
        "flexnode_config_file": "node.yml",
        "flexnode_config": {
            "kubernetesAuth": {"method": "BootstrapToken"},
            "azure": {"vpn": {"enabled": "true"}},
        },
        "flexnode_host_config": {"cni": {"mode": "BRIDGE"}},
    }
    document = machine_of("a", variables, lambda _path: {"continuousMonitoring": "False"}).document
    assert (document["kubernetesAuth"]["method"], document["cni"]["mode"]) == ("bootstrapToken", "bridge")
    assert (document["azure"]["vpn"]["enabled"], document["continuousMonitoring"]) == (True, False)


@pytest.mark.parametrize(
    ("value", "expected"), [("on", True), ("y", True), ("TRUE", True), (1, True), ("off", False), ("", False)]
)
def test_a_switch_is_read_as_ansible_reads_it(value: Any, expected: bool) -> None:
    names = ("flexnode_vpn_renew", "flexnode_vpn_force", "flexnode_config_url_durable")
    machine = machine_of("a", dict.fromkeys(names, value), no_file)
    assert (machine.vpn_renew, machine.vpn_force, machine.durable) == (expected,) * 3
