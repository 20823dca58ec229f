# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may do what with a pool, how often, and where the preview is registered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError

from testbed.azure import Azure
from tests.contract.conftest import Worker
from tests.contract.pools.conftest import Caller
from tests.contract.pools.preview import POOL, Calls, refused
from tests.contract.sdk import code

AGENT = "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"
ROLE = "Azure Kubernetes Service Flex Node Agent Role"
KIND = "Microsoft.ContainerService/managedClusters/agentPools"


def pool_scope(azure: Azure, pool: str = POOL) -> str:
    return f"{azure.cluster_id}/agentPools/{pool}"


@pytest.fixture
def filled(azure: Azure) -> None:
    """Two pools with a machine each, by someone else."""
    for name in (POOL, "other"):
        azure.pools.put(name)
        azure.pools.set_goal("edge-1", name)


def scopes(azure: Azure) -> dict[str, str]:
    group = azure.cluster_id.partition("/providers/")[0]
    return {
        "pool": pool_scope(azure),
        "cluster": azure.cluster_id,
        "group": group,
        "subscription": f"/subscriptions/{azure.subscription_id}",
    }


@pytest.mark.parametrize("where", ["pool", "cluster", "group", "subscription"])
def test_the_agents_role_counts_at_its_scope_and_below(
    azure: Azure, caller: Caller, filled: None, where: str
) -> None:
    calls = caller(AGENT, scope=scopes(azure)[where])
    assert calls.bootstrap_data().azure.bootstrap_token.token
    assert [one.name for one in calls.machines()] == ["edge-1"]
    calls.put_machine("edge-2")
    assert calls.machine("edge-2").name == "edge-2"
    if where == "pool":
        with pytest.raises(HttpResponseError) as caught:
            calls.machines("other")
        assert refused(caught) == (403, "AuthorizationFailed")


def test_the_agents_role_is_three_actions(azure: Azure, caller: Caller, filled: None) -> None:
    calls = caller(AGENT, scope=pool_scope(azure))
    for call, action, scope in (
        (calls.pool, f"{KIND}/read", pool_scope(azure)),
        (calls.pools, f"{KIND}/read", azure.cluster_id),
        (calls.put_pool, f"{KIND}/write", pool_scope(azure)),
        (calls.delete_pool, f"{KIND}/delete", pool_scope(azure)),
        (lambda: calls.delete_machines("edge-1"), f"{KIND}/deleteMachines/action", pool_scope(azure)),
        (
            lambda: calls.sdk.managed_clusters.get("testbed", "testbed"),
            "Microsoft.ContainerService/managedClusters/read",
            azure.cluster_id,
        ),
    ):
        with pytest.raises(HttpResponseError) as caught:
            call()
        assert refused(caught) == (403, "AuthorizationFailed")
        assert caught.value.error is not None
        assert f"perform action '{action}' over scope '{scope}'" in str(caught.value.error.message)


def test_the_role_is_assigned_at_a_pool(azure: Azure, sdk: Worker, filled: None) -> None:
    clients = sdk("Owner")
    definitions = clients.authorization.role_definitions
    (found,) = definitions.list(azure.cluster_id, f"roleName eq '{ROLE}'")
    assert found.name == AGENT
    actions = [f"{KIND}/listBootstrapData/action", f"{KIND}/machines/read", f"{KIND}/machines/write"]
    assert list(found.permissions[0].actions) == actions
    assert not found.permissions[0].data_actions
    agent = azure.app_registration("contract agent of a pool")
    body = {"role_definition_id": found.id, "principal_id": agent.object_id}
    made = clients.authorization.role_assignments.create(
        pool_scope(azure), "0c0ffee0-0000-4000-8000-000000000014", body
    )
    assert made.scope == pool_scope(azure)
    azure.revoke(agent)
    azure.remove_registration(agent.name)


def test_a_cloud_without_the_role(azure: Azure, sdk: Worker) -> None:
    azure.settings(flex_node_role=False)
    clients = sdk("Owner")
    definitions = clients.authorization.role_definitions
    assert list(definitions.list(azure.cluster_id, f"roleName eq '{ROLE}'")) == []
    with pytest.raises(HttpResponseError) as caught:
        definitions.get(azure.cluster_id, AGENT)
    assert code(caught.value) == "RoleDefinitionDoesNotExist"


def test_a_new_assignment_takes_its_time(azure: Azure, caller: Caller, filled: None) -> None:
    azure.settings(rbac_delay=3600)
    calls = caller(AGENT, scope=pool_scope(azure))
    with pytest.raises(HttpResponseError) as caught:
        calls.bootstrap_data()
    assert refused(caught) == (403, "AuthorizationFailed")
    azure.settings(rbac_delay=0)
    assert calls.bootstrap_data().azure.target_agent_pool_name == POOL


def test_bootstrap_data_is_throttled_for_the_subscription(
    azure: Azure, caller: Caller, calls: Calls, pool: Any
) -> None:
    azure.settings(bootstrap_data_burst=2, bootstrap_data_rate=0.2)
    for _ in range(2):
        calls.bootstrap_data()
    with pytest.raises(HttpResponseError) as caught:
        calls.bootstrap_data()
    assert refused(caught) == (429, "TooManyRequests")
    answer: Any = caught.value.response
    wait = int(answer.headers["Retry-After"])
    assert 1 <= wait <= 5
    azure.pools.machines(POOL)  # nothing else is throttled
    time.sleep(wait)
    calls.bootstrap_data()


def test_the_bucket_holds_a_hundred(azure: Azure) -> None:
    settings = azure.settings()
    assert (settings["bootstrap_data_burst"], settings["bootstrap_data_rate"]) == (100, 1)


FEATURES = "/subscriptions/{}/providers/Microsoft.Features/providers/Microsoft.ContainerService/features/{}"


@pytest.mark.parametrize(
    ("name", "setting"),
    [("AKSFlexNodePreview", "flex_node_feature"), ("PutMachinePreview", "machine_feature")],
)
def test_features(azure: Azure, sdk: Worker, calls: Calls, pool: Any, name: str, setting: str) -> None:
    clients = sdk("Reader", scope=f"/subscriptions/{azure.subscription_id}")
    path = FEATURES.format(azure.subscription_id, name)

    def state() -> str:
        found = clients.send("GET", path, **{"api-version": "2021-07-01"}).json()
        assert found["name"] == f"Microsoft.ContainerService/{name}"
        return str(found["properties"]["state"])

    assert state() == "Registered"
    azure.settings(**{setting: False})
    assert state() == "NotRegistered"
    concerned: dict[str, Callable[[], Any]] = {
        "flex_node_feature": calls.bootstrap_data,
        "machine_feature": lambda: calls.put_machine("edge-1"),
    }
    with pytest.raises(HttpResponseError) as caught:
        concerned[setting]()
    assert refused(caught) == (400, "PreviewFeatureNotRegistered")
    missing = clients.try_send(
        "GET", FEATURES.format(azure.subscription_id, "None"), **{"api-version": "2021-07-01"}
    )
    assert missing.status_code == 404
