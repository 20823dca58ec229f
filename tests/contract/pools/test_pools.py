# SPDX-License-Identifier: GPL-3.0-or-later
"""FlexNodes pools and the data that their machines join with."""

from __future__ import annotations

import base64
import datetime
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceModifiedError, ResourceNotFoundError

from testbed import Testbed
from testbed.azure import Azure
from testbed.azure.pools import bootstrap
from testbed.cluster.rbac import POOL_GROUP
from testbed.layout import versions
from tests.contract.conftest import Worker
from tests.contract.pools.preview import POOL, WHERE, Calls, plain, refused, unknown

LABELS = {"site": "lab-1"}
TAINTS = ["site=lab-1:NoSchedule"]


def test_the_sdk_is_the_preview_beside_the_one_that_users_install(calls: Calls) -> None:
    from azure.mgmt import containerservice

    assert not hasattr(containerservice.models, "PoolBootstrapData")
    assert hasattr(calls.models, "PoolBootstrapData")


def test_a_pool_is_created(azure: Azure, calls: Calls) -> None:
    settings = calls.models.AgentPoolUpgradeSettings(max_unavailable="1")
    made = calls.put_pool(
        orchestrator_version=versions.KUBERNETES,
        max_pods=75,
        node_labels=LABELS,
        node_taints=TAINTS,
        upgrade_settings=settings,
    )
    assert made.id == f"{azure.cluster_id}/agentPools/{POOL}"
    assert made.type_properties_type == "FlexNodes"
    assert (made.max_pods, made.node_labels, made.node_taints) == (75, LABELS, TAINTS)
    assert made.current_orchestrator_version == versions.KUBERNETES
    assert made.provisioning_state == "Succeeded"
    assert plain(calls.pool()) == plain(made)
    assert [plain(one) for one in calls.pools()] == [plain(made)]


def test_a_create_is_a_long_running_operation(azure: Azure, calls: Calls) -> None:
    azure.settings(operation_seconds=5)
    poller = calls.sdk.agent_pools.begin_create_or_update(*WHERE, POOL, calls.pool_body())
    assert calls.pool().provisioning_state == "Creating"
    with pytest.raises(HttpResponseError) as caught:
        calls.put_pool("other")
    assert refused(caught) == (409, "OperationNotAllowed")
    assert poller.result().provisioning_state == "Succeeded"


def test_an_operation_can_be_read_below_its_pool(azure: Azure, calls: Calls, pool: Any) -> None:
    calls.put_machine("edge-1")
    calls.delete_machines("edge-1")
    (name,) = {one.path.rpartition("/")[2] for one in azure.requests() if "/operationresults/" in one.path}
    found = calls.sdk.operation_status_result.get_by_agent_pool(*WHERE, POOL, name)
    assert unknown(found) == []
    assert found.status == "Succeeded"


def test_only_a_change_changes_the_etag(calls: Calls, pool: Any) -> None:
    assert calls.put_pool().e_tag == pool.e_tag
    changed = calls.put_pool(max_pods=60)
    assert changed.e_tag != pool.e_tag
    assert calls.put_pool(max_pods=60).e_tag == changed.e_tag


def test_conditions(calls: Calls, pool: Any) -> None:
    with pytest.raises(ResourceModifiedError) as caught:
        calls.put_pool(max_pods=60, etag="another", match_condition=MatchConditions.IfNotModified)
    assert refused(caught) == (412, "PreconditionFailed")
    calls.put_pool(max_pods=60, etag=pool.e_tag, match_condition=MatchConditions.IfNotModified)
    with pytest.raises(HttpResponseError) as unmet:
        calls.put_pool(max_pods=61, match_condition=MatchConditions.IfMissing)
    assert unmet.value.status_code == 412
    calls.put_pool("other", match_condition=MatchConditions.IfMissing)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"count": 3}, "InvalidParameter"),
    ({"vm_size": "Standard_D4s_v5"}, "InvalidParameter"),
    ({"os_type": "Linux"}, "InvalidParameter"),
    ({"vnet_subnet_id": "/subscriptions/x"}, "InvalidParameter"),
    ({"kubelet_config": {}}, "InvalidParameter"),
    ({"upgrade_settings_blue_green": {}}, "InvalidParameter"),
    ({"upgrade_settings": {"maxSurge": "1"}}, "InvalidParameter"),
    ({"upgrade_settings": {"drainTimeoutInMinutes": 5}}, "InvalidParameter"),
    ({"upgrade_settings": {"maxUnavailable": "0"}}, "InvalidParameter"),
    ({"node_taints": []}, "InvalidParameter"),
    ({"node_taints": ["nonsense"]}, "InvalidParameter"),
    ({"node_labels": {"kubernetes.azure.com/agentpool": "x"}}, "InvalidParameter"),
    ({"mode": "Machines"}, "InvalidParameter"),
    ({"type": "AvailabilitySet"}, "InvalidParameter"),
    ({"max_pods": 500}, "InvalidParameter"),
    ({"orchestrator_version": "1.34.90"}, "NodePoolMcVersionIncompatible"),
    ({"orchestrator_version": "1.35"}, "NodePoolMcVersionIncompatible"),
    ({"orchestrator_version": "1.20"}, "K8sVersionNotSupported"),
]


@pytest.mark.parametrize(("properties", "expected"), REFUSED, ids=lambda value: str(value)[:40])
def test_bodies_that_are_refused(calls: Calls, properties: dict[str, Any], expected: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        calls.put_pool(**properties)
    assert refused(caught) == (400, expected)
    assert calls.pools() == []


@pytest.mark.parametrize("name", ["Edge", "1edge", "edge-1", "a" * 13])
def test_names_that_are_refused(calls: Calls, name: str) -> None:
    with pytest.raises(HttpResponseError) as caught:
        calls.put_pool(name)
    assert refused(caught) == (400, "InvalidParameter")


def test_an_answer_can_be_sent_back(calls: Calls, pool: Any) -> None:
    again = calls.sdk.agent_pools.begin_create_or_update(*WHERE, POOL, pool).result()
    assert plain(again) == plain(pool)


def test_type_and_mode_stay(calls: Calls, pool: Any) -> None:
    with pytest.raises(HttpResponseError) as caught:
        calls.put_pool(type="VirtualMachineScaleSets")
    assert refused(caught) == (400, "PropertyChangeNotAllowed")


def test_a_short_version_becomes_a_patch_version(azure: Azure, calls: Calls) -> None:
    made = calls.put_pool(orchestrator_version="1.33")
    assert made.orchestrator_version == "1.33"
    assert made.current_orchestrator_version == versions.KUBERNETES_OLD_MINOR
    assert calls.bootstrap_data().components.kubernetes == versions.KUBERNETES_OLD_MINOR
    azure.settings(control_plane_version="1.35.2")
    assert calls.put_pool("next", orchestrator_version="1.35").current_orchestrator_version == "1.35.2"


def test_a_pool_is_deleted_when_it_has_no_machines(calls: Calls, pool: Any) -> None:
    calls.put_machine("edge-1")
    with pytest.raises(HttpResponseError) as caught:
        calls.delete_pool()
    assert refused(caught) == (400, "BadRequest")
    calls.delete_machines("edge-1")
    calls.delete_pool()
    with pytest.raises(ResourceNotFoundError) as missing:
        calls.pool()
    assert refused(missing) == (404, "NotFound")
    calls.delete_pool()


def test_the_cluster_shows_its_pools(calls: Calls, pool: Any) -> None:
    cluster = calls.sdk.managed_clusters.get(*WHERE)
    assert unknown(cluster) == []
    (profile,) = cluster.agent_pool_profiles
    assert (profile.name, profile.type, profile.e_tag) == (POOL, "FlexNodes", pool.e_tag)


def test_bootstrap_data_is_the_pools(bed: Testbed, azure: Azure, calls: Calls) -> None:
    calls.put_pool(max_pods=75, node_labels=LABELS, node_taints=TAINTS)
    found = calls.bootstrap_data()
    assert unknown(found) == []
    assert found.azure.resource_manager_endpoint == azure.url
    assert found.azure.target_cluster.resource_id == azure.cluster_id
    assert found.azure.target_agent_pool_name == POOL
    assert (found.components.kubernetes, found.components.containerd, found.components.runc) == (
        versions.KUBERNETES,
        versions.CONTAINERD,
        versions.RUNC,
    )
    assert found.networking.dns_service_ip == bed.cluster.dns_service_ip
    assert found.networking.cni_version == versions.CNI_PLUGINS
    assert (found.node.max_pods, found.node.labels, found.node.taints) == (75, LABELS, TAINTS)
    assert f"https://{found.node.kubelet.cluster_fqdn}" == bed.cluster.server
    assert base64.b64decode(found.node.kubelet.ca_cert_data).decode() == bed.cluster.ca_pem


def test_the_token_is_real_and_may_only_request_a_certificate(bed: Testbed, calls: Calls, pool: Any) -> None:
    token = calls.bootstrap_data().azure.bootstrap_token.token
    assert calls.bootstrap_data().azure.bootstrap_token.token != token
    identifier = token.partition(".")[0]
    for _ in range(2):  # it is not used up
        assert bed.cluster.whoami(token) == f"system:bootstrap:{identifier}"
    path = f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{identifier}"
    data = bed.cluster.api().get(path)["data"]
    assert base64.b64decode(data["auth-extra-groups"]).decode() == POOL_GROUP
    moment = base64.b64decode(data["expiration"]).decode()
    expires = datetime.datetime.strptime(moment, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    left = expires - datetime.datetime.now(datetime.timezone.utc)
    assert left.total_seconds() == pytest.approx(3600, abs=60)
    for verb, resource in (("list", "nodes"), ("get", "secrets"), ("create", "pods"), ("delete", "nodes")):
        assert not bed.cluster.allows(token, verb, resource)


def test_the_tokens_group_has_two_roles(bed: Testbed) -> None:
    found = bed.cluster.api().get("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings")["items"]
    roles = {
        one["roleRef"]["name"]
        for one in found
        if any(subject.get("name") == POOL_GROUP for subject in one.get("subjects") or [])
    }
    approve = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    assert roles == {"system:node-bootstrapper", approve}


def test_the_tokens_lifetime_is_a_setting(bed: Testbed, azure: Azure, calls: Calls, pool: Any) -> None:
    azure.settings(pool_token_seconds=-1)
    assert bed.cluster.whoami(calls.bootstrap_data().azure.bootstrap_token.token) is None


def test_an_empty_request_is_served(azure: Azure, sdk: Worker, calls: Calls, pool: Any) -> None:
    clients = sdk("Azure Kubernetes Service Contributor Role")
    path = f"{azure.cluster_id}/agentPools/{POOL}/listBootstrapData"
    answer = clients.send("POST", path, **{"api-version": "2026-05-02-preview"})
    assert answer.json()["azure"]["targetAgentPoolName"] == POOL


def test_switches_of_the_answer(azure: Azure, calls: Calls, pool: Any) -> None:
    azure.settings(bootstrap_data_patch=bootstrap.OLD_AZURE)
    old = calls.bootstrap_data()
    assert sorted(unknown(old)) == [".azure.cloud", ".azure.tenantId"]
    assert old.azure.resource_manager_endpoint is None
    azure.settings(bootstrap_data_patch=bootstrap.UNKNOWN_KEYS)
    more = calls.bootstrap_data()
    assert sorted(unknown(more)) == [".bootstrap", ".node.kubelet.somethingNew", ".node.zone"]
    assert more.node.kubelet.cluster_fqdn, "what is known is still there"
    azure.settings(bootstrap_data_patch={"networking": None, "node": {"kubelet": {"caCertData": None}}})
    less = calls.bootstrap_data()
    assert less.networking is None
    assert less.node.kubelet.ca_cert_data is None


def test_other_pools_have_no_bootstrap_data(calls: Calls) -> None:
    calls.put_pool("vms", type="VirtualMachineScaleSets", count=1, vm_size="Standard_D4s_v5")
    with pytest.raises(HttpResponseError) as caught:
        calls.bootstrap_data("vms")
    assert refused(caught) == (400, "BadRequest")
    with pytest.raises(HttpResponseError) as caught:
        calls.put_machine("edge-1", "vms")
    assert refused(caught) == (400, "BadRequest")
    with pytest.raises(ResourceNotFoundError) as missing:
        calls.bootstrap_data("none")
    assert refused(missing) == (404, "NotFound")
