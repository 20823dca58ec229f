# SPDX-License-Identifier: GPL-3.0-or-later
"""Entra ID: who gets a token, what it says, and who takes it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import jwt
import pytest
import requests
from azure.core.exceptions import ClientAuthenticationError

from testbed import Testbed
from testbed.azure import Azure, Fault, Principal
from testbed.layout.identifiers import AKS_SERVER
from tests.contract.conftest import Worker
from tests.contract.sdk import SCOPE, Sdk


@pytest.fixture
def web(bed: Testbed) -> Iterator[requests.Session]:
    """Plain HTTP, for what the SDK has no call for."""
    with requests.Session() as session:
        session.trust_env = False
        session.verify = str(bed.ca_file)
        yield session


def claims(azure: Azure, web: requests.Session, token: str) -> dict[str, object]:
    """A token's claims, with its signature checked against the published keys."""
    found = web.get(f"{azure.url}/{azure.tenant_id}/discovery/v2.0/keys", timeout=10).json()
    keys = jwt.PyJWKSet.from_dict(found)
    read: dict[str, object] = jwt.decode(
        token, keys[jwt.get_unverified_header(token)["kid"]].key, ["RS256"], options={"verify_aud": False}
    )
    return read


def test_a_secret_gets_a_token_that_names_the_principal(
    sdk: Worker, azure: Azure, web: requests.Session
) -> None:
    clients = sdk()
    token = clients.credential.get_token(SCOPE)
    said = claims(azure, web, token.token)
    assert said["oid"] == clients.principal.object_id
    assert said["appid"] == clients.principal.client_id
    assert said["tid"] == azure.tenant_id
    assert said["iss"] == f"https://sts.windows.net/{azure.tenant_id}/"
    assert said["aud"] == "https://management.azure.com"
    assert said["ver"] == "1.0"
    assert token.expires_on == pytest.approx(time.time() + 3599, abs=60)


def test_one_login_serves_many_calls(sdk: Worker, azure: Azure) -> None:
    clients = sdk("Reader")
    for _ in range(3):
        clients.containers.managed_clusters.get("testbed", "testbed")
    logins = [one for one in azure.requests() if one.path.endswith("/token")]
    assert [(one.status, one.principal) for one in logins] == [(200, clients.principal.client_id)]


def test_the_endpoint_of_version_1(azure: Azure, principal: Principal, web: requests.Session) -> None:
    form = {
        "grant_type": "client_credentials",
        "client_id": principal.client_id,
        "client_secret": principal.secret,
        "resource": "https://management.azure.com/",
    }
    answer = web.post(f"{azure.url}/{azure.tenant_id}/oauth2/token", data=form, timeout=10).json()
    assert answer["expires_in"] == "3599"
    assert int(answer["expires_on"]) > time.time()
    assert claims(azure, web, answer["access_token"])["aud"] == "https://management.azure.com/"


def test_discovery_leads_to_the_endpoints(azure: Azure, web: requests.Session) -> None:
    for version, issuer in (("", f"https://sts.windows.net/{azure.tenant_id}/"), ("/v2.0", None)):
        base = f"{azure.url}/{azure.tenant_id}{version}"
        found = web.get(f"{base}/.well-known/openid-configuration", timeout=10).json()
        assert found["issuer"] == (issuer or base)
        assert web.get(found["jwks_uri"], timeout=10).json()["keys"]
        assert web.post(found["token_endpoint"], timeout=10).status_code == 400


@pytest.mark.parametrize(
    ("change", "number"),
    [
        ({"secret": "wrong"}, "AADSTS7000215"),
        ({"client_id": "00000000-0000-0000-0000-000000000000"}, "AADSTS700016"),
        ({"scope": "https://nobody.example/.default"}, "AADSTS500011"),
    ],
)
def test_who_gets_no_token(
    bed: Testbed, azure: Azure, principal: Principal, change: dict[str, str], number: str
) -> None:
    who = Principal(
        principal.name,
        principal.object_id,
        change.get("client_id", principal.client_id),
        change.get("secret", principal.secret),
    )
    with pytest.raises(ClientAuthenticationError, match=number) as caught:
        Sdk(azure, who, bed.ca_file).credential.get_token(change.get("scope", SCOPE))
    assert principal.secret not in str(caught.value)


def test_an_unknown_tenant_is_refused(azure: Azure, web: requests.Session) -> None:
    tenant = "00000000-0000-0000-0000-000000000000"
    answer = web.get(f"{azure.url}/{tenant}/v2.0/.well-known/openid-configuration", timeout=10)
    assert answer.status_code == 400
    assert answer.json()["error_codes"] == [90002]


@pytest.mark.parametrize("version", [1, 2])
def test_the_api_server_takes_tokens_for_aks(bed: Testbed, azure: Azure, sdk: Worker, version: int) -> None:
    azure.settings(token_version=version)
    clients = sdk()
    token = clients.credential.get_token(f"{AKS_SERVER}/.default").token
    assert bed.cluster.whoami(token) == clients.principal.object_id


@pytest.mark.parametrize("fault", ["expired", "audience", "tenant", "signature"])
def test_the_api_server_refuses_tokens_that_are_no_good(
    bed: Testbed, azure: Azure, sdk: Worker, fault: str
) -> None:
    azure.fail(Fault(path="/token$", token=fault))
    token = sdk().credential.get_token(f"{AKS_SERVER}/.default").token
    assert bed.cluster.whoami(token) is None


def test_the_api_server_refuses_a_token_for_resource_manager(bed: Testbed, sdk: Worker) -> None:
    assert bed.cluster.whoami(sdk().credential.get_token(SCOPE).token) is None
