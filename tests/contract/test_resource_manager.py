# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource Manager's own habits: whom it lets in, how it refuses, how it slows down."""

from __future__ import annotations

import re
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from testbed.azure import Azure, Fault
from tests.contract.conftest import Worker
from tests.contract.sdk import code


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("expired", "ExpiredAuthenticationToken"),
        ("audience", "InvalidAuthenticationTokenAudience"),
        ("tenant", "InvalidAuthenticationTokenTenant"),
        ("signature", "InvalidAuthenticationToken"),
    ],
)
def test_tokens_that_are_no_good(azure: Azure, sdk: Worker, fault: str, expected: str) -> None:
    azure.fail(Fault(path="/token$", token=fault))
    with pytest.raises(HttpResponseError) as caught:
        sdk("Reader").containers.managed_clusters.get("testbed", "testbed")
    assert (caught.value.status_code, code(caught.value)) == (401, expected)
    answer: Any = caught.value.response
    assert f"{azure.url}/{azure.tenant_id}" in answer.headers["WWW-Authenticate"]


def test_a_missing_right_is_named_in_full(azure: Azure, sdk: Worker) -> None:
    clients = sdk()
    with pytest.raises(HttpResponseError) as caught:
        clients.containers.managed_clusters.get("testbed", "testbed")
    assert (caught.value.status_code, code(caught.value)) == (403, "AuthorizationFailed")
    principal = clients.principal
    wanted = (
        f"The client '{principal.client_id}' with object id '{principal.object_id}' does not have "
        "authorization to "
        "perform action 'Microsoft.ContainerService/managedClusters/read' over scope "
        f"'{azure.cluster_id}' or the scope is invalid. "
        "If access was recently granted, please refresh your credentials."
    )
    assert caught.value.error is not None
    assert caught.value.error.message == wanted


def test_a_right_counts_after_the_delay(azure: Azure, sdk: Worker) -> None:
    azure.settings(rbac_delay=3600)
    with pytest.raises(HttpResponseError, match="AuthorizationFailed"):
        sdk("Reader").containers.managed_clusters.get("testbed", "testbed")


def test_a_right_above_counts_below(azure: Azure, sdk: Worker) -> None:
    for scope in (f"/subscriptions/{azure.subscription_id}", azure.cluster_id.rpartition("/providers/")[0]):
        clients = sdk("Reader", scope=scope)
        clients.containers.managed_clusters.get("testbed", "testbed")
        azure.revoke(clients.principal)


@pytest.mark.parametrize(
    ("path", "version", "expected"),
    [
        ("{cluster}", "", (400, "MissingApiVersionParameter")),
        ("{cluster}/flexNodeConfig", "2025-01-01", (400, "NoRegisteredProviderFound")),
        ("{cluster}", "latest", (400, "NoRegisteredProviderFound")),
        ("{cluster}/nothing", "2025-01-01", (404, "InvalidResourceType")),
        ("/subscriptions/00000000-0000-0000-0000-000000000000", "2022-12-01", (404, "SubscriptionNotFound")),
    ],
)
def test_requests_that_make_no_sense(
    azure: Azure, sdk: Worker, path: str, version: str, expected: tuple[int, str]
) -> None:
    query = {"api-version": version}
    answer = sdk("Reader").try_send("GET", path.format(cluster=azure.cluster_id), **query)
    assert (answer.status_code, answer.json()["error"]["code"]) == expected


def test_every_answer_can_be_traced_and_tells_what_is_left(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Reader")
    left = []
    for _ in range(2):
        answer = clients.send("GET", azure.cluster_id, **{"api-version": "2025-01-01"})
        assert re.fullmatch(r"[0-9a-f-]{36}", answer.headers["x-ms-request-id"])
        left.append(int(answer.headers["x-ms-ratelimit-remaining-subscription-reads"]))
    assert left[1] == pytest.approx(left[0], abs=1)


def test_too_many_requests_are_told_when_to_come_back(azure: Azure, sdk: Worker) -> None:
    azure.settings(read_burst=2, read_rate=0.2)
    clients = sdk("Reader")
    answers = [
        clients.try_send("GET", azure.cluster_id, **{"api-version": "2025-01-01"}).status_code
        for _ in range(4)
    ]
    assert answers == [200] * 4, "the SDK waits as it is told"
    throttled = [one for one in azure.requests() if one.status == 429]
    assert throttled
    assert {one.principal for one in throttled} == {clients.principal.name}


def test_the_subscription_and_its_group(azure: Azure, sdk: Worker) -> None:
    scope = f"/subscriptions/{azure.subscription_id}"
    clients = sdk("Reader", scope=scope)
    version = {"api-version": "2022-12-01"}
    assert clients.send("GET", "/subscriptions", **version).json()["value"][0]["id"] == scope
    assert clients.send("GET", scope, **version).json()["tenantId"] == azure.tenant_id
    assert clients.send("GET", f"{scope}/resourceGroups/testbed", **version).json()["name"] == "testbed"
