# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resource Manager through the SDK's pipeline, against a server that misbehaves."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    AzureRefuses,
    AzureUnavailable,
    NotInAzure,
    PermissionMissing,
    SignInFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.flexnode_config.api import (
    FlexNodes,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import (
    Login,
    sign_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.settings import settings_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.values import ArmId
from tests.contract.recorded import Recorded, aks
from tests.unit.controller.fake_azure import (
    CLIENT,
    CLUSTER,
    OBJECT,
    SUBSCRIPTION,
    VERSION,
    FakeAzure,
    Fault,
    refusal,
)
from tests.unit.node.servers import Answer, answer_json

BUSY = refusal(429, "TooManyRequests", "Slow down.", Retry_After="1")
ONE = r"/flexNodeConfig/edge-1"


@pytest.fixture
def nodes(arm: Arm) -> FlexNodes:
    return FlexNodes(arm, ArmId.parse(CLUSTER))


def test_a_list_is_followed_to_its_end(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.nodes, azure.page = {f"edge-{n}": {} for n in range(7)}, 3
    assert [node["name"] for node in nodes.list()] == sorted(azure.nodes)
    assert azure.asked("GET .*/flexNodeConfig") == 3


def test_many_requests_are_one_login(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.nodes = {"edge-1": {}}
    for _request in range(5):
        nodes.get("edge-1")
    assert azure.asked("POST .*/oauth2/") == 1


def test_what_azure_asks_to_wait_is_waited(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.nodes = {"edge-1": {}}
    nodes.get("edge-1")
    azure.faults = [Fault(f"GET .*{ONE}", BUSY)]
    azure.times.clear()
    assert nodes.get("edge-1")
    assert azure.times[1] - azure.times[0] >= 1


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(refusal(503, "ServerUnavailable", "Try again.", Retry_After="0"), id="503"),
        pytest.param(refusal(429, "TooManyRequests", "Slow down."), id="429"),
        pytest.param(Answer(b'{"properties": {}}', cut=3), id="cut"),
    ],
)
def test_a_change_survives_bad_answers(
    azure: FakeAzure, nodes: FlexNodes, method: str, answer: Answer
) -> None:
    azure.nodes = {"edge-1": {}}
    azure.faults = [Fault(f"{method} .*{ONE}", answer)]
    if method == "PUT":
        assert nodes.put("edge-1", {}, need_url=True).config_url
    elif method == "POST":
        assert nodes.regenerate("edge-1").config_url
    else:
        nodes.delete("edge-1")
        assert azure.nodes == {}
    assert azure.asked(f"{method} .*{ONE}") == 2


def test_a_long_operation_is_followed_to_its_end(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.slow_put = True
    issued = nodes.put("edge-1", {"versions": {}}, need_url=True)
    assert azure.asked("GET /operations/") == 2
    # Its end is the resource, which never shows the address.
    assert (azure.asked("POST .*/regenerateToken"), bool(issued.config_url)) == (1, True)


def test_an_operation_that_does_not_end_is_an_error(azure: FakeAzure, login: Login) -> None:
    azure.slow_put = True
    azure.faults = [Fault("GET /operations/", answer_json({"name": "1", "status": "InProgress"}), 10**6)]
    impatient = Arm(login, VERSION, poll_interval=0.05, operation_timeout=0.5)
    with pytest.raises(AzureUnavailable, match="does not finish") as caught:
        FlexNodes(impatient, ArmId.parse(CLUSTER)).put("edge-1", {}, need_url=True)
    assert f"PUT {CLUSTER}/flexNodeConfig/edge-1" in str(caught.value)
    azure.faults.clear()  # the SDK's thread ends, too


def test_one_that_does_not_exist_is_none(nodes: FlexNodes) -> None:
    assert nodes.get("edge-9") is None


def test_a_cluster_that_does_not_exist_is_an_error(arm: Arm) -> None:
    other = FlexNodes(arm, ArmId.parse(CLUSTER.replace("plant", "nowhere")))
    with pytest.raises(NotInAzure, match="nowhere"):
        list(other.list())


def test_a_missing_cluster_is_not_a_missing_node(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.faults = [Fault(ONE, refusal(404, "ParentResourceNotFound", "No such cluster."))]
    with pytest.raises(NotInAzure, match="No such cluster"):
        nodes.get("edge-1")


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        (aks.MACHINE_MISSING, ""),
        (aks.MACHINE_OF_MISSING_POOL, "pool edge of flexnode_cluster_id was not found"),
        (aks.MACHINE_OF_MISSING_CLUSTER, "the cluster set in flexnode_cluster_id was not found"),
        (aks.MACHINE_OF_MISSING_CLUSTER_AT_GATEWAY, "the cluster set in flexnode_cluster_id was not found"),
        (aks.GROUP_MISSING, "resource group rg of flexnode_cluster_id was not found"),
    ],
)
def test_a_machine_is_absent_only_in_a_pool_that_exists(
    azure: FakeAzure, arm: Arm, answer: Recorded, named: str
) -> None:
    """Contradiction 2: AKS says NotFound of a machine, a pool and a cluster."""
    azure.faults = [Fault("GET .*/machines/edge-1", answer.at().sent(Answer))]
    path = f"{CLUSTER}/agentPools/edge/machines/edge-1"
    if not named:
        assert arm.get(path) is None
        return
    with pytest.raises(NotInAzure, match=named):
        arm.get(path)


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("ResourceGroupNotFound", "resource group rg of flexnode_cluster_id"),
        ("SubscriptionNotFound", f"subscription {SUBSCRIPTION} of flexnode_cluster_id"),
    ],
)
def test_in_a_mistyped_group_nothing_is_taken_for_absent(
    azure: FakeAzure, nodes: FlexNodes, code: str, named: str
) -> None:
    azure.faults = [Fault(ONE, refusal(404, code, "It could not be found."))]
    with pytest.raises(NotInAzure, match=f"{named} was not found in Azure"):
        nodes.get("edge-1")


def test_a_missing_permission_names_all_that_helps(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.forbidden = "PUT"
    with pytest.raises(PermissionMissing) as caught:
        nodes.put("edge-1", {}, need_url=True)
    text = str(caught.value)
    assert OBJECT in text
    assert CLIENT in text
    assert "Microsoft.ContainerService/managedClusters/flexNodeConfig/write" in text
    assert f"az role assignment create --assignee-object-id {OBJECT}" in text
    assert f'--role "Azure Kubernetes Service Contributor Role" --scope {CLUSTER}' in text


def test_a_refusal_is_told_in_azures_words(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.faults = [Fault("PUT", refusal(400, "InvalidParameter", "maxPods is too big."))]
    with pytest.raises(AzureRefuses, match=r"InvalidParameter: maxPods is too big"):
        nodes.put("edge-1", {}, need_url=True)


def test_what_stays_busy_is_an_error_in_the_end(azure: FakeAzure, nodes: FlexNodes) -> None:
    azure.faults = [
        Fault("GET .*/flexNodeConfig", refusal(429, "TooManyRequests", "No.", Retry_After="0"), 99)
    ]
    with pytest.raises(AzureUnavailable, match="HTTP 429"):
        nodes.get("edge-1")


def test_a_wrong_secret_is_a_failed_login(azure: FakeAzure) -> None:
    wrong = sign_in(settings_of({}, {**azure.environment, "AZURE_SECRET": "wr0ng"}))
    with pytest.raises(SignInFailed, match="AADSTS7000215") as caught:
        FlexNodes(Arm(wrong, VERSION, 0), ArmId.parse(CLUSTER)).get("edge-1")
    assert "wr0ng" not in str(caught.value)
    assert "Trace ID" not in str(caught.value)


def test_an_address_where_nobody_is(login: Login, azure: FakeAzure) -> None:
    environment = {**azure.environment, "AZURE_RESOURCE_MANAGER_ENDPOINT": "https://127.0.0.1:9"}
    lost = Arm(sign_in(settings_of({}, environment)), VERSION, 0)
    with pytest.raises(AzureUnavailable, match="Connection refused"):
        FlexNodes(lost, ArmId.parse(CLUSTER)).get("edge-1")


ITS_OWN = refusal(404, "ResourceNotFound", f"The Resource '{CLUSTER}/flexNodeConfig/edge-1' is not.")
OF_OTHERS = {
    "an operation": answer_json({"code": "NotFound", "subcode": "GetOperation_NotFound_HCPServerError"}, 404),
    "an operation's code": refusal(404, "OperationNotFound", "The operation was not found."),
    "an address": refusal(
        404, "ResourceNotFound", "The Resource 'Microsoft.Network/publicIPAddresses/x' is not."
    ),
    "a subnet": answer_json({"code": "NotFound", "details": [{"message": "desc = Subnet not found"}]}, 404),
    "anything": refusal(404, "NotFound", "The entity was not found."),
}


@pytest.mark.parametrize("answer", OF_OTHERS.values(), ids=OF_OTHERS)
def test_a_404_of_something_else_deletes_nothing(azure: FakeAzure, arm: Arm, answer: Answer) -> None:
    azure.nodes = {"edge-1": {}}
    azure.faults = [Fault(f"DELETE .*{ONE}", answer)]
    with pytest.raises(NotInAzure):
        arm.change("DELETE", f"{CLUSTER}/flexNodeConfig/edge-1")


@pytest.mark.parametrize("answer", [ITS_OWN, *OF_OTHERS.values()], ids=["itself", *OF_OTHERS])
@pytest.mark.parametrize("there", [True, False])
def test_an_operation_that_is_missing_is_no_deletion(
    azure: FakeAzure, arm: Arm, answer: Answer, there: bool
) -> None:
    """Azure accepted it, then forgot the operation: only the resource says whether it is gone."""
    azure.nodes = {"edge-1": {}} if there else {}
    where = f"{azure.server.url}/operations/1?api-version={VERSION}"
    azure.faults = [
        Fault(f"DELETE .*{ONE}", Answer(status=202, headers={"Azure-AsyncOperation": where})),
        Fault("GET /operations/", answer),
    ]
    if not there:
        assert arm.change("DELETE", f"{CLUSTER}/flexNodeConfig/edge-1") == ({}, {})
        return
    with pytest.raises(AzureUnavailable, match="no longer knows the operation"):
        arm.change("DELETE", f"{CLUSTER}/flexNodeConfig/edge-1")
