# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a gateway has to be, and how the one that is there differs."""

from __future__ import annotations

import copy
from base64 import b64encode
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    granted_scope,
    role_for,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import (
    GatewayUnusable,
    VnetUnusable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.plan import (
    MADE,
    MADE_BY,
    Trust,
    Wanted,
    changed_body,
    differences,
    gateway_body,
    require_usable,
    tags_of,
    thumbprint,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.resources import (
    ADDRESSES,
    VNETS,
    found_place,
    resource_id,
    vnet_of_cluster,
)
from tests.unit.controller.fake_network import GATEWAY, VNET, FakeNetwork

WANTED = Wanted("VpnGw2AZ", "192.168.100.0/24", ("1", "2", "3"))
ROOT = "cm9vdA=="
PRINT = thumbprint(ROOT)
TRUST = Trust({PRINT: ROOT})


def gateway(**properties: Any) -> dict[str, Any]:
    address = GATEWAY.beside(ADDRESSES, "ip")
    made = gateway_body(
        "westeurope", WANTED, f"{VNET}/subnets/GatewaySubnet", address, TRUST, tags_of(subnet_made=True)
    )
    made["properties"] |= {"provisioningState": "Succeeded", **properties}
    return {"id": str(GATEWAY), **made}


def test_a_new_gateway_is_as_it_has_to_be() -> None:
    made = gateway()
    assert differences(made, WANTED, TRUST, ours=True) == []
    assert made["tags"] == {MADE: MADE_BY, "aks-flexnode-gateway-subnet": "created"}
    assert made["properties"]["vpnGatewayGeneration"] == "Generation2"
    assert Wanted("VpnGw1AZ", "").generation == "Generation1"
    root = made["properties"]["vpnClientConfiguration"]["vpnClientRootCertificates"][0]
    assert root == {"name": f"aks-flexnode-{PRINT[:8].lower()}", "properties": {"publicCertData": ROOT}}


def test_a_root_that_is_base64_of_a_pem_file_has_the_thumbprint_of_its_certificate() -> None:
    """Azure takes such a root, and returns it as it was PUT."""
    pem = f"Bag Attributes\n-----BEGIN CERTIFICATE-----\n{ROOT[:4]}\n{ROOT[4:]}\n-----END CERTIFICATE-----\n"
    assert thumbprint(b64encode(pem.encode()).decode()) == PRINT
    assert thumbprint("not base64!") != PRINT


@pytest.mark.parametrize(
    ("wanted", "trust", "reason"),
    [
        (Wanted("VpnGw3AZ", WANTED.pool), TRUST, "SKU VpnGw2AZ -> VpnGw3AZ"),
        (Wanted(WANTED.sku, "172.16.0.0/24"), TRUST, "client addresses 192.168.100.0/24 -> 172.16.0.0/24"),
        (WANTED, Trust({PRINT: ROOT, thumbprint("eA=="): "eA=="}), "is missing"),
        (WANTED, Trust({}, unused_roots=frozenset([PRINT])), "1 root certificate no longer used"),
        (WANTED, Trust({PRINT: ROOT}, {"AA": "edge-1"}), "1 client certificate to revoke: edge-1"),
    ],
)
def test_every_difference_is_told_and_mended(wanted: Wanted, trust: Trust, reason: str) -> None:
    (found,) = differences(gateway(), wanted, trust, ours=True)
    assert reason in found
    changed = changed_body(gateway(), wanted, trust, ours=True)
    assert differences(changed, wanted, trust, ours=True) == []


def test_a_failed_change_is_done_again() -> None:
    assert differences(gateway(provisioningState="Failed"), WANTED, TRUST, ours=True) == [
        "its last change failed"
    ]


def test_certificates_of_others_stay() -> None:
    there = gateway()
    clients = there["properties"]["vpnClientConfiguration"]
    clients["vpnClientRootCertificates"].append({"name": "office", "properties": {"publicCertData": "eA=="}})
    clients["vpnClientRevokedCertificates"] = [
        {"name": "laptop", "properties": {"thumbprint": "BB"}},
        {"name": "aks-flexnode-old", "properties": {"thumbprint": "CC"}},
    ]
    trust = Trust({}, {"AA": "edge-1"}, frozenset([PRINT]), frozenset(["BB", "CC"]))
    changed = changed_body(there, WANTED, trust, ours=True)["properties"]["vpnClientConfiguration"]
    assert [one["name"] for one in changed["vpnClientRootCertificates"]] == ["office"]
    assert [one["properties"]["thumbprint"] for one in changed["vpnClientRevokedCertificates"]] == [
        "BB",
        "AA",
    ]


def test_of_another_owner_s_gateway_only_certificates_change() -> None:
    other = Wanted("VpnGw5AZ", "172.16.0.0/24")
    assert differences(gateway(), other, TRUST, ours=False) == []
    changed = changed_body(gateway(), other, TRUST, ours=False)
    assert changed["properties"]["sku"]["name"] == "VpnGw2AZ"


def test_a_gateway_of_another_owner_is_used_only_if_it_needs_no_change() -> None:
    require_usable(gateway(), ours=False)
    there = gateway()
    there["properties"]["vpnClientConfiguration"] = {"vpnClientProtocols": ["IkeV2"]}
    with pytest.raises(GatewayUnusable) as caught:
        require_usable(there, ours=False)
    assert "IkeV2" in caught.value.why
    assert "no addresses" in caught.value.why
    assert MADE not in caught.value.fix, "with the tag the next run would rewrite it, and absent delete it"
    require_usable(there, ours=True)


@pytest.mark.parametrize(
    "properties",
    [{"gatewayType": "ExpressRoute"}, {"vpnType": "PolicyBased"}, {"sku": {"name": "Basic"}}],
    ids=str,
)
def test_other_kinds_of_gateways(properties: dict[str, Any]) -> None:
    with pytest.raises(GatewayUnusable):
        require_usable(gateway(**properties), ours=True)


def test_too_many_roots() -> None:
    there = copy.deepcopy(gateway())
    there["properties"]["vpnClientConfiguration"]["vpnClientRootCertificates"] = [
        {"name": f"r{number}", "properties": {"publicCertData": f"{number:04}"}} for number in range(20)
    ]
    with pytest.raises(GatewayUnusable, match="more than 20"):
        changed_body(there, WANTED, TRUST, ours=True)


def cluster(*subnets: str) -> dict[str, Any]:
    profiles = [{"name": f"p{index}", "vnetSubnetID": one or None} for index, one in enumerate(subnets)]
    return {"id": "/cluster", "properties": {"agentPoolProfiles": profiles, "nodeResourceGroup": "MC_x"}}


def test_the_vnet_of_a_cluster() -> None:
    found = vnet_of_cluster(cluster(f"{VNET}/subnets/a", "", f"{VNET}/subnets/b".upper()))
    assert found.same(VNET)
    with pytest.raises(VnetUnusable, match="name no subnet") as caught:
        vnet_of_cluster(cluster(""))
    assert "MC_x" in caught.value.fix
    with pytest.raises(VnetUnusable, match="several VNets"):
        vnet_of_cluster(cluster(f"{VNET}/subnets/a", f"{VNET}x/subnets/a"))


def test_the_place_of_a_gateway_and_what_is_around_it() -> None:
    network = FakeNetwork()
    peering = {"properties": {"remoteAddressSpace": {"addressPrefixes": ["10.50.0.0/16"]}}}
    network.add_vnet(
        ("nodes", "10.224.0.0/24"), ("GatewaySubnet", "10.224.1.0/27"), virtualNetworkPeerings=[peering]
    )
    known = cluster(f"{VNET}/subnets/nodes")
    known["properties"]["networkProfile"] = {"podCidr": "10.244.0.0/16", "serviceCidrs": ["10.0.0.0/16"]}
    empty = found_place(network.get, vnet=None, gateway=None, cluster=known, name="mine", group="other")
    assert (empty.gateway.name, empty.gateway.group, empty.address.name) == ("mine", "other", "mine-ip")
    assert [str(one) for one in empty.ranges] == [
        "the VNet 10.224.0.0/16",
        "a peered VNet 10.50.0.0/16",
        "the cluster's pods 10.244.0.0/16",
        "the cluster's Services 10.0.0.0/16",
    ]
    network.put(GATEWAY, gateway())
    found = found_place(network.get, vnet=VNET, gateway=None, cluster=None, name="mine")
    assert found.gateway.same(GATEWAY), "the VNet has one: no other is made"
    with pytest.raises(VnetUnusable):
        found_place(network.get, vnet=None, gateway=None, cluster=None)


def test_ids_in_any_letter_case() -> None:
    found = resource_id(str(VNET).upper(), VNETS)
    assert found is not None
    assert found.same(VNET)
    assert resource_id(str(GATEWAY), VNETS) is None


def test_the_role_that_is_missing_belongs_to_the_resource_group() -> None:
    assert role_for("Microsoft.Network/virtualNetworkGateways/write") == "Network Contributor"
    assert role_for("Microsoft.Network/virtualNetworks/read") == "Reader"
    assert granted_scope(str(GATEWAY)) == str(GATEWAY).partition("/providers/")[0]
