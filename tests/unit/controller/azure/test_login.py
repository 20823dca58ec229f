# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which credential is meant, and that it signs in once."""

from __future__ import annotations

import datetime
import stat
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure import login as login_module
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.clouds import endpoints_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureUnavailable,
    Identity,
    SignInFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import (
    Login,
    OneLogin,
    identity_of,
    sign_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.settings import settings_of
from tests.unit.controller.fake_azure import CLIENT, OBJECT, SECRET, TENANT, FakeAzure, jwt
from tests.unit.node.servers import answer_json, serving

OPTIONS = {"tenant": "t-option", "client_id": "c-option", "secret": "s-option"}
VARIABLES = {"AZURE_TENANT": "t-env", "AZURE_CLIENT_ID": "c-env", "AZURE_SECRET": "s-env"}
SDK_VARIABLES = {"AZURE_TENANT_ID": "t-sdk", "AZURE_CLIENT_ID": "c-sdk", "AZURE_CLIENT_SECRET": "s-sdk"}


@pytest.mark.parametrize(
    ("source", "options", "environ", "expected"),
    [
        ("auto", OPTIONS, VARIABLES, ("principal", "t-option", "c-option", "s-option")),
        ("auto", {}, VARIABLES, ("principal", "t-env", "c-env", "s-env")),
        ("auto", {}, SDK_VARIABLES, ("principal", "t-sdk", "c-sdk", "s-sdk")),
        ("auto", {"secret": "s-option"}, VARIABLES, ("principal", "t-env", "c-env", "s-option")),
        ("auto", {}, {}, ("cli", "", "", "")),
        ("auto", {"tenant": "t-option"}, {}, ("cli", "t-option", "", "")),
        ("env", OPTIONS, VARIABLES, ("principal", "t-env", "c-env", "s-env")),
        ("module", OPTIONS, VARIABLES, ("principal", "t-option", "c-option", "s-option")),
        ("cli", OPTIONS, VARIABLES, ("cli", "t-option", "c-option", "s-option")),
        ("msi", {}, {}, ("msi", "", "", "")),
        ("msi", {"client_id": "c-option"}, {}, ("msi", "", "c-option", "")),
    ],
)
def test_the_credential_that_is_meant(
    source: str, options: Mapping[str, str], environ: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    found = settings_of({**options, "auth_source": source}, environ)
    assert (found.method, found.tenant, found.client_id, found.secret.reveal()) == expected
    assert "s-" not in repr(found)


@pytest.mark.parametrize(
    ("source", "options", "environ", "missing"),
    [
        ("auto", {"secret": "s3cret"}, {}, ["tenant (AZURE_TENANT)", "client_id (AZURE_CLIENT_ID)"]),
        ("env", OPTIONS, {}, ["secret (AZURE_SECRET)"]),
        ("module", {}, VARIABLES, ["tenant (AZURE_TENANT)"]),
        ("module", {"secret": "s3cret", "tenant": "t"}, VARIABLES, ["client_id (AZURE_CLIENT_ID)"]),
    ],
)
def test_what_is_missing_is_named(
    source: str, options: Mapping[str, str], environ: Mapping[str, str], missing: list[str]
) -> None:
    with pytest.raises(SignInFailed) as caught:
        settings_of({**options, "auth_source": source}, environ)
    assert [name for name in missing if name not in caught.value.why] == []
    assert "az login" in caught.value.fix
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("cloud", "authority", "resource_manager", "document"),
    [
        ("AzureCloud", "", "", {}),
        ("AzureCloud", "https://login.microsoftonline.com/", "https://management.azure.com", {}),
        ("AzureUSGovernment", "", "", {"cloud": "AzureUSGovernment"}),
        ("AzureChinaCloud", "", "", {"cloud": "AzureChinaCloud"}),
        (
            "AzureCloud",
            "login.example",
            "https://arm.example/",
            {
                "resourceManagerEndpoint": "https://arm.example",
                "activeDirectoryEndpoint": "https://login.example",
            },
        ),
    ],
)
def test_a_cloud_in_a_nodes_document(
    cloud: str, authority: str, resource_manager: str, document: Mapping[str, str]
) -> None:
    assert endpoints_of(cloud, authority, resource_manager).document() == document


def test_an_unknown_cloud() -> None:
    with pytest.raises(SignInFailed, match="no cloud 'AzureGermanCloud'"):
        settings_of({}, {"AZURE_CLOUD_ENVIRONMENT": "AzureGermanCloud"})


def test_a_ca_bundle_that_is_not_there(azure: FakeAzure) -> None:
    with pytest.raises(SignInFailed, match="CA bundle"):
        sign_in(settings_of({"ca_bundle": "/nowhere.pem"}, azure.environment))


def test_a_server_that_is_not_trusted(azure: FakeAzure) -> None:
    environment = {**azure.environment, "REQUESTS_CA_BUNDLE": ""}
    with pytest.raises(Exception, match="FLEX-1705") as caught:
        sign_in(settings_of({}, environment)).token("https://management.azure.com/.default")
    assert SECRET not in str(caught.value)


def test_many_threads_sign_in_once(azure: FakeAzure, login: Login) -> None:
    with ThreadPoolExecutor(8) as pool:
        tokens = set(pool.map(lambda _index: login.token("https://management.azure.com/.default"), range(16)))
    assert len(tokens) == 1
    assert azure.asked("POST .*/oauth2/") == 1
    assert login.identity() == Identity(OBJECT, CLIENT)


def test_a_token_is_renewed_before_it_ends_and_after_a_challenge() -> None:
    asked: list[dict[str, Any]] = []

    def get_token(*scopes: str, **options: Any) -> Any:
        asked.append(options)
        return SimpleNamespace(
            token=str(len(asked)), expires_on=time.time() + (10 if len(asked) == 1 else 3600)
        )

    login = OneLogin(SimpleNamespace(get_token=get_token))
    answers = [login.get_token("s").token, login.get_token("s").token, login.get_token("s").token]
    assert answers == ["1", "2", "2"]
    assert login.get_token("s", claims="c").token == "3"
    assert asked[-1]["claims"] == "c"


def azure_cli(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """An Azure CLI that runs these lines of shell."""
    az = folder / "az"
    az.write_text(f"#!/bin/sh\n{script}\n")
    az.chmod(az.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_the_azure_cli_signs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = jwt(oid=OBJECT, upn="jo@example.com")
    answer = f'{{"accessToken": "{token}", "expiresOn": "2099-01-01 00:00:00.000000"}}'
    azure_cli(tmp_path, monkeypatch, f"echo \"$@\" >> {tmp_path}/asked\necho '{answer}'")
    login = sign_in(settings_of({"auth_source": "cli", "tenant": TENANT}, {}))
    assert login.identity() == Identity(OBJECT, "", person=True)
    assert login.identity().object_id == OBJECT
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_a_slow_azure_cli_is_not_a_missing_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert login_module.CLI_SECONDS == 60
    azure_cli(tmp_path, monkeypatch, "exec sleep 20")
    monkeypatch.setattr(login_module, "CLI_SECONDS", 0.2)
    with pytest.raises(AzureUnavailable, match=r"the Azure CLI does not answer .* after 0.2 s"):
        sign_in(settings_of({"auth_source": "cli"}, {})).token("https://management.azure.com/.default")


@pytest.mark.parametrize("client_id", ["", CLIENT])
def test_a_managed_identity_signs_in(monkeypatch: pytest.MonkeyPatch, client_id: str) -> None:
    token = {
        "access_token": jwt(oid=OBJECT, appid=CLIENT),
        "expires_on": str(int(time.time()) + 3600),
        "expires_in": "3600",
        "resource": "https://management.azure.com",
        "token_type": "Bearer",
    }
    with serving(lambda _request: answer_json(token)) as server:
        monkeypatch.setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", server.url)
        login = sign_in(settings_of({"auth_source": "msi", "client_id": client_id}, {}))
        assert login.identity() == Identity(OBJECT, CLIENT)
    assert [client_id in path for path in server.asked if "oauth2/token" in path] == [True]


def test_without_the_azure_cli(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SignInFailed, match="the controller has no login to Azure"):
        sign_in(settings_of({}, {})).token("https://management.azure.com/.default")


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.!!.c"])
def test_a_token_that_says_nothing(token: str) -> None:
    assert identity_of(token) == Identity()


# -- certificates, federated tokens, the credential file ---------------------------------------------------


def home(tmp_path: Path, content: str) -> dict[str, str]:
    (tmp_path / ".azure").mkdir(exist_ok=True)
    (tmp_path / ".azure" / "credentials").write_text(content)
    return {"HOME": str(tmp_path)}


PROFILES = """
[default]
tenant = t-file
client_id = c-file
secret = s-%file
subscription_id = u-file
cloud_environment = AzureChinaCloud

[site]
tenant = t-site
client_id = c-site
x509_certificate_path = /site.pem
thumbprint = AA:BB
"""


@pytest.mark.parametrize(
    ("source", "options", "environ", "expected"),
    [
        ("auto", {}, {}, ("principal", "t-file", "c-file")),
        ("auto", {}, VARIABLES, ("principal", "t-env", "c-env")),
        ("auto", OPTIONS, {}, ("principal", "t-option", "c-option")),
        ("auto", {"profile": "site"}, VARIABLES, ("certificate", "t-site", "c-site")),
        ("auto", {"profile": "site", "tenant": "t-option"}, {}, ("certificate", "t-option", "c-site")),
        ("auto", {}, {**VARIABLES, "AZURE_PROFILE": "site"}, ("certificate", "t-site", "c-site")),
        ("auto", OPTIONS, {"AZURE_PROFILE": "site"}, ("principal", "t-option", "c-option")),
        ("env", {}, {**VARIABLES, "AZURE_PROFILE": "site"}, ("certificate", "t-site", "c-site")),
        ("env", {"profile": "site"}, VARIABLES, ("principal", "t-env", "c-env")),
        ("credential_file", OPTIONS, VARIABLES, ("principal", "t-file", "c-file")),
        ("credential_file", {"profile": "site"}, {}, ("certificate", "t-site", "c-site")),
        ("credential_file", {}, {"AZURE_PROFILE": "site"}, ("certificate", "t-site", "c-site")),
        ("cli", {}, {}, ("cli", "", "")),
        ("msi", {}, {}, ("msi", "", "")),
    ],
)
def test_the_credential_file_has_its_place(
    tmp_path: Path, source: str, options: dict[str, str], environ: dict[str, str], expected: tuple[str, ...]
) -> None:
    found = settings_of({**options, "auth_source": source}, {**environ, **home(tmp_path, PROFILES)})
    assert (found.method, found.tenant, found.client_id) == expected


def test_the_credential_file_says_more_than_the_credential(tmp_path: Path) -> None:
    found = settings_of({}, home(tmp_path, PROFILES))
    assert (found.secret.reveal(), found.subscription_id) == ("s-%file", "u-file")
    assert found.endpoints.cloud == "AzureChinaCloud"
    found = settings_of({"cloud_environment": "AzureUSGovernment"}, home(tmp_path, PROFILES))
    assert found.endpoints.cloud == "AzureUSGovernment", "options go first"


@pytest.mark.parametrize(
    ("content", "profile", "said"),
    [
        (None, "site", "there is no credential file"),
        (PROFILES, "lab", "it has: default, site"),
        ("[default]\nad_user = jo\npassword = s3cret\n", "default", "user name and password"),
        ("no ini, s3cret", "default", "can't be read"),
        ("[default]\nclient_id = c\n", "default", "tenant (AZURE_TENANT)"),
    ],
)
def test_a_profile_that_can_not_be_used(tmp_path: Path, content: str | None, profile: str, said: str) -> None:
    environ = {"HOME": str(tmp_path)} if content is None else home(tmp_path, content)
    with pytest.raises(SignInFailed) as caught:
        settings_of({"auth_source": "credential_file", "profile": profile}, environ)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "environ", "method"),
    [
        ({}, {"AZURE_X509_CERTIFICATE_PATH": "/c.pem"}, "certificate"),
        ({}, {"AZURE_CLIENT_CERTIFICATE_PATH": "/c.pem"}, "certificate"),
        ({}, {"AZURE_FEDERATED_TOKEN_FILE": "/token"}, "federated"),
        ({}, {"AZURE_SECRET": "s", "AZURE_X509_CERTIFICATE_PATH": "/c.pem"}, "principal"),
        ({"x509_certificate_path": "/c.pem"}, {"AZURE_SECRET": "s"}, "certificate"),
        ({}, {}, "cli"),
    ],
)
def test_what_a_service_principal_signs_in_with(
    options: dict[str, str], environ: dict[str, str], method: str
) -> None:
    ids = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "HOME": "/nowhere"}
    found = settings_of(options, {**ids, **environ})
    assert (found.method, found.tenant, found.client_id) == (method, "t", "c")
    assert bool(found.unused) == (method == "cli"), "who meant a service principal is told what is missing"


def test_a_certificate_signs_in(azure: FakeAzure, tmp_path: Path) -> None:
    pem, thumbprint = certificate(tmp_path)
    environ = {**azure.environment, "AZURE_SECRET": "", "AZURE_X509_CERTIFICATE_PATH": str(pem)}
    for given in ("", thumbprint.lower()):
        login = sign_in(settings_of({"thumbprint": given}, environ))
        assert login.identity() == Identity(OBJECT, CLIENT)
    with pytest.raises(SignInFailed, match=f"the certificate's is {thumbprint}"):
        sign_in(settings_of({"thumbprint": "AA:BB"}, environ))
    only = tmp_path / "only.pem"
    only.write_text(pem.read_text().partition("-----BEGIN CERTIFICATE-----")[0])
    with pytest.raises(SignInFailed, match="a certificate and its private key"):
        sign_in(settings_of({"x509_certificate_path": str(only)}, environ))
    with pytest.raises(SignInFailed, match="x509_certificate_path can't be read"):
        sign_in(settings_of({"x509_certificate_path": "/nowhere.pem"}, environ))


def test_a_federated_token_signs_in(azure: FakeAzure, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(jwt(sub="system:serviceaccount:awx:runner"))
    environ = {**azure.environment, "AZURE_SECRET": "", "AZURE_FEDERATED_TOKEN_FILE": str(file)}
    assert sign_in(settings_of({}, environ)).identity() == Identity(OBJECT, CLIENT)
    (request,) = [one for one in azure.server.requests if one.method == "POST"]
    assert f"client_assertion={file.read_text()}" in request.body.decode()
    with pytest.raises(SignInFailed, match="AZURE_FEDERATED_TOKEN_FILE can't be read"):
        sign_in(settings_of({}, {**environ, "AZURE_FEDERATED_TOKEN_FILE": "/nowhere"}))


def test_without_a_secret_the_azure_cli_is_tried_and_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    environ = {"AZURE_CLIENT_ID": "c-env", "AZURE_TENANT": "t", "HOME": str(tmp_path)}
    with pytest.raises(SignInFailed, match=r"client_id c-env is not used.*AZURE_SECRET"):
        sign_in(settings_of({}, environ)).token("https://management.azure.com/.default")


def certificate(directory: Path) -> tuple[Path, str]:
    """A file with key and certificate, and its thumbprint."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "controller")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    made = builder.sign(key, hashes.SHA256())
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = directory / "both.pem"
    private = key.private_bytes(encoding, form, serialization.NoEncryption())
    path.write_bytes(private + made.public_bytes(encoding))
    return path, made.fingerprint(hashes.SHA1()).hex().upper()  # noqa: S303
