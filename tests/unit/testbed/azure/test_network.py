# SPDX-License-Identifier: GPL-3.0-or-later
"""Networks of the emulated Azure: what it refuses, what a VPN server reads, and the archive of a profile."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.azure.arm.errors import ArmError
from testbed.azure.arm.gateway import TABLE
from testbed.azure.behaviour.settings import Settings
from testbed.azure.database import Database
from testbed.azure.network import profile, rules, server, vnets
from testbed.azure.network.store import Resources
from testbed.layout.identifiers import SUBSCRIPTION_ID

NETWORK = f"/subscriptions/{SUBSCRIPTION_ID}/resourceGroups/testbed/providers/Microsoft.Network"
GATEWAY = f"{NETWORK}/virtualNetworkGateways/g"


@pytest.fixture
def cloud(tmp_path: Path) -> Any:
    place = SimpleNamespace(
        origin="https://azure",
        location="westeurope",
        subscription_id=SUBSCRIPTION_ID,
        resource_group="testbed",
    )
    return SimpleNamespace(database=Database(tmp_path / "azure.sqlite"), place=place)


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", f"{NETWORK}/virtualNetworks/v", "virtualNetworks/read"),
        ("PUT", f"{NETWORK}/virtualNetworks/v/subnets/s", "virtualNetworks/subnets/write"),
        ("DELETE", f"{NETWORK}/publicIPAddresses/a", "publicIPAddresses/delete"),
        ("POST", f"{GATEWAY}/generatevpnprofile", "virtualNetworkGateways/generatevpnprofile/action"),
    ],
)
def test_paths_lead_to_operations(method: str, path: str, action: str) -> None:
    found = next(one for one in TABLE if one.method == method and one.pattern.fullmatch(path))
    assert found.action == f"Microsoft.Network/{action}"


def settings(**clients: Any) -> dict[str, Any]:
    known = {
        "vpnClientAddressPool": {"addressPrefixes": ["192.168.0.0/24"]},
        "vpnClientProtocols": ["OpenVPN"],
    }
    return {"sku": {"name": "VpnGw2AZ"}, "vpnClientConfiguration": {**known, **clients}}


@pytest.mark.parametrize(
    ("properties", "code"),
    [
        ({"sku": {"name": "VpnGw9"}}, "InvalidGatewaySkuSpecified"),
        ({**settings(), "sku": {"name": "Basic"}}, "VpnClientProtocolNotSupportedBySku"),
        (settings(vpnClientAddressPool={}), "VpnClientAddressPoolNotSpecified"),
        (
            settings(vpnClientAddressPool={"addressPrefixes": ["10.0.1.0/24"]}),
            "VpnClientAddressPoolOverlapsWithVirtualNetwork",
        ),
        (
            settings(vpnClientRevokedCertificates=[{"name": "x", "properties": {"thumbprint": "AA"}}]),
            "VpnClientRevokedCertificateThumbprintInvalid",
        ),
        (
            settings(vpnClientRootCertificates=[{"name": "x", "properties": {"publicCertData": "eA=="}}]),
            "VpnClientRootCertificateDataInvalid",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused(properties: dict[str, Any], code: str) -> None:
    rules.check(settings(), ["10.0.0.0/16"], ["1"], "")
    with pytest.raises(ArmError) as caught:
        rules.check(properties, ["10.0.0.0/16"], ["1"], "")
    assert caught.value.code == code


def test_a_server_is_made_up_until_a_real_one_is_named(cloud: Any) -> None:
    made = server.settings(cloud)
    assert (made["gateway"], made["rootCertificates"], made["addressPool"]) == ("", [], "")
    assert made["server"] == server.settings(cloud)["server"], "it stays the same"
    assert made["server"]["tlsAuthKey"].startswith("-----BEGIN OpenVPN Static key V1-----\n")
    given = {**made["server"], "host": "192.0.2.1", "port": 1194}
    del given["name"]
    assert server.set_server(cloud, given)["name"] == "192.0.2.1"
    for wrong in (
        {"host": "x"},
        {**given, "port": "443"},
        {**given, "caCertificate": "x"},
        {**given, "a": 1},
    ):
        with pytest.raises(ValueError, match=r".+"):
            server.set_server(cloud, wrong)
    server.forget_server(cloud)
    assert server.server(cloud)["host"] == server.HOST


def test_an_archive_has_a_profile_for_openvpn_only_if_the_gateway_offers_it(cloud: Any) -> None:
    here = server.server(cloud)
    for protocols, expected in ((["OpenVPN"], True), (["IkeV2"], False)):
        with zipfile.ZipFile(io.BytesIO(profile.archive(here, protocols))) as found:
            assert ("OpenVPN/vpnconfig.ovpn" in found.namelist()) is expected
    url = profile.offer(cloud, ["OpenVPN"])
    assert url.startswith("https://azure/vpn-profiles/")
    assert "sig=" in url


def test_an_operation_is_over_at_its_end(cloud: Any) -> None:
    resources = Resources(cloud)
    for ends_as in ("Succeeded", "Failed", "gone"):
        document = {"id": GATEWAY, "properties": {"provisioningState": "Updating"}}
        resources.write(document, seconds=0, ends_as=ends_as)
        found = resources.find(GATEWAY.upper())
        assert (found["properties"]["provisioningState"] if found else "gone") == ends_as
    resources.write({"id": GATEWAY, "properties": {"provisioningState": "Updating"}}, 60, "Succeeded")
    assert [one["properties"]["provisioningState"] for one in resources.all("virtualNetworkGateways")] == [
        "Updating"
    ]
    resources.forget()
    assert resources.all("virtualNetworkGateways") == []


def test_a_network_is_planted(cloud: Any) -> None:
    made = vnets.plant(cloud, "plant", "10.0.0.0/16", {"nodes": "10.0.0.0/24"})
    assert Resources(cloud).find(f"{NETWORK}/virtualNetworks/plant") == made
    with pytest.raises(ArmError):
        vnets.plant(cloud, "plant", "10.0.0.0/16", {"nodes": "10.1.0.0/24"})


def test_the_times_of_gateways_are_settings() -> None:
    assert Settings.parse({"gateway_seconds": 3, "cluster_subnet_id": "x"}).gateway_seconds == 3
