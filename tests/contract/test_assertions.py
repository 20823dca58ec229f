# SPDX-License-Identifier: GPL-3.0-or-later
"""Entra ID: a certificate signs for a service principal, by the Azure SDK's hand and by the node's own."""

from __future__ import annotations

import base64
import datetime
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import CertificateCredential
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.assertion import CertificateFile
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import IdentityRefused
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.service_principal import (
    ServicePrincipal,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import Clock, SystemClock
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from testbed import Testbed
from testbed.azure import Azure, Principal
from testbed.basics.errors import TestbedError
from testbed.layout.identifiers import AKS_SERVER
from tests.contract.sdk import SCOPE

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Signer:
    """An RSA key with its certificate, as a user would make them."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    @classmethod
    def made(cls, ends: datetime.timedelta = DAY) -> Signer:
        """A new one, self-signed."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "edge")])
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - 7 * DAY).not_valid_after(now + ends)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @property
    def pem(self) -> str:
        """The certificate alone: what is registered."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def both(self) -> bytes:
        """Key and certificate: what the machine has."""
        form = serialization.PrivateFormat.PKCS8
        key = self.key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        return key + self.pem.encode()

    def assertion(self, azure: Azure, client_id: str, **changes: Any) -> str:
        """A signed statement, with some of its claims changed."""
        now = int(time.time())
        claims = {
            "aud": f"{azure.url}/{azure.tenant_id}/oauth2/v2.0/token",
            "iss": client_id,
            "sub": client_id,
            "jti": str(uuid.uuid4()),
            "nbf": now - 60,
            "exp": now + 600,
        }
        digest = base64.urlsafe_b64encode(self.certificate.fingerprint(hashes.SHA256())).rstrip(b"=").decode()
        kept = {name: value for name, value in {**claims, **changes}.items() if value is not None}
        return jwt.encode(kept, self.key, "RS256", {"x5t#S256": digest})


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.made()


@pytest.fixture
def registered(azure: Azure, principal: Principal, signer: Signer) -> Principal:
    """The principal of this test, for which the certificate may sign."""
    return azure.app_registration(principal.name, certificate=signer.pem)


@pytest.fixture
def ask(bed: Testbed, azure: Azure) -> Callable[..., dict[str, Any]]:
    """A plain request for a token."""

    def send(client_id: str, assertion: str, **form: str) -> dict[str, Any]:
        whole = {
            "grant_type": "client_credentials",
            "client_id": client_id,
            "scope": SCOPE,
            "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
            "client_assertion": assertion,
            **form,
        }
        url = f"{azure.url}/{azure.tenant_id}/oauth2/v2.0/token"
        answer: dict[str, Any] = requests.post(url, data=whole, timeout=10, verify=str(bed.ca_file)).json()
        return answer

    return send


def sdk_credential(bed: Testbed, azure: Azure, client_id: str, signer: Signer) -> CertificateCredential:
    return CertificateCredential(
        azure.tenant_id,
        client_id,
        certificate_data=signer.both,
        authority=azure.url,
        disable_instance_discovery=True,
        connection_verify=str(bed.ca_file),
    )


class Yesterday(SystemClock):
    """A clock that is a day behind."""

    def now(self) -> float:
        return super().now() - 86400


def node_credential(
    bed: Testbed, azure: Azure, client_id: str, signer: Signer, directory: Path, clock: Clock | None = None
) -> ServicePrincipal:
    """What a node makes of azure.servicePrincipal.clientCertificateFile."""
    file = directory / "principal.pem"
    file.write_bytes(signer.both)
    file.chmod(0o600)
    host = Host(clock=clock)
    proof = CertificateFile(host, str(file))
    return ServicePrincipal(
        client_id, azure.tenant_id, proof, azure.url, host, lambda _hurry: HttpClient(ca_pem=bed.ca_pem)
    )


def test_the_sdks_credential_is_accepted(
    bed: Testbed, azure: Azure, registered: Principal, signer: Signer
) -> None:
    credential = sdk_credential(bed, azure, registered.client_id, signer)
    token = credential.get_token(f"{AKS_SERVER}/.default").token
    assert bed.cluster.whoami(token) == registered.object_id


def test_the_nodes_own_credential_is_accepted(
    bed: Testbed, azure: Azure, registered: Principal, signer: Signer, tmp_path: Path
) -> None:
    own = node_credential(bed, azure, registered.client_id, signer, tmp_path)
    token = own.issue(AKS_SERVER, hurry=True).value.reveal()
    assert bed.cluster.whoami(token) == registered.object_id


def test_a_secret_still_does(azure: Azure, registered: Principal, ask: Callable[..., dict[str, Any]]) -> None:
    assert ask(registered.client_id, "", client_secret=registered.secret)["access_token"]
    assert ask(registered.client_id, "")["error_codes"] == [7000218]


def test_a_certificate_of_somebody_else_is_refused(
    bed: Testbed, azure: Azure, registered: Principal, tmp_path: Path
) -> None:
    """Its own key, and its own name in the header."""
    other = Signer.made()
    with pytest.raises(ClientAuthenticationError, match="AADSTS700027"):
        sdk_credential(bed, azure, registered.client_id, other).get_token(SCOPE)
    with pytest.raises(IdentityRefused, match="AADSTS700027") as refused:
        node_credential(bed, azure, registered.client_id, other, tmp_path).issue(AKS_SERVER, hurry=True)
    assert "clientCertificateFile" in refused.value.fix


def test_a_wrong_key_under_the_right_name_is_refused(
    azure: Azure, registered: Principal, signer: Signer, ask: Callable[..., dict[str, Any]]
) -> None:
    """The signature is what counts: the certificate is public."""
    forger = Signer(Signer.made().key, signer.certificate)
    answer = ask(registered.client_id, forger.assertion(azure, registered.client_id))
    assert answer["error"] == "invalid_client"
    assert answer["error_codes"] == [700027]
    assert "access_token" not in answer
    assert ask(registered.client_id, signer.assertion(azure, registered.client_id))["access_token"]


@pytest.mark.parametrize(
    ("times", "changes", "number"),
    [
        ({"exp": -3600}, {}, 700024),
        ({"nbf": 3600, "exp": 7200}, {}, 700024),
        ({}, {"aud": "https://login.microsoftonline.com/common/oauth2/v2.0/token"}, 700023),
        ({}, {"sub": "00000000-0000-0000-0000-000000000000"}, 700021),
        ({}, {"iss": "00000000-0000-0000-0000-000000000000"}, 700021),
        ({}, {"exp": None}, 50027),
    ],
)
def test_what_is_signed_has_to_be_true(
    azure: Azure,
    registered: Principal,
    signer: Signer,
    ask: Callable[..., dict[str, Any]],
    times: dict[str, int],
    changes: dict[str, Any],
    number: int,
) -> None:
    """times are seconds from now on."""
    now = int(time.time())
    changes = {**changes, **{name: now + seconds for name, seconds in times.items()}}
    answer = ask(registered.client_id, signer.assertion(azure, registered.client_id, **changes))
    assert answer["error_codes"] == [number]


def test_a_clock_that_is_wrong_is_what_the_node_says(
    bed: Testbed, azure: Azure, registered: Principal, signer: Signer, tmp_path: Path
) -> None:
    own = node_credential(bed, azure, registered.client_id, signer, tmp_path, Yesterday())
    with pytest.raises(IdentityRefused, match="AADSTS700024") as refused:
        own.issue(AKS_SERVER, hurry=True)
    assert "timedatectl" in refused.value.fix


def test_certificates_end_and_go_with_their_application(
    azure: Azure, principal: Principal, signer: Signer, ask: Callable[..., dict[str, Any]]
) -> None:
    old = Signer.made(ends=-DAY)
    azure.app_registration(principal.name, certificate=old.pem)
    assert ask(principal.client_id, old.assertion(azure, principal.client_id))["error_codes"] == [700027]
    azure.app_registration(principal.name, certificate=signer.pem)
    assert ask(principal.client_id, signer.assertion(azure, principal.client_id))["access_token"]
    azure.remove_registration(principal.name)
    again = azure.app_registration(principal.name)
    assert ask(again.client_id, signer.assertion(azure, again.client_id))["error_codes"] == [700027]


def test_only_rsa_certificates_are_registered(bed: Testbed, azure: Azure, principal: Principal) -> None:
    with pytest.raises(TestbedError, match="RSA"):
        azure.app_registration(principal.name, certificate=bed.ca_pem)
