# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""From an answer of Azure to an error that helps."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    Identity,
    Refusal,
    action_of,
    explained,
    granted_scope,
    permission_error,
    role_for,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.arm_answers import ArmError
from tests.contract.recorded import Recorded, aks, arm
from tests.unit.controller.fake_azure import CLIENT, CLUSTER, OBJECT, SUBSCRIPTION

NODE = f"{CLUSTER}/flexNodeConfig/edge-1"
MISSING_CLUSTER = "the cluster set in flexnode_cluster_id"


@pytest.mark.parametrize(
    ("method", "path", "action"),
    [
        ("GET", CLUSTER, "Microsoft.ContainerService/managedClusters/read"),
        (
            "GET",
            f"{CLUSTER}/flexNodeConfig",
            "Microsoft.ContainerService/managedClusters/flexNodeConfig/read",
        ),
        ("PUT", NODE, "Microsoft.ContainerService/managedClusters/flexNodeConfig/write"),
        ("DELETE", NODE, "Microsoft.ContainerService/managedClusters/flexNodeConfig/delete"),
        (
            "POST",
            f"{NODE}/regenerateToken",
            "Microsoft.ContainerService/managedClusters/flexNodeConfig/regenerateToken/action",
        ),
        (
            "POST",
            f"{CLUSTER}/listClusterAdminCredential",
            "Microsoft.ContainerService/managedClusters/listClusterAdminCredential/action",
        ),
        ("GET", "/somewhere", "GET /somewhere"),
    ],
)
def test_the_action_that_a_request_needs(method: str, path: str, action: str) -> None:
    assert action_of(method, path) == action


@pytest.mark.parametrize(
    ("action", "role"),
    [
        (
            "Microsoft.ContainerService/managedClusters/listClusterAdminCredential/action",
            "Azure Kubernetes Service Cluster Admin Role",
        ),
        (
            "Microsoft.ContainerService/managedClusters/listClusterUserCredential/action",
            "Azure Kubernetes Service Cluster User Role",
        ),
        ("Microsoft.ContainerService/managedClusters/read", "Azure Kubernetes Service Cluster User Role"),
        ("Microsoft.ContainerService/managedClusters/flexNodeConfig/read", "Reader"),
        (
            "Microsoft.ContainerService/managedClusters/flexNodeConfig/regenerateToken/action",
            "Azure Kubernetes Service Contributor Role",
        ),
        ("Microsoft.Network/virtualNetworks/write", "Network Contributor"),
        ("Microsoft.Storage/storageAccounts/write", "Contributor"),
    ],
)
def test_the_smallest_role_for_an_action(action: str, role: str) -> None:
    assert role_for(action) == role


def test_roles_are_granted_on_the_cluster() -> None:
    assert granted_scope(f"{NODE}/regenerateToken") == CLUSTER
    assert granted_scope("/subscriptions/1") == "/subscriptions/1"


@pytest.mark.parametrize(
    ("message", "who", "expected"),
    [
        pytest.param(
            f"The client '{CLIENT}' with object id '{OBJECT}' does not have authorization to perform action "
            f"'Microsoft.ContainerService/managedClusters/read' over scope '{CLUSTER}' or it is invalid.",
            Identity(),
            [OBJECT, CLIENT, "managedClusters/read", "--assignee-principal-type ServicePrincipal"],
            id="as-arm-says",
        ),
        pytest.param(
            f"The client 'jo@example.com' with object id '{OBJECT}' does not have authorization",
            Identity(),
            [OBJECT, "--assignee-principal-type User", "managedClusters/flexNodeConfig/write"],
            id="a-person",
        ),
        pytest.param(
            "Forbidden.",
            Identity(OBJECT, CLIENT),
            [OBJECT, CLIENT, "managedClusters/flexNodeConfig/write", f"--scope {CLUSTER}"],
            id="arm-says-nothing",
        ),
        pytest.param("Forbidden.", Identity(), ["OBJECT_ID", "the signed-in identity"], id="nobody-knows"),
    ],
)
def test_a_missing_permission(message: str, who: Identity, expected: list[str]) -> None:
    error = permission_error(Refusal("PUT", NODE, 403, "AuthorizationFailed", message), who)
    assert error.code == "FLEX-1702"
    assert error.fix.startswith("az role assignment create --assignee-object-id ")
    assert [part for part in expected if part not in str(error)] == []


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        (401, "InvalidAuthenticationToken", "FLEX-1701"),
        (403, "AuthorizationFailed", "FLEX-1702"),
        (403, "LinkedAuthorizationFailed", "FLEX-1702"),
        (403, "RequestDisallowedByPolicy", "FLEX-1704"),
        (404, "ResourceNotFound", "FLEX-1703"),
        (400, "BadRequest", "FLEX-1704"),
        (409, "Conflict", "FLEX-1704"),
        (429, "TooManyRequests", "FLEX-1705"),
        (500, "InternalServerError", "FLEX-1705"),
        (503, "", "FLEX-1705"),
    ],
)
def test_every_answer_has_its_code(status: int, code: str, expected: str) -> None:
    assert explained(Refusal("PUT", NODE, status, code, "Because.")).code == expected


@pytest.mark.parametrize(
    ("path", "code", "missing"),
    [
        (CLUSTER, "ResourceNotFound", MISSING_CLUSTER),
        (
            f"{CLUSTER}/listClusterUserCredential",
            "ResourceNotFound",
            MISSING_CLUSTER,
        ),
        (NODE, "ParentResourceNotFound", MISSING_CLUSTER),
        (NODE, "ResourceNotFound", "this resource"),
        (NODE, "InvalidResourceType", "this resource"),
        (NODE, "ResourceGroupNotFound", "resource group rg of flexnode_cluster_id"),
        (CLUSTER, "ResourceGroupNotFound", "resource group rg of flexnode_cluster_id"),
        (CLUSTER, "SubscriptionNotFound", f"subscription {SUBSCRIPTION} of flexnode_cluster_id"),
        ("/subscriptions/1/resourceGroups/rg", "ResourceGroupNotFound", "resource group rg"),
    ],
)
def test_what_is_missing_is_named(path: str, code: str, missing: str) -> None:
    error = str(explained(Refusal("GET", path, 404, code, "Because.")))
    assert error.startswith(f"FLEX-1703: {missing} was not found in Azure ({path}): {code}: Because.\nfix: ")
    assert 'az aks list --subscription SUBSCRIPTION --query "[].id" -o tsv' in error


@pytest.mark.parametrize(
    ("code", "message", "itself"),
    [
        ("ResourceNotFound", "Because.", True),
        ("ResourceNotFound", f"The Resource '{NODE.upper()}' under resource group 'rg' was not found.", True),
        ("ResourceNotFound", f"The Resource '{CLUSTER}' under resource group 'rg' was not found.", False),
        ("NotFound", "The entity was not found.", False),
        ("AgentPoolNotFound", "Because.", False),
        ("ParentResourceNotFound", "Because.", False),
        ("ResourceGroupNotFound", "Resource group 'rg' could not be found.", False),
        ("SubscriptionNotFound", "The subscription '1' could not be found.", False),
        ("InvalidResourceType", "Because.", False),
        ("", "", False),
    ],
)
def test_only_the_resource_itself_counts_as_missing(code: str, message: str, itself: bool) -> None:
    refusal = Refusal("GET", NODE, 404, code, message)
    assert refusal.itself is itself
    if "under resource group" in message and not itself:
        assert refusal.missing == MISSING_CLUSTER


@pytest.mark.parametrize(
    ("answer", "path", "named"),
    [
        (aks.POOL_MISSING, aks.MACHINE_MISSING.path, "pool edge of flexnode_cluster_id"),
        (aks.POOL_MISSING, f"{aks.POOL_MISSING.path}/machines", "pool edge of flexnode_cluster_id"),
        (aks.CLUSTER_MISSING, aks.POOL_MISSING.path, MISSING_CLUSTER),
        (aks.CLUSTER_MISSING_AT_GATEWAY, aks.POOL_MISSING.path, MISSING_CLUSTER),
        (aks.CLUSTER_MISSING_2023, aks.CLUSTER_MISSING.path, MISSING_CLUSTER),
        (aks.GROUP_MISSING, aks.POOL_MISSING.path, "resource group rg of flexnode_cluster_id"),
        (aks.MACHINE_MISSING, aks.MACHINE_MISSING.path, "this resource"),
    ],
)
def test_what_azure_said_is_missing_is_named(answer: Recorded, path: str, named: str) -> None:
    assert refusal_of(answer, path).missing == named


def refusal_of(answer: Recorded, path: str, **places: str) -> Refusal:
    """A recorded answer to a request of a path."""
    found = answer.at(**places)
    error = ArmError.of(found.status, found.body)
    where = Recorded("", path, 0).at(**places).path
    return Refusal(
        answer.method, where, error.status, error.code, error.message, error.subcode, error.details
    )


def linked(path: str, **places: str) -> Refusal:
    """The recorded refusal, for other resources."""
    told = arm.LINKED.at(**places).body["error"]
    return Refusal("PUT", path, arm.LINKED.status, told["code"], told["message"])


def test_a_linked_right_is_granted_where_it_lacks() -> None:
    """Contradiction 6: the message begins with what the identity may do."""
    network = "providers/Microsoft.Network"
    hub = f"/subscriptions/2/resourceGroups/hub/{network}/virtualNetworks/hub/subnets/GatewaySubnet"
    gateway = f"/subscriptions/1/resourceGroups/net/{network}/virtualNetworkGateways/g"
    join, write = (
        f"Microsoft.Network/{part}"
        for part in ("virtualNetworks/subnets/join/action", "virtualNetworkGateways/write")
    )
    error = explained(linked(gateway, has=write, at=gateway, lacks=join, linked=hub))
    assert error.what == f"the identity may not {join}"
    assert error.where == "/subscriptions/2/resourceGroups/hub"
    assert error.fix == (
        f"az role assignment create --assignee-object-id {arm.CLIENT} "
        '--assignee-principal-type ServicePrincipal --role "Network Contributor" '
        "--scope /subscriptions/2/resourceGroups/hub"
    )
    address = "/subscriptions/3/resourceGroups/ips/providers/Microsoft.Network/publicIPAddresses/a"
    use = "Microsoft.Network/publicIPAddresses/join/action"
    both = {"lacks": f"{join},{use}", "linked": f"{hub},{address}"}
    two = explained(linked(gateway, has=write, at=gateway, **both))
    assert two.what == f"the identity may not {join}, {use}"
    assert two.fix.endswith("--scope /subscriptions/3/resourceGroups/ips")
    assert two.fix.count("az role assignment create") == 2
