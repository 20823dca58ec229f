# SPDX-License-Identifier: GPL-3.0-or-later
"""What contradicts itself in an inventory, found before anything is touched."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.checks import (
    check_fleet,
    check_source,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    machine_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.reading import read_inventory

PLANT = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
MILL = f"{PLANT}-2"


def with_pods(host: str, cidr: str, cluster: str = PLANT, **more: Any) -> Machine:
    return Machine(host, cluster_id=cluster, document={"cni": {"mode": "bridge", "podCIDR": cidr}}, **more)


def test_equal_pod_ranges_are_one_finding_for_all_hosts() -> None:
    (found,) = check_fleet([with_pods(host, "10.244.1.0/24") for host in ("a", "b", "c")])
    assert (found.hosts, found.severity) == (("a", "b", "c"), "error")
    assert "all of these have cni.podCIDR 10.244.1.0/24" in found.what


def test_overlapping_pod_ranges_are_found() -> None:
    machines = [
        with_pods("a", "10.244.0.0/16"),
        with_pods("b", "10.245.0.0/24"),
        with_pods("c", "10.244.9.0/24"),
    ]
    (found,) = check_fleet(machines)
    assert found.hosts == ("a", "c")
    assert "10.244.0.0/16 and 10.244.9.0/24 overlap" in found.what


def test_ranges_that_only_touch_do_not_overlap() -> None:
    machines = [with_pods("a", "10.244.0.0/24"), with_pods("b", "10.244.1.0/24"), with_pods("c", "fd00::/64")]
    assert list(check_fleet(machines)) == []


def test_two_clusters_in_one_pod_range_are_a_warning() -> None:
    (found,) = check_fleet([with_pods("a", "10.244.1.0/24"), with_pods("b", "10.244.1.0/24", MILL)])
    assert (found.severity, found.hosts) == ("warning", ("a", "b"))
    assert "two clusters in one pod range" in found.what


def test_a_machine_outside_the_run_counts_too() -> None:
    """--limit edge-2 must not hide that edge-1, a node since last year, has this range."""
    (found,) = check_fleet([with_pods("edge-2", "10.244.1.0/24")], [with_pods("edge-1", "10.244.1.0/24")])
    assert set(found.hosts) == {"edge-1", "edge-2"}


def test_what_only_concerns_machines_outside_the_run_is_not_reported() -> None:
    others = [with_pods("x", "10.1.0.0/16"), with_pods("y", "10.1.0.0/16")]
    assert list(check_fleet([with_pods("a", "10.244.1.0/24")], others)) == []


def test_a_range_without_the_bridge_network_is_not_used() -> None:
    machines = [Machine(host, document={"cni": {"podCIDR": "10.1.0.0/16"}}) for host in ("a", "b")]
    assert list(check_fleet(machines)) == []


@pytest.mark.parametrize(
    ("first", "second", "clusters", "expected"),
    [
        ("rp", "cluster", (PLANT, PLANT), True),
        ("inline", "rp", (PLANT, PLANT.upper()), True),
        ("cluster", "cluster", (PLANT, MILL), False),
        ("blob", "blob", (PLANT, MILL), True),  # a container is named after its Node alone
        ("cluster", "blob", (PLANT, PLANT), True),
        ("cluster", "blob", (PLANT, MILL), False),
    ],
)
def test_machines_that_would_be_the_same_node(
    first: str, second: str, clusters: tuple[str, str], expected: bool
) -> None:
    machines = [Machine("a", first, "twin", clusters[0]), Machine("b", second, "twin", clusters[1])]
    found = list(check_fleet(machines))
    assert [finding.what for finding in found] == ["all of these would be Node twin"] * expected


@pytest.mark.parametrize(
    ("machine", "chosen", "expected"),
    [
        (Machine("a", "url"), True, "needs flexnode_config_url"),
        (Machine("a", "rp"), True, "needs flexnode_cluster_id"),
        (Machine("a", "cluster"), True, "needs flexnode_cluster_id"),
        (Machine("a", "blob"), True, ""),  # a blob may hold what the inventory says
        (Machine("a", cluster_id=PLANT), False, "no source is"),
        (Machine("a", cluster_id=PLANT), True, ""),
        (
            Machine("a", cluster_id=PLANT, document={"node": {"kubelet": {"serverURL": "https://x"}}}),
            False,
            "",
        ),
    ],
)
def test_what_a_source_lacks(machine: Machine, chosen: bool, expected: str) -> None:
    found = [finding.what for finding in check_source(machine, chosen=chosen)]
    assert (expected in found[0]) if expected else found == []


def read(**hosts: dict[str, Any]) -> Any:
    return read_inventory(list(hosts), hosts, lambda path, host: {})


def test_a_mistyped_variable_is_a_warning_with_the_nearest_name() -> None:
    inventory = read(a={"flexnode_confg": {}}, b={"flexnode_confg": {}})
    inventory.require()
    assert inventory.warnings == [
        "a, b: unknown variable flexnode_confg: it has no effect. did you mean flexnode_config?"
    ]


def test_all_findings_are_shown_in_one_list() -> None:
    inventory = read(
        a={"flexnode_config_source": "clutser"},
        b={"flexnode_config": "text"},
        c={"flexnode_token_hours": "soon"},
        d={"flexnode_token_hours": 0},
        e={"flexnode_token_hours": "\N{SUPERSCRIPT TWO}"},
    )
    with pytest.raises(InventoryInvalid) as caught:
        inventory.require()
    text = str(caught.value)
    assert text.startswith("FLEX-1106: 5 problems in the inventory variables:\n  a: ")
    accepted = "inline, url, rp, cluster, blob, machines"
    assert f"'clutser' is not one of {accepted}\n    fix: use flexnode_config_source: cluster" in text
    assert "flexnode_config: a mapping is expected, not a text" in text
    assert "flexnode_token_hours: 'soon' is not a number" in text
    assert "flexnode_token_hours: '\N{SUPERSCRIPT TWO}' is not a number" in text
    assert "flexnode_token_hours: 0 is too small\n    fix: set flexnode_token_hours to 1 or more" in text
    assert re.search(r"\nThis run changed nothing\.\nfix: .*, then run the playbook again$", text)


def test_one_contradiction_of_the_fleet_stops_all() -> None:
    pods = {"flexnode_config": {"cni": {"mode": "bridge", "podCIDR": "10.1.0.0/24"}}}
    with pytest.raises(InventoryInvalid, match="1 problem in the inventory variables"):
        read(a=pods, b=pods).require()


def test_a_variable_that_cannot_be_evaluated_names_its_host() -> None:
    class Variables(dict[str, Any]):
        def __getitem__(self, host: str) -> Any:
            if host == "b":
                raise InventoryInvalid("flexnode_config can't be evaluated", why="'site' is undefined")
            return super().__getitem__(host)

    inventory = read_inventory(["a", "b"], Variables(a={}, b={}), lambda path, host: {})
    (found,) = inventory.findings
    assert found.hosts == ("b",)
    assert found.what == "flexnode_config can't be evaluated: 'site' is undefined"


def test_a_cluster_id_has_one_spelling() -> None:
    plant = PLANT.replace("/s/", "/12345678-1234-1234-1234-123456789abc/")
    machine = machine_of("a", {"flexnode_cluster_id": f"{plant}/"}, lambda path: {})
    assert machine.cluster_id == plant


def test_other_letters_do_not_hide_a_contradiction() -> None:
    """The node reads `Bridge` as bridge, so that both machines would have these addresses."""
    pods = {"flexnode_config": {"cni": {"mode": "Bridge", "podCIDR": "10.1.0.0/24"}}}
    with pytest.raises(InventoryInvalid, match=r"a, b: all of these have cni\.podCIDR 10\.1\.0\.0/24"):
        read(a=pods, b=pods).require()


def test_parts_of_the_wrong_shape_are_named_once_for_all_hosts() -> None:
    wrong = {"flexnode_config": {"node": ["x"], "azure": {"arc": True}}}
    inventory = read(a=wrong, b={**wrong, "flexnode_host_config": {"azure": "s3cret", "node": None}})
    with pytest.raises(InventoryInvalid) as caught:
        inventory.require()
    text = str(caught.value)
    assert text.startswith("FLEX-1106: 3 problems in the inventory variables:\n")
    assert "  a, b: flexnode_config.node: a mapping is expected, not a list\n" in text
    assert "  a, b: flexnode_config.azure.arc: a mapping is expected, not a boolean\n" in text
    assert "  b: flexnode_host_config.azure: a mapping is expected, not a text\n" in text
    assert "s3cret" not in text


@pytest.mark.parametrize("document", [{"node": ["x"]}, {"node": {"kubelet": "x"}}, {"azure": "x"}], ids=str)
def test_the_check_of_a_source_survives_any_shape(document: dict[str, Any]) -> None:
    (found,) = check_source(Machine("a", cluster_id=PLANT, document=document), chosen=False)
    assert "the document names no API server" in found.what


@pytest.mark.parametrize("variables", [{}, {"flexnode_config_source": ""}, {"flexnode_config_source": None}])
def test_a_blank_source_is_no_choice(variables: dict[str, Any]) -> None:
    hostvars = {"a": {"flexnode_cluster_id": PLANT, **variables}}
    (found,) = read_inventory(["a"], hostvars, lambda path, host: {}).findings
    assert "no source is" in found.what
