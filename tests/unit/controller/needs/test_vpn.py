# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which machines share a VPN gateway, and what in an inventory keeps them from getting their profiles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import (
    Machine,
    machine_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.vpn import (
    client_name,
    is_provisioned,
    names_of,
    shared_certificates,
    sites,
    vpn_findings,
    with_profile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED

CLUSTER = (
    "/subscriptions/12345678-1234-1234-1234-123456789abc/resourceGroups/rg"
    "/providers/Microsoft.ContainerService/managedClusters/plant"
)
VPN = {"enabled": True, "autoProvision": True}
PASSPHRASE = "Pl4nted-vpn-passphrase"


def machine(host: str, vpn: Mapping[str, Any] = VPN, **variables: Any) -> Machine:
    given = {
        "flexnode_cluster_id": CLUSTER,
        "flexnode_vpn_passphrase": PASSPHRASE,
        "flexnode_config": {"azure": {"vpn": dict(vpn)}},
        **variables,
    }
    return machine_of(host, given, lambda _path: {})


def found(*machines: Machine, ephemeral: bool = False) -> list[str]:
    return [one.what for one in vpn_findings(machines, ephemeral=ephemeral)]


@pytest.mark.parametrize(
    ("vpn", "expected"),
    [
        ({}, False),
        ({"enabled": True}, False),
        ({"autoProvision": True}, False),
        (VPN, True),
        ({"enabled": "true", "autoProvision": "True"}, True),
        ({"enabled": "true", "autoProvision": "false"}, False),
        ({"enabled": "yes", "autoProvision": True}, False),  # refused by the document's own checks
    ],
)
def test_only_both_switches_ask_for_a_gateway(vpn: Mapping[str, Any], expected: bool) -> None:
    assert is_provisioned(machine("a", vpn)) is expected
    assert bool(sites([machine("a", vpn)])) is expected


def test_machines_of_one_cluster_share_a_gateway() -> None:
    other = CLUSTER.replace("plant", "other")
    found_sites = sites(
        [
            machine("a"),
            machine("b", flexnode_cluster_id=CLUSTER.upper().replace("/SUBSCRIPTIONS", "/subscriptions")),
            machine("c", flexnode_cluster_id=other),
            machine("d", flexnode_vpn_vnet_id="/hub"),
            machine("e", {}),
        ]
    )
    assert [[one.host for one in site.machines] for site in found_sites] == [["a", "b"], ["c"], ["d"]]


def test_a_request_has_what_the_inventory_says_and_no_default_of_its_own() -> None:
    pods = {"cni": {"mode": "bridge", "podCIDR": "10.244.9.0/24"}}
    vpn = {**VPN, "p2sGatewayCIDR": "172.31.0.0/24", "gatewaySKU": "VpnGw3AZ"}
    (site,) = sites(
        [
            machine(
                "a",
                vpn,
                flexnode_host_config=pods,
                flexnode_vpn_other_cidrs=["10.0.0.0/8"],
                flexnode_vpn_timeout=10,
                flexnode_vpn_gateway_name="",
            )
        ]
    )
    assert site.request("/d", machines=["a"]) == {
        "cluster_id": CLUSTER,
        "directory": "/d",
        "address_pool": "172.31.0.0/24",
        "sku": "VpnGw3AZ",
        "other_cidrs": ["10.0.0.0/8", "10.244.9.0/24"],
        "operation_timeout": 10,
        "passphrase": PASSPHRASE,
        "machines": ["a"],
    }
    (plain,) = sites([machine("a", flexnode_vpn_directory="/kept")])
    assert plain.request("/d") == {"cluster_id": CLUSTER, "directory": "/kept", "passphrase": PASSPHRASE}


def test_secrets_are_in_no_repr() -> None:
    one = machine("a", flexnode_vpn_ca_key="Pl4nted-key")
    assert "Pl4nted" not in repr(one)
    assert "Pl4nted" not in repr(sites([one]))


def test_what_keeps_machines_from_getting_a_profile() -> None:
    assert found(machine("a"), machine("b")) == []
    assert found(machine("a", {}, flexnode_vpn_passphrase="", flexnode_cluster_id="")) == []
    assert "needs to know the cluster" in found(machine("a", flexnode_cluster_id=""))[0]
    assert found(machine("a", flexnode_cluster_id="", flexnode_vpn_vnet_id="/v")) == []
    for short in ("", "short"):
        assert "flexnode_vpn_passphrase" in found(machine("a", flexnode_vpn_passphrase=short))[0]
    assert "both set" in found(machine("a", flexnode_vpn_profile="client"))[0]
    assert "would be lost" in found(machine("a"), ephemeral=True)[0]
    assert found(machine("a", flexnode_vpn_directory="/kept"), ephemeral=True) == []


def test_contradictions_between_machines_of_one_gateway() -> None:
    small = {**VPN, "gatewaySKU": "VpnGw1AZ"}
    assert found(machine("a"), machine("b", small)) == [
        "machines of one VPN gateway have different azure.vpn.gatewaySKU: the default, VpnGw1AZ"
    ]
    assert "flexnode_vpn_directory" in found(machine("a"), machine("b", flexnode_vpn_directory="/x"))[0]
    assert found(
        machine("a", flexnode_vpn_certificate_days="30", flexnode_vpn_zones=["1"]),
        machine("b", flexnode_vpn_certificate_days=30, flexnode_vpn_zones=["2"], flexnode_vpn_new_root=True),
    ) == [
        "machines of one VPN gateway have different flexnode_vpn_zones: ['1'], ['2']",
        "machines of one VPN gateway have different flexnode_vpn_new_root: the default, true",
    ]


MILL = CLUSTER.replace("plant", "mill")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({}, {}, 0),
        ({"flexnode_vpn_gateway_id": "/g"}, {"flexnode_vpn_gateway_id": "/G"}, 1),
        ({"flexnode_vpn_vnet_id": "/hub"}, {"flexnode_vpn_vnet_id": "/hub"}, 1),
        ({"flexnode_vpn_vnet_id": "/hub"}, {"flexnode_vpn_vnet_id": "/spoke"}, 0),
    ],
)
def test_settings_of_a_gateway_that_two_clusters_share(
    first: dict[str, str], second: dict[str, str], expected: int
) -> None:
    small = {**VPN, "p2sGatewayCIDR": "172.31.0.0/24"}
    other = machine("b", small, flexnode_cluster_id=MILL, **second)
    assert len(found(machine("a", **first), other)) == expected


@pytest.mark.parametrize(
    ("shared", "name", "outside", "expected"),
    [
        ({"flexnode_vpn_gateway_id": "/g"}, "edge-1", False, True),
        ({"flexnode_vpn_gateway_id": "/g"}, "edge-1", True, True),
        ({"flexnode_vpn_vnet_id": "/hub"}, "edge-1", False, True),
        ({"flexnode_vpn_gateway_id": "/g"}, "edge-2", False, False),
        ({}, "edge-1", False, False),
    ],
)
def test_machines_of_two_clusters_that_would_share_a_certificate(
    shared: dict[str, str], name: str, outside: bool, expected: bool
) -> None:
    north = machine("north", flexnode_host_config={"agent": {"nodeName": "edge-1"}}, **shared)
    south = machine(
        "south", flexnode_cluster_id=MILL, flexnode_host_config={"agent": {"nodeName": name}}, **shared
    )
    run, others = ([north], [south]) if outside else ([north, south], [])
    what = "these machines of one VPN gateway would share the certificate of edge-1"
    assert [(one.hosts, one.what) for one in shared_certificates(run, others)] == (
        [(("north", "south"), what)] if expected else []
    )
    assert not list(shared_certificates([], [north, south])), "what this run leaves alone is not its problem"


def test_a_machine_that_is_named_as_the_host_of_another_would_share_its_certificate() -> None:
    named = machine("b", flexnode_host_config={"agent": {"nodeName": "a"}})
    assert [one.hosts for one in shared_certificates([machine("a"), named], [])] == [("a", "b")]


def test_two_spellings_of_one_switch_are_no_contradiction() -> None:
    spelled = [machine(str(value), flexnode_vpn_new_root=value) for value in (True, "on", "yes", "1")]
    assert found(*spelled) == []


@pytest.mark.parametrize("variable", ["passphrase", "ca_key", "ca_certificate"])
def test_a_contradiction_between_secrets_shows_none(variable: str) -> None:
    name = f"flexnode_vpn_{variable}"
    (what,) = found(machine("a", **{name: "Pl4nted-one-secret"}), machine("b", **{name: "Pl4nted-another"}))
    assert what == f"machines of one VPN gateway have different {name}: values are not shown"


def test_networks_that_machines_name_are_merged() -> None:
    (site,) = sites(
        [
            machine("a", flexnode_vpn_other_cidrs=["10.0.0.0/8"]),
            machine("b", flexnode_vpn_other_cidrs=["172.20.0.0/16", "10.0.0.0/8"]),
        ]
    )
    assert site.request("/d")["other_cidrs"] == ["10.0.0.0/8", "172.20.0.0/16"]
    assert found(*site.machines) == []


def test_a_profile_becomes_a_secret_of_the_document() -> None:
    one = machine("a", {**VPN, "gatewaySKU": "VpnGw3AZ"})
    ours = {"created_by_collection": True, "address_pool": ["192.168.100.0/24"]}
    vpn = with_profile(one, "client", ours).document["azure"]["vpn"]
    assert vpn == {**VPN, "gatewaySKU": "VpnGw3AZ", "profile": "client"}
    assert with_profile(one, "", ours).document["azure"]["vpn"]["profile"] == REDACTED
    assert "profile" not in one.document["azure"]["vpn"]


def test_the_addresses_of_another_owner_s_gateway_are_those_of_the_document() -> None:
    theirs = {"created_by_collection": False, "address_pool": ["10.9.0.0/24", "10.10.0.0/24"]}
    for given in (VPN, {**VPN, "p2sGatewayCIDR": "172.31.0.0/24"}):
        vpn = with_profile(machine("a", given), "client", theirs).document["azure"]["vpn"]
        assert vpn["p2sGatewayCIDR"] == "10.9.0.0/24"


def test_a_certificate_has_the_name_of_its_node() -> None:
    assert client_name(machine("a")) == "a"
    named = machine("a", flexnode_host_config={"agent": {"nodeName": "edge-1"}})
    assert client_name(named) == "edge-1"


def test_a_renamed_machine_has_several_names_and_never_another_s() -> None:
    named = machine("a", flexnode_host_config={"agent": {"nodeName": "edge-1"}})
    assert names_of(named) == ["edge-1", "a"]
    assert names_of(named, "old") == ["edge-1", "old", "a"]
    assert names_of(named, "old", {"old", "a"}) == ["edge-1"]
    assert names_of(machine("a"), "a") == ["a"]


@pytest.mark.parametrize(("value", "expected"), [(True, True), ("true", True), ("false", False), ("", False)])
def test_switches_of_surveys(value: Any, expected: bool) -> None:
    assert machine("a", flexnode_vpn_renew=value).vpn_renew is expected


def test_lists_may_be_texts_with_commas() -> None:
    """One spelling: a list and a text that say the same are no contradiction."""
    of_list = machine("a", flexnode_vpn_zones=[1, 2], flexnode_vpn_other_cidrs=["10.9.0.0/16"])
    of_text = machine("b", flexnode_vpn_zones="1, 2", flexnode_vpn_other_cidrs="10.9.0.0/16,10.8.0.0/16")
    assert of_list.vpn["zones"] == of_text.vpn["zones"] == ["1", "2"]
    assert of_text.vpn["other_cidrs"] == ["10.9.0.0/16", "10.8.0.0/16"]
