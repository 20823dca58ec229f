# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which credential is meant, and that it signs in once."""

from __future__ import annotations

import stat
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.clouds import endpoints_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    Identity,
    SignInFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import (
    Login,
    OneLogin,
    identity_of,
    settings_of,
    sign_in,
)
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
        ("credential", OPTIONS, VARIABLES, ("principal", "t-option", "c-option", "s-option")),
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
        ("credential", {}, VARIABLES, ["tenant (AZURE_TENANT)"]),
        ("credential", {"secret": "s3cret", "tenant": "t"}, VARIABLES, ["client_id (AZURE_CLIENT_ID)"]),
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


def test_the_azure_cli_signs_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    az = tmp_path / "az"
    az.write_text(
        f"""#!/bin/sh
echo "$@" >> {tmp_path}/asked
echo '{{"accessToken": "{jwt(oid=OBJECT, upn="jo@example.com")}", "expiresOn": "2099-01-01 00:00:00.000000"}}'
"""
    )
    az.chmod(az.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    login = sign_in(settings_of({"auth_source": "cli", "tenant": TENANT}, {}))
    assert login.identity() == Identity(OBJECT, "", person=True)
    assert login.identity().object_id == OBJECT
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


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
    with pytest.raises(SignInFailed, match="no way to sign in"):
        sign_in(settings_of({}, {})).token("https://management.azure.com/.default")


@pytest.mark.parametrize("token", ["", "opaque", "a.b.c", "a.!!.c"])
def test_a_token_that_says_nothing(token: str) -> None:
    assert identity_of(token) == Identity()
