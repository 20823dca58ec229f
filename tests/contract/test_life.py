# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a bootstrap token: one join uses it, and then nothing of it is any good."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testbed import Testbed
from testbed.azure import Azure
from testbed.basics.clock import wait_for
from testbed.cluster.api import Api
from testbed.layout.pki import Pair, private_key_pem
from tests.contract.conftest import Worker
from tests.contract.sdk import Sdk
from tests.contract.test_flexnode import PROPERTIES, fetch, token_of, tokens

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SECONDS = 60


@dataclass
class Machine:
    """A machine that joins as a kubelet does: it asks for a certificate, waits for it, registers its Node."""

    bed: Testbed
    name: str
    directory: Path

    def ask(self, token: str) -> str:
        """Ask for a certificate with a bootstrap token; the request's name."""
        key = ec.generate_private_key(ec.SECP256R1())
        (self.directory / "key").write_bytes(private_key_pem(key))
        subject = x509.Name(
            [
                x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
                x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{self.name}"),
            ]
        )
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        document = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"generateName": "node-csr-"},
            "spec": {
                "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"],
            },
        }
        return str(self._api(token=token).post(REQUESTS, document)["metadata"]["name"])

    def wait(self, token: str, request: str) -> None:
        """Wait for the certificate, as a kubelet does with the same token."""
        api = self._api(token=token)
        found: dict[str, Any] = {}

        def issued() -> bool:
            found.update(api.get(f"{REQUESTS}/{request}").get("status", {}))
            return bool(found.get("certificate"))

        wait_for("the certificate", issued, SECONDS)
        (self.directory / "cert").write_bytes(base64.b64decode(found["certificate"]))

    def register(self) -> None:
        """Be a Node."""
        pair = Pair(self.directory / "cert", self.directory / "key")
        self._api(pair).post("/api/v1/nodes", {"metadata": {"name": self.name}})

    def _api(self, pair: Pair | None = None, token: str | None = None) -> Api:
        authority = self.directory / "ca"
        authority.write_text(self.bed.cluster.ca_pem)
        return Api(self.bed.cluster.server, authority, pair, token=token)


@pytest.fixture
def machine(bed: Testbed, sdk: Worker, tmp_path: Path) -> Iterator[Machine]:
    name = f"contract-{time.time_ns()}"
    yield Machine(bed, name, tmp_path)
    clients = sdk("Contributor")
    clients.send("DELETE", clients.node(name))
    bed.cluster.kubectl("delete", "node", name, "--ignore-not-found")


def wait_for_end(bed: Testbed, token: str) -> None:
    """Wait until a token is gone; the API server may believe what it saw for ten seconds more."""
    wait_for("the end of the token", lambda: token.partition(".")[0] not in tokens(bed), SECONDS)


def invite(clients: Sdk, bed: Testbed, name: str, properties: Any = None) -> tuple[str, str]:
    """(URL, token) of a node."""
    url = clients.put(name, properties, configUrl="true").json()["properties"]["configUrl"]
    return str(url), str(fetch(bed, url).json()["config"]["azure"]["bootstrapToken"]["token"])


def test_one_join_uses_up_url_and_token(bed: Testbed, azure: Azure, sdk: Worker, machine: Machine) -> None:
    clients = sdk("Contributor")
    url, token = invite(clients, bed, machine.name)
    request = machine.ask(token)
    wait_for("the end of the URL", lambda: fetch(bed, url).status_code == 403, SECONDS)
    assert bed.cluster.whoami(token), "the join that has begun needs its token"
    machine.wait(token, request)
    machine.register()
    wait_for_end(bed, token)
    assert azure.invitations()[-1]["state"] == "closed"


def test_a_join_that_stops_half_way_ends_in_time(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Machine
) -> None:
    azure.settings(join_seconds=1)
    url, token = invite(sdk("Contributor"), bed, machine.name)
    machine.ask(token)
    wait_for_end(bed, token)
    assert fetch(bed, url).status_code == 403


def test_after_a_failed_join_a_new_token_joins(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Machine
) -> None:
    azure.settings(join_seconds=1)
    clients = sdk("Contributor")
    _, token = invite(clients, bed, machine.name)
    machine.ask(token)
    wait_for_end(bed, token)
    azure.settings()
    answer = clients.send("POST", f"{clients.node(machine.name)}/regenerateToken", {}).json()
    fresh = str(fetch(bed, answer["configUrl"]).json()["config"]["azure"]["bootstrapToken"]["token"])
    machine.wait(fresh, machine.ask(fresh))
    machine.register()
    wait_for_end(bed, fresh)


def test_what_nobody_uses_expires(bed: Testbed, azure: Azure, sdk: Worker, machine: Machine) -> None:
    azure.settings(bootstrap_token_seconds=10)
    url, token = invite(sdk("Contributor"), bed, machine.name)
    wait_for_end(bed, token)
    wait_for("the end of the URL", lambda: fetch(bed, url).status_code == 403, SECONDS)


def test_a_kubelet_with_an_azure_identity_gets_no_token(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Machine
) -> None:
    clients = sdk("Contributor")
    properties = {**PROPERTIES, "kubernetesAuth": {"useAzureAuth": True}}
    url = clients.put(machine.name, properties, configUrl="true").json()["properties"]["configUrl"]
    assert "bootstrapToken" not in fetch(bed, url).json()["config"]["azure"]
    bed.cluster.api().post("/api/v1/nodes", {"metadata": {"name": machine.name}})
    wait_for("the end of the URL", lambda: fetch(bed, url).status_code == 403, SECONDS)


def test_a_later_invitation_survives_the_end_of_an_earlier(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Machine
) -> None:
    clients = sdk("Contributor")
    _, token = invite(clients, bed, machine.name)
    request = machine.ask(token)
    wait_for("the first use", lambda: azure.invitations()[-1]["state"] == "used", SECONDS)
    url, second = invite(clients, bed, machine.name)
    machine.wait(token, request)
    machine.register()
    wait_for_end(bed, token)
    assert token_of(fetch(bed, url)) == second.partition(".")[0]
    assert bed.cluster.whoami(second)
