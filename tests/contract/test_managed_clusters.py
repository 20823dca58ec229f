# SPDX-License-Identifier: GPL-3.0-or-later
"""The AKS cluster in Resource Manager."""

from __future__ import annotations

import json

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.containerservice import models

from testbed import Testbed
from testbed.azure import Azure
from testbed.layout.identifiers import AKS_SERVER, NODE_RESOURCE_GROUP
from tests.contract.conftest import Worker
from tests.contract.sdk import code

ADMIN = "Azure Kubernetes Service Cluster Admin Role"
USER = "Azure Kubernetes Service Cluster User Role"


def test_get(bed: Testbed, azure: Azure, sdk: Worker) -> None:
    cluster = sdk("Reader").containers.managed_clusters.get("testbed", "testbed")
    assert isinstance(cluster, models.ManagedCluster)
    assert cluster.id == azure.cluster_id
    assert cluster.location == "westeurope"
    assert cluster.provisioning_state == "Succeeded"
    assert cluster.current_kubernetes_version == bed.cluster.version
    assert cluster.node_resource_group == NODE_RESOURCE_GROUP
    assert cluster.disable_local_accounts is False
    assert cluster.power_state is not None
    assert cluster.power_state.code == "Running"
    network = cluster.network_profile
    assert network is not None
    assert (network.service_cidr, network.pod_cidr) == (bed.cluster.service_cidr, bed.cluster.pod_cidr)
    assert network.dns_service_ip == bed.cluster.dns_service_ip
    assert cluster.aad_profile is not None
    assert cluster.aad_profile.tenant_id == azure.tenant_id


def test_names_are_the_same_in_small_and_capital_letters(azure: Azure, sdk: Worker) -> None:
    cluster = sdk("Reader").containers.managed_clusters.get("TESTBED", "Testbed")
    assert cluster.id == azure.cluster_id


def test_lists_show_what_the_caller_may_read(azure: Azure, sdk: Worker) -> None:
    clusters = sdk("Reader").containers.managed_clusters
    assert [one.id for one in clusters.list()] == [azure.cluster_id]
    assert [one.id for one in clusters.list_by_resource_group("testbed")] == [azure.cluster_id]


def test_the_admin_credential_is_the_administrators(bed: Testbed, sdk: Worker) -> None:
    found = sdk(ADMIN).containers.managed_clusters.list_cluster_admin_credentials("testbed", "testbed")
    assert found.kubeconfigs is not None
    assert [one.name for one in found.kubeconfigs] == ["clusterAdmin"]
    assert found.kubeconfigs[0].value == bed.cluster.kubeconfig.read_bytes()


def test_the_user_credential_holds_no_secret(bed: Testbed, sdk: Worker) -> None:
    found = sdk(USER).containers.managed_clusters.list_cluster_user_credentials("testbed", "testbed")
    assert found.kubeconfigs is not None
    document = json.loads(found.kubeconfigs[0].value or b"")
    assert document["clusters"][0]["cluster"]["server"] == bed.cluster.server
    login = document["users"][0]["user"]["exec"]
    assert login["command"] == "kubelogin"
    assert AKS_SERVER in login["args"]


def test_a_cluster_without_local_accounts_refuses_the_admin_credential(azure: Azure, sdk: Worker) -> None:
    azure.settings(disable_local_accounts=True)
    clusters = sdk(ADMIN, USER).containers.managed_clusters
    assert clusters.get("testbed", "testbed").disable_local_accounts is True
    with pytest.raises(HttpResponseError, match="disable local accounts") as caught:
        clusters.list_cluster_admin_credentials("testbed", "testbed")
    assert (caught.value.status_code, code(caught.value)) == (400, "BadRequest")
    assert clusters.list_cluster_user_credentials("testbed", "testbed").kubeconfigs


@pytest.mark.parametrize(
    ("group", "cluster", "expected"),
    [("testbed", "other", "ResourceNotFound"), ("other", "testbed", "ResourceGroupNotFound")],
)
def test_what_does_not_exist(sdk: Worker, azure: Azure, group: str, cluster: str, expected: str) -> None:
    clients = sdk("Reader", scope=f"/subscriptions/{azure.subscription_id}")
    with pytest.raises(ResourceNotFoundError) as caught:
        clients.containers.managed_clusters.get(group, cluster)
    assert code(caught.value) == expected


def test_reading_is_no_right_to_credentials(sdk: Worker) -> None:
    with pytest.raises(HttpResponseError) as caught:
        sdk("Reader").containers.managed_clusters.list_cluster_admin_credentials("testbed", "testbed")
    assert caught.value.status_code == 403
    assert "listClusterAdminCredential/action" in caught.value.message
