# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Emulated networks as the SDK's own client sees them: its models, its pollers, its errors."""

from __future__ import annotations

import base64
import io
import zipfile
from typing import Any

import pytest
import requests
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import (
    new_client,
    new_root,
)
from testbed.azure import Fault
from testbed.layout.identifiers import LOCATION
from tests.contract.network.conftest import GROUP, VNET, Owner, PlainAzure, client_of
from tests.contract.sdk import code

NOW = 1_790_000_000.0
GATEWAY_SUBNET = ("GatewaySubnet", "10.224.255.224/27")


def body(data: str = "", pool: str = "192.168.100.0/24", **more: Any) -> Any:
    """A gateway, as a program would ask for it."""
    roots = [{"name": "ours", "properties": {"publicCertData": data}}] if data else []
    place = {
        "privateIPAllocationMethod": "Dynamic",
        "subnet": {"id": f"{VNET}/subnets/GatewaySubnet"},
        "publicIPAddress": {"id": f"{GROUP}/providers/Microsoft.Network/publicIPAddresses/ip"},
    }
    return {
        "location": LOCATION,
        "properties": {
            "gatewayType": "Vpn",
            "vpnType": "RouteBased",
            "sku": {"name": "VpnGw2AZ", "tier": "VpnGw2AZ"},
            "ipConfigurations": [{"name": "default", "properties": place}],
            "vpnClientConfiguration": {
                "vpnClientAddressPool": {"addressPrefixes": [pool]},
                "vpnClientProtocols": ["OpenVPN"],
                "vpnAuthenticationTypes": ["Certificate"],
                "vpnClientRootCertificates": roots,
                "vpnClientRevokedCertificates": [],
            },
            **more,
        },
    }


def address(owner: Owner, **more: Any) -> Any:
    given: Any = {
        "location": LOCATION,
        "sku": {"name": "Standard"},
        "zones": ["1", "2", "3"],
        "properties": {"publicIPAllocationMethod": "Static"},
        **more,
    }
    return owner.client.public_ip_addresses.begin_create_or_update("testbed", "ip", given).result()


@pytest.fixture
def ready(owner: Owner) -> Owner:
    """A VNet with a GatewaySubnet, and an address."""
    owner.vnet(("nodes", "10.224.0.0/24"), GATEWAY_SUBNET)
    address(owner)
    return owner


def put(owner: Owner, given: Any, name: str = "gateway") -> Any:
    return owner.client.virtual_network_gateways.begin_create_or_update("testbed", name, given)


def test_a_gateway_is_made_by_an_operation_that_takes_its_time(azure: PlainAzure, ready: Owner) -> None:
    azure.settings(gateway_seconds=5)
    root = new_root("plant", NOW)
    poller = put(ready, body(root.public_data))
    assert poller.status() == "InProgress"
    there = ready.client.virtual_network_gateways.get("testbed", "gateway")
    assert there.provisioning_state == "Updating"
    with pytest.raises(HttpResponseError) as caught:
        put(ready, body(root.public_data))
    assert (caught.value.status_code, code(caught.value)) == (409, "AnotherOperationInProgress")
    made = poller.result(30)
    assert (made.provisioning_state, made.sku.name) == ("Succeeded", "VpnGw2AZ")
    clients = made.vpn_client_configuration
    assert clients.vpn_client_root_certificates[0].public_cert_data == root.public_data
    subnet = ready.client.subnets.get("testbed", "plant", "GatewaySubnet")
    assert "virtualNetworkGateways/gateway" in subnet.ip_configurations[0].id
    again = put(ready, body(root.public_data)).result(30)
    assert again.resource_guid == made.resource_guid


def test_the_profile_is_a_real_archive_behind_a_signed_url(azure: PlainAzure, ready: Owner) -> None:
    put(ready, body(new_root("plant", NOW).public_data)).result(30)
    given: Any = {"processorArchitecture": "Amd64", "authenticationMethod": "EAPTLS"}
    gateways = ready.client.virtual_network_gateways
    url = gateways.begin_generate_vpn_profile("testbed", "gateway", given).result(30)
    assert url.startswith("https://")
    ca = str(azure.ca_file)
    refused = requests.get(url, verify=ca, headers={"Authorization": "Bearer x"}, timeout=10)
    assert refused.status_code == 400, "a second credential is refused"
    assert requests.get(url.partition("&sig")[0], verify=ca, timeout=10).status_code == 403
    with zipfile.ZipFile(io.BytesIO(requests.get(url, verify=ca, timeout=10).content)) as archive:
        text = archive.read("OpenVPN/vpnconfig.ovpn").decode()
    known = ("proto tcp", "auth SHA256", "cipher AES-256-GCM", "tls-version-min 1.2", "key-direction 1")
    assert [line for line in known if line not in text] == []
    assert (text.count("$CLIENTCERTIFICATE"), text.count("$PRIVATEKEY")) == (1, 1)
    package = gateways.begin_generatevpnclientpackage("testbed", "gateway", given).result(30)
    assert package.startswith("https://")


def test_the_server_reads_what_the_gateway_has_and_profiles_lead_to_it(
    azure: PlainAzure, ready: Owner
) -> None:
    assert azure.vpn()["gateway"] == ""
    root = new_root("plant", NOW)
    client = new_client(root, "edge-1", NOW, 30)
    azure.set_vpn_server(
        host="192.0.2.1", port=443, caCertificate=root.certificate, tlsAuthKey="-----BEGIN KEY-----"
    )
    given = body(root.public_data)
    given["properties"]["vpnClientConfiguration"]["vpnClientRevokedCertificates"] = [
        {"name": "edge-1", "properties": {"thumbprint": client.thumbprint.lower()}}
    ]
    put(ready, given).result(30)
    found = azure.vpn()
    assert found["rootCertificates"] == [root.public_data]
    assert found["revokedThumbprints"] == [client.thumbprint]
    assert (found["addressPool"], found["routes"]) == ("192.168.100.0/24", ["10.224.0.0/16"])
    assert found["server"]["host"] == found["server"]["name"] == "192.0.2.1"
    with pytest.raises(Exception, match="a server has exactly"):
        azure.set_vpn_server(host="192.0.2.1")


REFUSED: dict[str, tuple[str, Any]] = {
    "a pool in the VNet": ("VpnClientAddressPoolOverlapsWithVirtualNetwork", body(pool="10.224.7.0/24")),
    "PEM instead of DER": (
        "VpnClientRootCertificateDataInvalid",
        body(base64.b64encode(new_root("x", NOW).certificate.encode()).decode()),
    ),
    "a certificate that is no root": (
        "VpnClientRootCertificateDataInvalid",
        body(new_client(new_root("x", NOW), "edge-1", NOW, 1).public_data),
    ),
    "a SKU that does not exist": ("InvalidGatewaySkuSpecified", body(sku={"name": "VpnGw9"})),
    "an address without zones": ("VmssVpnGatewayPublicIpsMustHaveZonesConfigured", None),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_azure_refuses(owner: Owner, case: str) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"), GATEWAY_SUBNET)
    expected, given = REFUSED[case]
    address(owner, **({} if given else {"zones": None}))
    with pytest.raises(HttpResponseError) as caught:
        put(owner, given or body())
    assert (caught.value.status_code, code(caught.value)) == (400, expected)


def test_what_a_gateway_needs_has_to_be_there(owner: Owner) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"))
    address(owner)
    with pytest.raises(HttpResponseError) as caught:
        put(owner, body())
    assert code(caught.value) == "InvalidResourceReference"
    assert "GatewaySubnet" in str(caught.value)
    with pytest.raises(ResourceNotFoundError):
        owner.client.virtual_network_gateways.get("testbed", "gateway")


def test_subnets_fit_into_their_network(owner: Owner) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"))
    for prefix, expected in (
        ("10.225.0.0/27", "NetcfgInvalidSubnet"),
        ("10.224.0.64/27", "NetcfgSubnetRangesOverlap"),
    ):
        given: Any = {"properties": {"addressPrefix": prefix}}
        with pytest.raises(HttpResponseError) as caught:
            owner.client.subnets.begin_create_or_update("testbed", "plant", "GatewaySubnet", given)
        assert code(caught.value) == expected


def test_what_is_in_use_stays(ready: Owner) -> None:
    put(ready, body()).result(30)
    with pytest.raises(HttpResponseError) as caught:
        ready.client.subnets.begin_delete("testbed", "plant", "GatewaySubnet")
    assert code(caught.value) == "InUseSubnetCannotBeDeleted"
    with pytest.raises(HttpResponseError) as caught:
        ready.client.public_ip_addresses.begin_delete("testbed", "ip")
    assert code(caught.value) == "PublicIPAddressCannotBeDeleted"
    with pytest.raises(HttpResponseError) as caught:
        put(ready, body(), "second")
    assert code(caught.value) == "OnlyOneGatewayOfTypeAllowedInVirtualNetwork"
    ready.client.virtual_network_gateways.begin_delete("testbed", "gateway").result(30)
    ready.client.subnets.begin_delete("testbed", "plant", "GatewaySubnet").result(30)
    ready.client.public_ip_addresses.begin_delete("testbed", "ip").result(30)
    assert [one.name for one in ready.client.public_ip_addresses.list("testbed")] == []


def test_an_operation_that_fails_in_the_end(azure: PlainAzure, ready: Owner) -> None:
    azure.settings(gateway_failure="InternalServerError")
    with pytest.raises(HttpResponseError) as caught:
        put(ready, body()).result(30)
    assert code(caught.value) == "InternalServerError"
    assert ready.client.virtual_network_gateways.get("testbed", "gateway").provisioning_state == "Failed"


def test_busy_and_forbidden(azure: PlainAzure, ready: Owner) -> None:
    azure.settings(gateway_sku_unavailable="VpnGw2AZ")
    with pytest.raises(HttpResponseError) as caught:
        put(ready, body())
    assert (caught.value.status_code, code(caught.value)) == (409, "SkuNotAvailable")
    azure.settings(gateway_sku_unavailable="")
    azure.fail(Fault("virtualNetworkGateways", "PUT", times=2, status=429, retry_after=0))
    assert put(ready, body()).result(30).provisioning_state == "Succeeded"
    stranger = azure.app_registration("stranger")
    with pytest.raises(HttpResponseError) as caught:
        client_of(azure, stranger).virtual_network_gateways.get("testbed", "gateway")
    assert (caught.value.status_code, code(caught.value)) == (403, "AuthorizationFailed")


def test_a_write_that_starts_from_an_older_version(ready: Owner) -> None:
    first = put(ready, body()).result(30)
    put(ready, body()).result(30)
    gateways = ready.client.virtual_network_gateways
    with pytest.raises(HttpResponseError) as caught:
        gateways.begin_create_or_update("testbed", "gateway", body(), headers={"If-Match": first.etag})
    assert caught.value.status_code == 412


def test_a_write_that_must_create_what_is_there(ready: Owner) -> None:
    gateways, only_new = ready.client.virtual_network_gateways, {"If-None-Match": "*"}
    made = gateways.begin_create_or_update("testbed", "gateway", body(), headers=only_new).result(30)
    with pytest.raises(HttpResponseError) as caught:
        gateways.begin_create_or_update("testbed", "gateway", body(), headers=only_new)
    assert (caught.value.status_code, code(caught.value)) == (412, "PreconditionFailed")
    assert ready.client.virtual_network_gateways.get("testbed", "gateway").etag == made.etag
