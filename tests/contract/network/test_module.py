# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_vpn_gateway against emulated networks: one gateway for ten machines, and every way back."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from testbed.azure import Fault
from testbed.layout.identifiers import CLUSTER_ID
from tests.contract.modules.conftest import Person
from tests.contract.network.conftest import GROUP, VNET, Owner, PlainAzure
from tests.contract.network.running import done, record_of, refused, writes

TEN = [f"edge-{number}" for number in range(1, 11)]


@pytest.mark.exhaustive  # keys, by the dozen
def test_ten_machines_are_one_gateway_and_one_profile(azure: PlainAzure, keeper: Person) -> None:
    azure.forget_requests()
    planned = done(keeper, check=True, machines=TEN)
    assert planned["changed"]
    assert writes(azure) == []
    assert not (keeper.directory / "vpn").exists()
    assert {one["profile"] for one in planned["machines"]} == {""}
    made = done(keeper, machines=TEN)
    assert writes(azure) == [
        "PUT publicIPAddresses/flexnode-vpn-ip",
        "PUT virtualNetworks/plant/subnets/GatewaySubnet",
        "PUT virtualNetworkGateways/flexnode-vpn",
        "POST virtualNetworkGateways/flexnode-vpn/generatevpnprofile",
    ]
    assert [one["action"] for one in made["machines"]] == ["issued"] * 10
    assert len({one["thumbprint"] for one in made["machines"]}) == 10
    assert made["gateway"]["sku"] == "VpnGw2AZ"
    assert any("create VPN gateway flexnode-vpn" in sentence for sentence in made["actions"])
    azure.forget_requests()
    again = done(keeper, machines=TEN)
    assert (again["changed"], again["actions"], writes(azure)) == (False, [], [])
    assert again["machines"] == [{**one, "action": "unchanged"} for one in made["machines"]]
    more = done(keeper, machines=[*TEN, "edge-11"])
    assert writes(azure) == [], "a further machine needs no change of the gateway"
    assert more["actions"] == ["issue a VPN certificate for edge-11 (it has none)"]


def test_a_profile_is_complete_and_nobody_else_s(azure: PlainAzure, keeper: Person) -> None:
    first, second = done(keeper, machines=["edge-1", "edge-2"])["machines"]
    (root,) = azure.vpn()["rootCertificates"]
    authority = x509.load_der_x509_certificate(base64.b64decode(root))
    for one in (first, second):
        text = one["profile"]
        assert "$" not in text
        assert "\r" not in text
        cert = re.search(r"(?s)<cert>\n(.*?)</cert>", text)
        key = re.search(r"(?s)<key>\n(.*?)</key>", text)
        assert cert
        assert key
        found = x509.load_pem_x509_certificate(cert[1].encode())
        found.verify_directly_issued_by(authority)
        assert found.subject.rfc4514_string() == f"CN={one['name']}"
        loaded = serialization.load_pem_private_key(key[1].encode(), None)
        assert loaded.public_key() == found.public_key()
        assert azure.vpn()["server"]["caCertificate"].strip() in text
    assert first["profile"] != second["profile"]


def test_keys_are_stored_for_their_owner_and_encrypted(keeper: Person) -> None:
    made = done(keeper, machines=["edge-1"])
    record = record_of(keeper)
    assert (record.stat().st_mode & 0o777, record.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    text = record.read_text()
    assert "PRIVATE KEY" not in text
    assert made["machines"][0]["thumbprint"] in text
    code, message = refused(keeper, machines=["edge-1"], passphrase="another passphrase")
    assert code == "FLEX-1724"
    assert "can't be decrypted" in message
    assert refused(keeper, machines=["edge-1"], passphrase="short")[0] == "FLEX-1724"
    assert refused(keeper, machines=["edge-1"], passphrase="")[0] == "FLEX-1724"


def test_a_run_that_was_cut_off_is_continued(azure: PlainAzure, keeper: Person) -> None:
    azure.settings(gateway_seconds=20)
    code, message = refused(keeper, machines=["edge-1"], operation_timeout=1)
    assert code == "FLEX-1705"
    assert "run this again" in message
    azure.forget_requests()
    told = keeper.directory / "told"
    made = done(keeper, machines=["edge-1"], progress_file=str(told))
    assert writes(azure) == ["POST virtualNetworkGateways/flexnode-vpn/generatevpnprofile"]
    assert "updating" in told.read_text()
    assert made["machines"][0]["action"] == "unchanged", "the certificate was issued by the first run"
    assert made["machines"][0]["profile"]


@pytest.mark.exhaustive
def test_a_change_waits_for_another_operation(azure: PlainAzure, keeper: Person) -> None:
    done(keeper, machines=["edge-1"])
    azure.fail(Fault("virtualNetworkGateways", "PUT", times=2, status=409, code="AnotherOperationInProgress"))
    changed = done(keeper, machines=["edge-1"], left=["edge-2"], renew=["edge-1"])
    assert changed["actions"] == ["renew the VPN certificate of edge-1 (asked for)"]
    revoked = done(keeper, confirmed=["edge-1"])
    assert "client certificate to revoke: edge-1" in revoked["actions"][0]


def test_rotation_revokes_the_old_certificate_after_the_new_one_is_used(
    azure: PlainAzure, keeper: Person
) -> None:
    (old,) = done(keeper, machines=["edge-1"])["machines"]
    (new,) = done(keeper, machines=["edge-1"], renew=["edge-1"])["machines"]
    assert (new["action"], new["replaced"]) == ("renewed", True)
    assert azure.vpn()["revokedThumbprints"] == [], "the machine still uses the old one"
    azure.forget_requests()
    confirmed = done(keeper, confirmed=["edge-1"])
    assert azure.vpn()["revokedThumbprints"] == [old["thumbprint"]]
    assert writes(azure) == ["PUT virtualNetworkGateways/flexnode-vpn"]
    assert confirmed["changed"]
    assert not done(keeper, confirmed=["edge-1"])["changed"]
    (same,) = done(keeper, machines=["edge-1"])["machines"]
    assert (same["action"], same["thumbprint"], same["replaced"]) == ("unchanged", new["thumbprint"], False)
    states = {one["thumbprint"]: one["state"] for one in done(keeper, machines=["edge-1"])["certificates"]}
    assert states == {old["thumbprint"]: "revoked", new["thumbprint"]: "active"}


@pytest.mark.exhaustive  # keys, by the dozen
def test_machines_that_left_are_revoked_in_one_change(azure: PlainAzure, keeper: Person) -> None:
    made = done(keeper, machines=TEN)["machines"]
    azure.forget_requests()
    planned = done(keeper, check=True, gone=TEN[:5])
    assert (planned["changed"], writes(azure)) == (True, [])
    done(keeper, gone=TEN[:5])
    assert writes(azure) == ["PUT virtualNetworkGateways/flexnode-vpn"]
    assert sorted(azure.vpn()["revokedThumbprints"]) == sorted(one["thumbprint"] for one in made[:5])
    assert not done(keeper, gone=TEN[:5])["changed"]
    (back,) = done(keeper, machines=["edge-1"])["machines"]
    assert back["action"] == "issued"
    assert back["thumbprint"] not in azure.vpn()["revokedThumbprints"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"address_pool": "10.224.7.0/24"}, "the VNet 10.224.0.0/16"),
        ({"address_pool": "10.244.0.0/24"}, "the cluster's pods 10.244.0.0/16"),
        ({"address_pool": "10.96.0.0/12"}, "the cluster's Services 10.96.0.0/16"),
        ({"other_cidrs": ["192.168.0.0/16"]}, "another network 192.168.0.0/16"),
    ],
)
def test_overlapping_ranges_stop_it_before_anything_is_made(
    azure: PlainAzure, keeper: Person, options: dict[str, Any], words: str
) -> None:
    azure.forget_requests()
    code, message = refused(keeper, machines=["edge-1"], **options)
    assert (code, words in message) == ("FLEX-1721", True), message
    assert writes(azure) == []
    assert not list((keeper.directory / "vpn").glob("*.json"))


def test_a_site_that_azure_knows_is_compared_too(azure: PlainAzure, keeper: Person, owner: Owner) -> None:
    site: Any = {
        "location": "westeurope",
        "properties": {
            "gatewayIpAddress": "203.0.113.1",
            "localNetworkAddressSpace": {"addressPrefixes": ["192.168.0.0/17"]},
        },
    }
    owner.client.local_network_gateways.begin_create_or_update("testbed", "site", site).result(30)
    code, message = refused(keeper, machines=["edge-1"])
    assert (code, "a site of a local network gateway 192.168.0.0/17" in message) == ("FLEX-1721", True)


def test_a_network_without_room(azure: PlainAzure, keeper: Person, owner: Owner) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"), space="10.224.0.0/24")
    azure.forget_requests()
    code, message = refused(keeper)
    assert code == "FLEX-1722"
    assert "no free /27" in message
    assert refused(keeper, gateway_subnet_cidr="10.9.0.0/27")[0] == "FLEX-1722"
    assert writes(azure) == []
    azure.settings(cluster_subnet_id="")
    code, message = refused(keeper)
    assert (code, "flexnode_vpn_vnet_id" in message) == ("FLEX-1722", True)
    assert refused(keeper, vnet_id=f"{VNET}x")[0] == "FLEX-1703"


def test_what_azure_says_reaches_the_user(azure: PlainAzure, keeper: Person) -> None:
    azure.settings(gateway_sku_unavailable="VpnGw2AZ")
    code, message = refused(keeper)
    assert code == "FLEX-1704"
    assert "SkuNotAvailable" in message
    azure.settings(gateway_sku_unavailable="", gateway_failure="InternalServerError")
    code, message = refused(keeper)
    assert code == "FLEX-1704"
    assert "could not finish it" in message
    assert "InternalServerError" in message
    azure.settings(gateway_failure="")
    done_now = done(keeper)
    assert "its last change failed" in " ".join(done_now["actions"])
    assert not done(keeper)["changed"]


def test_a_missing_role_is_named(person: Callable[..., Person], owner: Owner) -> None:
    owner.vnet(("nodes", "10.224.0.0/24"))
    code, message = refused(person("Reader"))
    assert code == "FLEX-1702"
    assert f'--role "Network Contributor" --scope {GROUP}' in message


def test_busy_answers_are_tried_again(azure: PlainAzure, keeper: Person) -> None:
    azure.fail(Fault("virtualNetworkGateways", times=3, status=429, retry_after=0))
    done(keeper, machines=["edge-1"])


def test_two_runs_at_once_are_one_after_the_other(azure: PlainAzure, keeper: Person) -> None:
    """As job slices of AWX do: both machines are in the record, and the gateway is made once."""
    azure.forget_requests()
    answers: dict[str, dict[str, Any]] = {}

    def run(node: str) -> None:
        directory = keeper.directory / node
        directory.mkdir()
        other = Person(keeper.bed, keeper.principal, directory)
        answers[node] = done(other, machines=[node], directory=str(keeper.directory / "vpn"))

    threads = [threading.Thread(target=run, args=(node,)) for node in ("edge-1", "edge-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writes(azure).count("PUT virtualNetworkGateways/flexnode-vpn") == 1
    info = keeper.do(
        "flexnode_vpn_gateway_info", cluster_id=CLUSTER_ID, directory=str(keeper.directory / "vpn")
    )
    assert [one["node"] for one in info["certificates"]] == ["edge-1", "edge-2"]
    assert info["gateway"]["provisioning_state"] == "Succeeded"
    assert "PRIVATE" not in json.dumps(info)


def test_a_planted_network_is_the_cluster_s(azure: PlainAzure, keeper: Person) -> None:
    """How end-to-end tests get theirs: without a client of the SDK."""
    azure.forget_network()
    azure.set_network("10.60.0.0/16", "lab", nodes="10.60.0.0/24")
    made = done(keeper, machines=["edge-1"])
    assert made["gateway"]["vnet_id"].endswith("/virtualNetworks/lab")
    assert azure.vpn()["routes"] == ["10.60.0.0/16"]


def test_nothing_to_show_yet(keeper: Person) -> None:
    options: dict[str, Any] = {"cluster_id": CLUSTER_ID, "directory": str(keeper.directory / "vpn")}
    found = keeper.do("flexnode_vpn_gateway_info", **options)
    assert (found["gateway"], found["certificates"]) == ({}, [])
    assert not done(keeper, gone=["edge-1"])["changed"], "without a gateway there is nothing to revoke"
