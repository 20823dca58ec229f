# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The three sources of tokens against real HTTP servers that speak their protocols, and attacks on them."""

from __future__ import annotations

import base64
import contextlib
import datetime
import hashlib
import json
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.assertion import CertificateFile
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.cache import Cached
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.choice import (
    AKS,
    audience_for,
    identity_for,
    method_for,
    proof_of,
    source_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import (
    ChallengeInvalid,
    CredentialUnusable,
    IdentityMissing,
    IdentityRefused,
    TokenSourceUnreachable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.himds import TOKENS, ArcMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.imds import InstanceMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.local_http import NoAnswer, ask
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.service_principal import (
    Proof,
    SecretFile,
    SecretText,
    ServicePrincipal,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import run_command
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.unit.node.config.test_samples import CLIENT, PRINCIPAL, TENANT, joining
from tests.unit.node.fakes import FakeClock, Machine
from tests.unit.node.servers import Answer, Pki, Request, Server, answer_json, serving

ARM = "https://management.azure.com/"
GOOD = answer_json({"access_token": "t0ken", "expires_in": "3600", "token_type": "Bearer"})
SECRET = "s3cret~of the+principal"


def query(request: Request) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.path).query))


def form(request: Request) -> dict[str, str]:
    return dict(urllib.parse.parse_qsl(request.body.decode()))


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


# -- IMDS --------------------------------------------------------------------------------------------------


def imds(server: Server, clock: FakeClock, client_id: str | None = None) -> InstanceMetadata:
    return InstanceMetadata(client_id, clock, endpoint=f"{server.url}/metadata/identity/oauth2/token")


@pytest.mark.parametrize("client_id", [None, CLIENT])
def test_imds_is_asked_as_azure_wants_it(client_id: str | None) -> None:
    with serving(lambda _: GOOD) as server:
        issued = imds(server, FakeClock(), client_id).issue(ARM, hurry=False)
    assert (issued.value.reveal(), issued.seconds) == ("t0ken", 3600)
    (request,) = server.requests
    assert request.headers["Metadata"] == "true"
    assert query(request) == {
        "api-version": "2018-02-01",
        "resource": ARM,
        **({"client_id": client_id} if client_id else {}),
    }


@pytest.mark.parametrize(
    ("status", "naps"),
    [
        (404, [0.8, 1.6]),
        (429, [0.8, 1.6]),
        (500, [0.8, 1.6]),
        (503, [0.8, 1.6]),
        (410, [3.0, 6.0]),
    ],
)
def test_imds_troubles_that_pass_are_waited_for(status: int, naps: list[float]) -> None:
    clock = FakeClock()
    with serving(in_turn(Answer(status=status), Answer(status=status), GOOD)) as server:
        assert imds(server, clock).issue(ARM, hurry=False).seconds == 3600
    assert clock.naps == naps


def test_an_update_of_imds_is_waited_for_70_seconds_at_least() -> None:
    clock = FakeClock()
    with serving(lambda _: Answer(status=410)) as server, pytest.raises(TokenSourceUnreachable):
        imds(server, clock).issue(ARM, hurry=False)
    assert sum(clock.naps) >= 70


@pytest.mark.parametrize("status", [404, 410, 429, 500])
def test_in_a_hurry_imds_is_asked_once(status: int) -> None:
    clock = FakeClock()
    with (
        serving(lambda _: Answer(status=status)) as server,
        pytest.raises((TokenSourceUnreachable, IdentityMissing)),
    ):
        imds(server, clock).issue(ARM, hurry=True)
    assert (len(server.requests), clock.naps) == (1, [])


def test_an_identity_that_is_not_on_this_vm() -> None:
    refusal = answer_json({"error": "invalid_request", "error_description": "Identity not found"}, 400)
    with serving(lambda _: refusal) as server, pytest.raises(IdentityMissing) as raised:
        imds(server, FakeClock(), CLIENT).issue(ARM, hurry=False)
    assert "Identity not found" in raised.value.why
    assert "az vm identity assign" in raised.value.fix


def test_a_machine_without_imds() -> None:
    clock = FakeClock()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/t"
    with pytest.raises(TokenSourceUnreachable, match="refused") as raised:
        InstanceMetadata(None, clock, endpoint=url).issue(ARM, hurry=False)
    assert "azure.arc.enabled" in raised.value.fix
    assert sum(clock.naps) < 10  # nobody to wait for


def test_imds_never_follows_a_redirect() -> None:
    with serving(lambda _: GOOD) as other:
        elsewhere = Answer(status=302, headers={"Location": f"{other.url}/t"})
        with serving(lambda _: elsewhere) as server, pytest.raises(IdentityRefused):
            imds(server, FakeClock()).issue(ARM, hurry=False)
    assert other.requests == []


# -- HIMDS -------------------------------------------------------------------------------------------------

Challenge = Callable[[Machine, int], str]


class Himds:
    """The agent's metadata service: names a file in its first answer, and wants its content in the second."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.header = "Www-Authenticate"
        self.realm = "Basic realm={path}"
        self.content = "ch4llenge+of/the=agent"
        self.troubles: list[Answer] = []
        self.number = 0
        machine.path(TOKENS).mkdir(parents=True, exist_ok=True)
        machine.path(TOKENS).chmod(0o750)

    def __call__(self, request: Request) -> Answer:
        if self.troubles:
            return self.troubles.pop(0)
        headers = {name.lower(): value for name, value in request.headers.items()}
        if headers.get("metadata") != "true":
            return Answer(status=403)
        path = f"{TOKENS}/{self.number}.key"
        if "authorization" not in headers:
            self.number += 1
            path = f"{TOKENS}/{self.number}.key"
            self.machine.put(path, self.content, 0o440)
            return Answer(status=401, headers={self.header: self.realm.format(path=path)})
        self.machine.path(path).unlink()
        return GOOD if headers["authorization"] == f"Basic {self.content.strip()}" else Answer(status=401)


@contextmanager
def arc(machine: Machine, himds: Callable[[Request], Answer]) -> Iterator[tuple[ArcMetadata, Server]]:
    with serving(himds) as server:
        endpoint = f"{server.url}/metadata/identity/oauth2/token"
        yield ArcMetadata(machine.host, endpoint=endpoint), server


@pytest.mark.parametrize("header", ["Www-Authenticate", "WWW-Authenticate", "www-authenticate"])
@pytest.mark.parametrize("realm", ["Basic realm={path}", 'basic realm="{path}"', "Basic  Realm={path} "])
def test_the_challenge_is_answered(machine: Machine, header: str, realm: str) -> None:
    himds = Himds(machine)
    himds.header, himds.realm, himds.content = header, realm, "ch4llenge\n"
    with arc(machine, himds) as (identity, server):
        assert identity.issue(AKS, hurry=False).value == Secret("t0ken")
    first, second = server.requests
    assert query(first) == query(second) == {"api-version": "2020-06-01", "resource": AKS}
    assert "Authorization" not in first.headers


def named(path: str) -> Callable[[Request], Answer]:
    return lambda _: Answer(status=401, headers={"Www-Authenticate": f"Basic realm={path}"})


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/ssl/private/site.key",
        f"{TOKENS}/../agentconfig.key",
        f"{TOKENS}/../tokens/1.key",
        f"{TOKENS}//1.key",
        f"{TOKENS}/./1.key",
        f"{TOKENS}/below/1.key",
        f"{TOKENS}/1.pem",
        f"{TOKENS}/1.key.pem",
        f"{TOKENS}/.key",
        f"{TOKENS}/..key",
        f"{TOKENS}/",
        f"{TOKENS}x/1.key",
        "1.key",
        "tokens/1.key",
        f"//{TOKENS}/1.key",
        f"{TOKENS}/1%2fkey.key",
        f"{TOKENS}/absent.key",
    ],
)
def test_no_other_file_is_ever_read(machine: Machine, path: str) -> None:
    himds = Himds(machine)
    for place in ("/etc/shadow", "/etc/ssl/private/site.key", "/var/opt/azcmagent/agentconfig.key"):
        machine.put(place, "root:secret", 0o600)
    for place in ("1.key", "1.pem", "1.key.pem", ".key", "..key", "below/1.key"):
        machine.put(f"{TOKENS}/{place}", "ch4llenge")
    del himds
    with arc(machine, named(path)) as (identity, server), pytest.raises(ChallengeInvalid) as raised:
        identity.issue(AKS, hurry=False)
    assert len(server.requests) == 1  # nothing was told to whoever listens there
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("header", ["", "Basic", "Basic realm=", "Bearer realm=/x", "Basic realm=a b"])
def test_a_challenge_without_a_file(machine: Machine, header: str) -> None:
    answer = Answer(status=401, headers={"WWW-Authenticate": header})
    with arc(machine, lambda _: answer) as (identity, _server), pytest.raises(ChallengeInvalid):
        identity.issue(AKS, hurry=False)


def link_of(file: Path) -> None:
    file.symlink_to("/etc/hostname")


def hard_link_of(file: Path) -> None:
    other = file.with_name("other")
    other.write_text("x")
    os.link(other, file)


@pytest.mark.parametrize(
    "make",
    [
        link_of,
        hard_link_of,
        lambda file: file.mkdir(),
        lambda file: os.mkfifo(file),
        lambda file: file.write_bytes(b"x" * 4097),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"a\r\nX-Injected: 1"),
        lambda file: file.write_bytes(b"a b"),
        lambda file: file.write_bytes("geh\xe9im".encode()),
    ],
    ids=["link", "hard link", "directory", "pipe", "too big", "empty", "header", "space", "not ascii"],
)
def test_what_is_not_a_small_plain_file_is_refused(machine: Machine, make: Callable[[Path], object]) -> None:
    Himds(machine)
    make(machine.path(f"{TOKENS}/1.key"))
    with arc(machine, named(f"{TOKENS}/1.key")) as (identity, server), pytest.raises(ChallengeInvalid):
        identity.issue(AKS, hurry=False)
    assert len(server.requests) == 1


def test_the_directory_itself_must_not_be_a_link(machine: Machine) -> None:
    machine.put("/tmp/mine/1.key", "x")
    machine.path("/var/opt/azcmagent").mkdir(parents=True)
    machine.path(TOKENS).symlink_to(machine.path("/tmp/mine"))
    with arc(machine, named(f"{TOKENS}/1.key")) as (identity, _server), pytest.raises(ChallengeInvalid):
        identity.issue(AKS, hurry=False)


def test_the_largest_challenge(machine: Machine) -> None:
    himds = Himds(machine)
    himds.content = "x" * 4096
    with arc(machine, himds) as (identity, _server):
        assert identity.issue(AKS, hurry=False).seconds == 3600


def test_an_agent_that_restarts_is_waited_for(machine: Machine) -> None:
    himds = Himds(machine)
    himds.troubles = [Answer(status=500), Answer(status=503), Answer(status=429)]
    with arc(machine, himds) as (identity, _server):
        assert identity.issue(AKS, hurry=False).seconds == 3600
    assert machine.clock.naps == [0.5, 1.0, 2.0]


def test_a_wrong_challenge_is_tried_anew_and_then_told(machine: Machine) -> None:
    himds = Himds(machine)

    def forgetful(request: Request) -> Answer:
        answer = himds(request)
        return Answer(status=401) if answer is GOOD else answer

    with arc(machine, forgetful) as (identity, server), pytest.raises(TokenSourceUnreachable) as raised:
        identity.issue(AKS, hurry=False)
    assert len(server.requests) == 10
    assert "himdsd" in raised.value.fix
    assert himds.content not in str(raised.value)


def test_in_a_hurry_the_agent_is_asked_once(machine: Machine) -> None:
    with arc(machine, lambda _: Answer(status=500)) as (identity, server):
        with pytest.raises(TokenSourceUnreachable):
            identity.issue(AKS, hurry=True)
        assert (len(server.requests), machine.clock.naps) == (1, [])


def test_no_agent_at_all(machine: Machine) -> None:
    identity = ArcMetadata(machine.host, endpoint="http://127.0.0.1:9/t")
    with pytest.raises(TokenSourceUnreachable, match="refused"):
        identity.issue(AKS, hurry=False)


def test_a_machine_that_is_not_registered(machine: Machine) -> None:
    refusal = answer_json({"error": "not_connected"}, 404)
    with arc(machine, lambda _: refusal) as (identity, _server), pytest.raises(IdentityMissing) as raised:
        identity.issue(AKS, hurry=False)
    assert "arc register" in raised.value.fix


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254/t", "https://127.0.0.1/t", "http://evil/t", "x"]
)
def test_the_agent_is_on_this_machine(machine: Machine, endpoint: str) -> None:
    with pytest.raises(ChallengeInvalid):
        ArcMetadata(machine.host, endpoint=endpoint).issue(AKS, hurry=False)


# -- service principal -------------------------------------------------------------------------------------


def principal(server: Server, pki: Pki, host: Host, proof: Proof) -> ServicePrincipal:
    def connect(hurry: bool) -> HttpClient:
        return HttpClient(ca_pem=pki.ca_pem, clock=host.clock, attempts=1 if hurry else 3)

    return ServicePrincipal(CLIENT, TENANT, proof, server.url, host, connect)


def test_a_secret_goes_into_the_body_and_nowhere_else(machine: Machine, pki: Pki) -> None:
    with serving(lambda _: GOOD, pki.server_context()) as server:
        identity = principal(server, pki, machine.host, SecretText(Secret(SECRET)))
        assert identity.issue(ARM, hurry=False).seconds == 3600
    (request,) = server.requests
    assert request.path == f"/{TENANT}/oauth2/v2.0/token"
    assert form(request) == {
        "grant_type": "client_credentials",
        "client_id": CLIENT,
        "client_secret": SECRET,
        "scope": "https://management.azure.com/.default",
    }
    assert machine.commands.calls == []
    assert SECRET not in identity.key + identity.name


def test_a_secret_file_is_read_each_time(machine: Machine, pki: Pki) -> None:
    machine.put("/etc/secret", "one\n")
    proof = SecretFile(machine.host, "/etc/secret")
    with serving(lambda _: GOOD, pki.server_context()) as server:
        identity = Cached(principal(server, pki, machine.host, proof), machine.host)
        identity.token(AKS)
        identity.token(AKS)
        machine.put("/etc/secret", "two\n")
        identity.token(AKS)  # rotated: not served from the cache of the old one
    assert [form(request)["client_secret"] for request in server.requests] == ["one", "two"]
    assert form(server.requests[0])["scope"] == f"{AKS}/.default"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_a_secret_file_without_a_secret(machine: Machine, content: str | None) -> None:
    if content is not None:
        machine.put("/etc/secret", content)
    with pytest.raises(CredentialUnusable, match="can't be read"):
        SecretFile(machine.host, "/etc/secret").fields(CLIENT, "https://x")


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("AADSTS7000215", "the secret is wrong"),
        ("AADSTS7000222", "expired"),
        ("AADSTS700016", "not in this tenant"),
        ("AADSTS90002", "no such tenant"),
        ("AADSTS700024", "clock"),
        ("AADSTS1", "check azure.servicePrincipal"),
    ],
)
def test_what_entra_refuses_is_explained(machine: Machine, pki: Pki, code: str, advice: str) -> None:
    refusal = {"error": "invalid_client", "error_description": f"{code}: no.\r\nTrace ID: 1"}
    with serving(lambda _: answer_json(refusal, 401), pki.server_context()) as server:
        identity = principal(server, pki, machine.host, SecretText(Secret(SECRET)))
        with pytest.raises(IdentityRefused) as raised:
            identity.issue(ARM, hurry=False)
    assert code in raised.value.why
    assert advice in raised.value.fix
    assert SECRET not in str(raised.value)
    assert len(server.requests) == 1


def test_an_outage_of_entra(machine: Machine, pki: Pki) -> None:
    with serving(lambda _: Answer(status=503), pki.server_context()) as server:
        identity = principal(server, pki, machine.host, SecretText(Secret(SECRET)))
        with pytest.raises(TokenSourceUnreachable, match="503"):
            identity.issue(ARM, hurry=False)
        assert len(server.requests) == 3
        with pytest.raises(TokenSourceUnreachable):
            identity.issue(ARM, hurry=True)
        assert len(server.requests) == 4


def test_an_entra_that_nobody_trusts(machine: Machine, pki: Pki) -> None:
    with serving(lambda _: GOOD, pki.server_context()) as server:
        identity = ServicePrincipal(
            CLIENT, TENANT, SecretText(Secret(SECRET)), server.url, machine.host, lambda _: HttpClient()
        )
        with pytest.raises(TokenSourceUnreachable) as raised:
            identity.issue(ARM, hurry=False)
    assert "update-ca-certificates" in raised.value.fix
    assert server.requests == []


# -- a certificate signs -----------------------------------------------------------------------------------


def certificate_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, tmp: Machine) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "principal")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def key_pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, password: bytes = b"") -> bytes:
    encryption: Any = (
        serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def signing(machine: Machine) -> Host:
    """A host that really runs openssl."""
    return Host(root=str(machine.root), runner=run_command, clock=machine.clock)


def decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_an_assertion_that_entra_can_verify(
    machine: Machine, signing: Host, pki: Pki, rsa_key: rsa.RSAPrivateKey
) -> None:
    pem = certificate_pem(rsa_key, machine)
    machine.put("/etc/principal.pem", key_pem(rsa_key) + pem, 0o600)
    with serving(lambda _: GOOD, pki.server_context()) as server:
        proof = CertificateFile(signing, "/etc/principal.pem")
        principal(server, pki, signing, proof).issue(ARM, hurry=False)
        endpoint = f"{server.url}/{TENANT}/oauth2/v2.0/token"
    fields = form(server.requests[0])
    assert "client_secret" not in fields
    assert fields["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    header, statement, signature = fields["client_assertion"].split(".")
    rsa_key.public_key().verify(
        decoded(signature), f"{header}.{statement}".encode(), padding.PKCS1v15(), hashes.SHA256()
    )
    der = x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)
    assert json.loads(decoded(header))["alg"] == "RS256"
    assert decoded(json.loads(decoded(header))["x5t#S256"]) == hashlib.sha256(der).digest()
    said = json.loads(decoded(statement))
    assert (said["aud"], said["iss"], said["sub"]) == (endpoint, CLIENT, CLIENT)
    assert said["exp"] - said["nbf"] == 900


def test_certificates_that_can_not_sign(machine: Machine, signing: Host, rsa_key: rsa.RSAPrivateKey) -> None:
    pem = certificate_pem(rsa_key, machine)
    elliptic = ec.generate_private_key(ec.SECP256R1())
    cases = {
        "it contains no certificate": key_pem(rsa_key),
        "can't sign": pem,
        "openssl": key_pem(rsa_key, b"password") + pem,
        "key": key_pem(elliptic) + certificate_pem(elliptic, machine),
        "missing": None,
    }
    for why, content in cases.items():
        if content is None:
            machine.path("/etc/principal.pem").unlink()
        else:
            machine.put("/etc/principal.pem", content, 0o600)
        with pytest.raises(CredentialUnusable) as raised:
            CertificateFile(signing, "/etc/principal.pem").fields(CLIENT, "https://x")
        assert why in raised.value.why
        assert "PRIVATE KEY" not in str(raised.value)


def test_a_machine_without_openssl(machine: Machine, rsa_key: rsa.RSAPrivateKey) -> None:
    machine.put("/etc/principal.pem", key_pem(rsa_key) + certificate_pem(rsa_key, machine))
    machine.commands.statuses["openssl"] = 127
    with pytest.raises(CredentialUnusable, match="can't be used") as raised:
        CertificateFile(machine.host, "/etc/principal.pem").fields(CLIENT, "https://x")
    assert "apt-get install openssl" in raised.value.fix


# -- which identity, for what ------------------------------------------------------------------------------

SERVICE = {"servicePrincipal": PRINCIPAL, "tenantId": TENANT}
BOOT = {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}
AT = {"targetCluster": {"location": "westeurope"}}


@pytest.mark.parametrize(
    ("azure", "more", "kubernetes", "node"),
    [
        (BOOT, {}, None, None),
        (SERVICE, {}, "servicePrincipal", "servicePrincipal"),
        ({"managedIdentity": {}, "tenantId": TENANT}, {}, "managedIdentity", "managedIdentity"),
        ({"arc": {"enabled": True}, "tenantId": TENANT, **AT}, {}, "arc", "arc"),
        ({**BOOT, "arc": {"enabled": True}, "tenantId": TENANT, **AT}, {}, None, "arc"),
        ({**SERVICE, "arc": {"enabled": True}, **AT}, {}, "arc", "arc"),
        (
            {**SERVICE, "managedIdentity": {"clientId": CLIENT}},
            {"kubernetesAuth": {"method": "servicePrincipal"}, "azureAuth": {"method": "managedIdentity"}},
            "servicePrincipal",
            "managedIdentity",
        ),
    ],
)
def test_kubelet_and_node_choose_apart(
    azure: dict[str, Any], more: dict[str, Any], kubernetes: str | None, node: str | None, machine: Machine
) -> None:
    config = parse(joining({"azure": {"bootstrapToken": None, **azure}, **more}))
    assert (method_for(config, "kubernetes"), method_for(config, "azure")) == (kubernetes, node)
    for purpose, method in (("kubernetes", kubernetes), ("azure", node)):
        assert purpose in ("kubernetes", "azure")
        if method is None:
            with pytest.raises(IdentityMissing):
                identity_for(config, machine.host, purpose)  # type: ignore[arg-type]
        else:
            assert identity_for(config, machine.host, purpose).name  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("azure", "purpose", "audience"),
    [
        ({}, "kubernetes", AKS),
        ({}, "azure", "https://management.azure.com/"),
        ({"cloud": "AzureChinaCloud"}, "azure", "https://management.chinacloudapi.cn/"),
        ({"resourceManagerEndpoint": "https://arm.local"}, "azure", "https://arm.local/"),
    ],
)
def test_who_a_token_is_for(azure: dict[str, Any], purpose: Any, audience: str) -> None:
    assert audience_for(parse(joining({"azure": azure})), purpose) == audience


def test_the_agents_own_environment_counts(machine: Machine) -> None:
    config = parse(joining({"azure": {"arc": {"enabled": True}, "tenantId": TENANT, **AT}}))
    environment = {"IDENTITY_ENDPOINT": "http://localhost:9/t"}
    assert source_of("arc", config, machine.host, environment).key.startswith("arc\0http://localhost:9/t\0")
    assert ":40342/metadata/identity/oauth2/token" in source_of("arc", config, machine.host, {}).key


def test_a_secret_that_is_only_marked_is_none(machine: Machine) -> None:
    marked = {**PRINCIPAL, "clientSecret": "<minted at apply>"}
    config = parse(
        joining({"azure": {"bootstrapToken": None, "servicePrincipal": marked, "tenantId": TENANT}})
    )
    with pytest.raises(CredentialUnusable):
        proof_of(config, machine.host)


# -- what nobody may get away with -------------------------------------------------------------------------


def test_a_token_without_a_challenge_is_refused(machine: Machine) -> None:
    with arc(machine, lambda _: GOOD) as (identity, _), pytest.raises(ChallengeInvalid, match="refused"):
        Cached(identity, machine.host).token(AKS)
    assert not machine.path("/run/aks-flex-node/tokens").exists()


@pytest.mark.parametrize("change", [{"vmId": "2"}, {"resourceId": "/b"}, {"resourceName": "b"}])
def test_a_machine_that_is_registered_anew_is_somebody_else(machine: Machine, change: dict[str, str]) -> None:
    known = {"vmId": "1", "resourceId": "/a", "resourceName": "a"}
    file, identity = "/var/opt/azcmagent/agentconfig.json", ArcMetadata(machine.host)
    machine.put(file, json.dumps(known))
    before = identity.key
    assert identity.key == before
    machine.put(file, json.dumps({**known, **change}))
    assert identity.key != before
    machine.put(file, "[")
    assert identity.key


@pytest.mark.parametrize("first", [b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_an_answer_that_comes_byte_by_byte_has_one_limit(first: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(first)
                for _ in range(400):
                    time.sleep(0.05)
                    connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(NoAnswer, match=r"within 0\.2 s"):
            ask(f"http://127.0.0.1:{server.getsockname()[1]}/x", {}, 0.2)
        assert time.monotonic() - start < 10
