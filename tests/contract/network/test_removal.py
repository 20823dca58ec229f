# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gateways of other owners, lost records, and what absent removes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.modules.conftest import Person
from tests.contract.network.conftest import Owner, PlainAzure
from tests.contract.network.running import done, record_of, refused, writes


@pytest.mark.exhaustive
def test_a_gateway_of_another_owner(azure: PlainAzure, keeper: Person, owner: Owner) -> None:
    done(keeper, machines=["edge-1"])
    gateways = owner.client.virtual_network_gateways
    theirs = gateways.get("testbed", "flexnode-vpn").as_dict()
    theirs["tags"] = {}
    theirs["properties"]["vpnClientConfiguration"]["vpnClientRootCertificates"] = []
    body: Any = theirs
    gateways.begin_create_or_update("testbed", "flexnode-vpn", body).result(30)
    record_of(keeper).unlink()
    found = done(keeper, machines=["edge-1"], sku="VpnGw5AZ", address_pool="172.31.0.0/24")
    assert found["gateway"]["sku"] == "VpnGw2AZ"
    assert found["gateway"]["address_pool"] == ["192.168.100.0/24"]
    assert found["gateway"]["created_by_collection"] is False
    assert len(azure.vpn()["rootCertificates"]) == 1
    removed = done(keeper, state="absent", force=True)
    assert (
        removed["actions"][0]
        == "remove the root certificate of this collection from VPN gateway flexnode-vpn"
    )
    assert azure.vpn()["rootCertificates"] == []
    assert azure.vpn()["gateway"]
    theirs["properties"]["vpnClientConfiguration"]["vpnClientProtocols"] = ["IkeV2"]
    gateways.begin_create_or_update("testbed", "flexnode-vpn", body).result(30)
    code, message = refused(keeper, machines=["edge-1"])
    assert (code, "IkeV2" in message) == ("FLEX-1723", True)


@pytest.mark.exhaustive
def test_without_its_record_nothing_is_issued(azure: PlainAzure, keeper: Person) -> None:
    done(keeper, machines=["edge-1"])
    (first,) = azure.vpn()["rootCertificates"]
    record_of(keeper).unlink()
    code, message = refused(keeper, machines=["edge-1"])
    assert (code, "outlives a job" in message) == ("FLEX-1724", True)
    done(keeper, machines=["edge-1"], new_root=True)
    (second,) = azure.vpn()["rootCertificates"]
    assert first != second, "what the lost root signed is refused now"


@pytest.mark.exhaustive  # keys, by the dozen
def test_a_new_root_is_trusted_beside_the_old_one_until_machines_use_it(
    azure: PlainAzure, keeper: Person
) -> None:
    done(keeper, machines=["edge-1", "edge-2"])
    done(keeper, machines=["edge-1", "edge-2"], new_root=True, passphrase="another long passphrase")
    assert len(azure.vpn()["rootCertificates"]) == 2
    done(keeper, confirmed=["edge-1"], passphrase="another long passphrase")
    assert len(azure.vpn()["rootCertificates"]) == 2, "edge-2 may still use the old one"
    done(keeper, confirmed=["edge-2"], passphrase="another long passphrase")
    assert len(azure.vpn()["rootCertificates"]) == 1


def test_absent_removes_what_was_made_and_nothing_else(
    azure: PlainAzure, keeper: Person, owner: Owner
) -> None:
    done(keeper, machines=["edge-1"])
    code, message = refused(keeper, state="absent")
    assert (code, "edge-1" in message) == ("FLEX-1726", True)
    done(keeper, gone=["edge-1"])
    assert done(keeper, check=True, state="absent")["changed"]
    azure.forget_requests()
    gone = done(keeper, state="absent")
    assert writes(azure) == [
        "DELETE virtualNetworkGateways/flexnode-vpn",
        "DELETE virtualNetworks/plant/subnets/GatewaySubnet",
        "DELETE publicIPAddresses/flexnode-vpn-ip",
    ]
    assert gone["gateway"] == {}
    assert [one.name for one in owner.client.virtual_networks.get("testbed", "plant").subnets] == ["nodes"]
    assert not list((keeper.directory / "vpn").glob("*.json"))
    assert not done(keeper, state="absent")["changed"]


def test_a_subnet_of_another_owner_stays(azure: PlainAzure, keeper: Person, owner: Owner) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"), ("GatewaySubnet", "10.224.9.0/27"))
    done(keeper)
    azure.forget_requests()
    done(keeper, state="absent")
    assert [one for one in writes(azure) if "subnets" in one] == []
    assert len(owner.client.virtual_networks.get("testbed", "plant").subnets) == 2
