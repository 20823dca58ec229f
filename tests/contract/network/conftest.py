# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The emulated Azure as a process of its own: networks need no cluster, and no container."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from azure.mgmt.network import NetworkManagementClient

from testbed.azure import Azure, Principal
from testbed.azure.serving import place
from testbed.basics.clock import wait_for
from testbed.layout.identifiers import (
    CLUSTER_ID,
    LOCATION,
    NODE_RESOURCE_GROUP,
    SUBSCRIPTION_ID,
    TENANT_ID,
)
from testbed.layout.pki import Authority
from tests.contract.modules.conftest import Person
from tests.contract.sdk import Sdk

ROOT = Path(__file__).parents[3]
GROUP = f"/subscriptions/{SUBSCRIPTION_ID}/resourceGroups/testbed"
VNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/plant"
GATEWAY = f"{GROUP}/providers/Microsoft.Network/virtualNetworkGateways/flexnode-vpn"
SUBNET = f"{VNET}/subnets/nodes"
PASSPHRASE = "Pl4nted-vpn-passphrase"
START_SECONDS = 30


class PlainAzure(Azure):
    """The same Azure without a testbed around it: it knows of a cluster that nobody reaches."""

    def __init__(self, directory: Path, url: str, key: str, ca_file: Path) -> None:
        self._plain_url, self._plain_key = url, key
        self.ca_file, self._directory = ca_file, directory
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(ca_file)

    @property
    def url(self) -> str:
        """Where it listens."""
        return self._plain_url

    def environment(self, principal: Principal) -> dict[str, str]:
        """What a user would export to sign in as this principal."""
        return {
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION_ID,
            "AZURE_TENANT": TENANT_ID,
            "AZURE_CLIENT_ID": principal.client_id,
            "AZURE_SECRET": principal.secret,
            "AZURE_AUTHORITY_HOST": self.url,
            "AZURE_RESOURCE_MANAGER_ENDPOINT": self.url,
            "REQUESTS_CA_BUNDLE": str(self.ca_file),
        }

    def _key(self) -> str:
        return self._plain_key


@dataclass(frozen=True)
class PlainBed:
    """As much of a testbed as people need who run modules."""

    azure: PlainAzure


def free_port() -> int:
    """A port that no client or server of another test is given by the kernel before ours listens."""
    while True:
        port = 20000 + secrets.randbelow(10000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


@pytest.fixture(scope="session")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlainAzure]:
    """A running emulator; it ends with the tests."""
    directory = tmp_path_factory.mktemp("azure")
    authority = Authority(directory / "pki", "testbed", "testbed")
    authority.ensure()
    pair = authority.issue("azure", "azure", names=["127.0.0.1"])
    (directory / "tls.crt").write_bytes(pair.cert.read_bytes())
    (directory / "tls.key").write_bytes(pair.key.read_bytes())
    (directory / "ca.crt").write_bytes(authority.pair.cert.read_bytes())
    cluster = directory / "cluster"
    cluster.mkdir()
    for name in ("provider.crt", "provider.key", "ca.crt", "admin.kubeconfig"):
        (cluster / name).write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
    port = free_port()
    url, key = f"https://127.0.0.1:{port}", secrets.token_urlsafe(24)
    here = place.Place(
        origin=url,
        tenant_id=TENANT_ID,
        subscription_id=SUBSCRIPTION_ID,
        cluster_id=CLUSTER_ID,
        location=LOCATION,
        node_resource_group=NODE_RESOURCE_GROUP,
        control_key=key,
        kubernetes=place.Kubernetes(
            version="1.34.4",
            server="https://127.0.0.1:9",
            ca_pem=authority.pem,
            service_cidr="10.96.0.0/16",
            pod_cidr="10.244.0.0/16",
            dns_service_ip="10.96.0.10",
        ),
        blob=place.BlobAccount("https://127.0.0.1:9/testbed", "testbed", "dGVzdGJlZA=="),
    )
    (directory / place.FILE).write_text(here.text())
    program = ROOT / "testbed/azure/serving/start.py"
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", str(program), str(directory), str(port)],
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    azure = PlainAzure(directory, url, key, authority.pair.cert)

    def answers() -> bool:
        with contextlib.suppress(requests.RequestException):
            answer = azure._session.get(f"{url}/_testbed/ready", headers={"X-Testbed-Key": key}, timeout=5)
            return answer.ok
        assert server.poll() is None, (directory / "log").read_text()
        return False

    try:
        wait_for("the emulated Azure", answers, START_SECONDS)
        yield azure
    finally:
        server.kill()  # it would wait for connections that clients keep open
        server.wait(10)


@pytest.fixture
def azure(plain: PlainAzure) -> Iterator[PlainAzure]:
    """Azure without faults and networks, with quick gateways and an empty record."""
    plain.behave()
    plain.settings(cluster_subnet_id=SUBNET, gateway_seconds=0.6, gateway_update_seconds=0.3)
    plain.forget_network()
    yield plain
    plain.behave()


@dataclass(frozen=True)
class Owner:
    """An administrator of the network: the SDK's own client, with its models."""

    client: NetworkManagementClient

    def vnet(self, *subnets: tuple[str, str], space: str = "10.224.0.0/16", **more: Any) -> Any:
        """Make the VNet of the cluster."""
        named = [{"name": name, "properties": {"addressPrefix": prefix}} for name, prefix in subnets]
        known = {"addressSpace": {"addressPrefixes": [space]}, "subnets": named, **more}
        body: Any = {"location": LOCATION, "properties": known}
        return self.client.virtual_networks.begin_create_or_update("testbed", "plant", body).result()


@pytest.fixture
def owner(azure: PlainAzure) -> Iterator[Owner]:
    """Somebody who may do everything with networks."""
    principal = azure.app_registration("network owner")
    azure.grant(principal, "Network Contributor", GROUP)
    yield Owner(client_of(azure, principal))
    azure.revoke(principal)


def client_of(azure: PlainAzure, principal: Principal) -> NetworkManagementClient:
    """The SDK's client as a principal; it polls without a pause."""
    sdk = Sdk(azure, principal, azure.ca_file)
    return NetworkManagementClient(sdk.credential, SUBSCRIPTION_ID, polling_interval=0, **sdk.where)


@pytest.fixture
def person(
    azure: PlainAzure, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Person]]:
    """People who run modules, with roles on the cluster's resource group."""
    made: list[Principal] = []

    def make(*roles: str) -> Person:
        principal = azure.app_registration(f"{request.node.name}-{len(made)}")
        made.append(principal)
        for role in roles:
            azure.grant(principal, role, GROUP)
        return Person(PlainBed(azure), principal, tmp_path)  # type: ignore[arg-type]

    yield make
    for one in made:
        azure.revoke(one)
        azure.remove_registration(one.name)


@pytest.fixture
def keeper(person: Callable[..., Person], owner: Owner) -> Person:
    """Somebody with the roles of docs/permissions.md, and a VNet for the cluster."""
    owner.vnet(("nodes", "10.224.0.0/24"))
    return person("Network Contributor", "Azure Kubernetes Service Cluster User Role")
