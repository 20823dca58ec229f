# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a cluster determines, and how its API server is reached: the real SDK against a server in memory."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.aks.cluster import (
    ADMIN,
    USER,
    Clusters,
    cluster_document,
    cluster_ids_of,
    described,
    kubeconfig_in,
    kubeconfig_order,
    summary,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.clouds import endpoints_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureRefuses,
    ClusterUnusable,
    NotInAzure,
    PermissionMissing,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import Login
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import Access
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.controller.fake_azure import CLUSTER, SUBSCRIPTION, TENANT, FakeAzure
from tests.unit.node.config.test_samples import PEM

PLANT = ArmId.parse(CLUSTER)
MANAGED: dict[str, Any] = {
    "id": CLUSTER,
    "name": "plant",
    "location": "westeurope",
    "identity": {"type": "SystemAssigned", "tenantId": TENANT},
    "properties": {
        "provisioningState": "Succeeded",
        "powerState": {"code": "Running"},
        "kubernetesVersion": "1.34",
        "currentKubernetesVersion": "1.34.4",
        "nodeResourceGroup": "MC_rg_plant_westeurope",
        "disableLocalAccounts": False,
        "networkProfile": {
            "networkPlugin": "azure",
            "serviceCidr": "10.0.0.0/16",
            "podCidr": "10.244.0.0/16",
            "dnsServiceIP": "10.0.0.10",
        },
    },
}
ACCESS = Access("https://plant.example:443", PEM)


def kubeconfig(**user: Any) -> str:
    cluster = {"server": "https://plant.example:443", "certificate-authority-data": _encoded(PEM)}
    return yaml.safe_dump(
        {
            "current-context": "plant",
            "contexts": [{"name": "plant", "context": {"cluster": "plant", "user": "me"}}],
            "clusters": [{"name": "plant", "cluster": cluster}],
            "users": [{"name": "me", "user": user}],
        }
    )


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


ADMINS = kubeconfig(**{"client-certificate-data": _encoded(PEM), "client-key-data": _encoded("key")})
PEOPLES = kubeconfig(exec={"command": "kubelogin"})


def test_the_document_of_a_cluster_is_most_of_a_nodes() -> None:
    document = cluster_document(MANAGED, ACCESS, endpoints_of("AzureCloud"))
    assert document == {
        "azure": {
            "subscriptionId": SUBSCRIPTION,
            "tenantId": TENANT,
            "targetCluster": {
                "resourceId": CLUSTER,
                "location": "westeurope",
                "nodeResourceGroup": "MC_rg_plant_westeurope",
            },
        },
        "kubernetes": {"version": "1.34.4"},
        "network": {"serviceCIDR": "10.0.0.0/16", "podCIDR": "10.244.0.0/16"},
        "node": {
            "kubelet": {
                "dnsServiceIP": "10.0.0.10",
                "serverURL": "https://plant.example:443",
                "caCertData": _encoded(PEM),
                "clientCAData": _encoded(PEM),
            }
        },
    }
    document["azure"]["bootstrapToken"] = {"token": "abcdef.0123456789abcdef"}
    assert parse(document).api_server.url == "https://plant.example:443"


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        ({"identity": {}}, ("azure", "tenantId"), "of-the-login"),
        (
            {"identity": {}, "properties": {"aadProfile": {"tenantID": "of-entra"}}},
            ("azure", "tenantId"),
            "of-entra",
        ),
        ({"properties": {"kubernetesVersion": "1.33.5"}}, ("kubernetes", "version"), "1.33.5"),
        ({"properties": {}}, ("network",), None),
    ],
)
def test_what_is_not_known_is_left_out(change: dict[str, Any], path: tuple[str, ...], expected: Any) -> None:
    found: Any = cluster_document({**MANAGED, **change}, ACCESS, endpoints_of("AzureCloud"), "of-the-login")
    for key in path:
        found = (found or {}).get(key)
    assert found == expected


def test_a_private_cloud_is_told_to_the_node() -> None:
    endpoints = endpoints_of("AzureUSGovernment", "", "https://arm.example")
    azure = cluster_document(MANAGED, ACCESS, endpoints)["azure"]
    assert (azure["cloud"], azure["resourceManagerEndpoint"]) == ("AzureUSGovernment", "https://arm.example")


def test_what_else_is_told() -> None:
    assert summary(MANAGED) == {
        "name": "plant",
        "location": "westeurope",
        "kubernetes_version": "1.34.4",
        "provisioning_state": "Succeeded",
        "power_state": "Running",
        "local_accounts": True,
        "node_resource_group": "MC_rg_plant_westeurope",
        "network_plugin": "azure",
    }


@pytest.mark.parametrize(
    ("local_accounts", "admin", "order"),
    [
        (True, False, (USER, ADMIN)),
        (None, False, (USER, ADMIN)),
        (False, False, (USER,)),
        (True, True, (ADMIN, USER)),
        (None, True, (ADMIN, USER)),
        (False, True, (USER,)),
    ],
)
def test_which_credential_is_asked_for(
    local_accounts: bool | None, admin: bool, order: tuple[str, ...]
) -> None:
    assert kubeconfig_order(local_accounts=local_accounts, admin=admin) == order


def test_a_cluster_is_two_requests(azure: FakeAzure, login: Login) -> None:
    azure.cluster, azure.kubeconfigs = MANAGED, {USER: PEOPLES, ADMIN: ADMINS}
    found = described(Clusters(login), PLANT)
    assert (found["id"], found["name"], found["local_accounts"]) == (CLUSTER, "plant", True)
    assert b64decode(found["document"]["node"]["kubelet"]["caCertData"]).decode() == PEM
    # This test's endpoints are not the cloud's, and the node is told so.
    assert found["document"]["azure"]["resourceManagerEndpoint"] == azure.server.url
    assert azure.asked("GET /subscriptions") == 1
    assert azure.asked("POST /subscriptions") == 1
    assert azure.asked(f"POST .*/{USER}") == 1


def test_the_other_credential_will_do(azure: FakeAzure, login: Login) -> None:
    azure.kubeconfigs = {USER: PEOPLES, ADMIN: ADMINS}
    azure.forbidden = USER
    assert Clusters(login).access(PLANT, admin=False).server == "https://plant.example:443"


def test_an_administrators_certificate(azure: FakeAzure, login: Login) -> None:
    azure.kubeconfigs = {ADMIN: ADMINS}
    access = Clusters(login).access(PLANT, admin=True)
    assert (access.certificate, access.key.reveal(), bool(access.token)) == (PEM, "key", False)


def test_without_local_accounts_the_azure_identity_signs_in(azure: FakeAzure, login: Login) -> None:
    azure.kubeconfigs = {USER: PEOPLES}
    access = Clusters(login).access(PLANT, admin=True)
    assert access.token
    assert (access.certificate, access.plugin) == ("", None)
    bodies = [request.body.decode() for request in azure.server.requests if "oauth2" in request.path]
    assert sum("6dae42f8-4368-4678-94ff-3960e28e3630" in body for body in bodies) == 1


def test_no_way_in_is_explained_by_the_first_refusal(azure: FakeAzure, login: Login) -> None:
    azure.forbidden = "listCluster"
    with pytest.raises(PermissionMissing):
        Clusters(login).access(PLANT, admin=True)
    azure.forbidden = ""
    with pytest.raises(AzureRefuses, match="disable local accounts"):
        Clusters(login).access(PLANT, admin=True)


def test_a_cluster_that_is_not_there(login: Login) -> None:
    with pytest.raises(NotInAzure, match="nowhere"):
        Clusters(login).get(ArmId.parse(CLUSTER.replace("plant", "nowhere")))


@pytest.mark.parametrize("answer", [{}, {"kubeconfigs": []}, {"kubeconfigs": [{"value": "YQ=="}]}])
def test_an_answer_without_a_kubeconfig(answer: dict[str, Any]) -> None:
    with pytest.raises(ClusterUnusable):
        kubeconfig_in(answer, PLANT)


def test_ids_are_read_once_and_all_problems_told() -> None:
    assert cluster_ids_of([CLUSTER, CLUSTER.upper()]) == [PLANT]
    with pytest.raises(ConfigInvalid) as caught:
        cluster_ids_of(["plant", CLUSTER, ""])
    assert [problem.path for problem in caught.value.problems] == ["cluster_ids[0]", "cluster_ids[2]"]
