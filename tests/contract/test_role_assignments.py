# SPDX-License-Identifier: GPL-3.0-or-later
"""Role definitions and assignments, and what they come to in the cluster."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.mgmt.authorization.v2022_04_01 import models

from testbed import Testbed
from testbed.azure import Azure, Principal
from testbed.basics.clock import wait_for
from testbed.layout.identifiers import AKS_SERVER
from tests.contract.conftest import Worker
from tests.contract.sdk import Sdk, code

READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
CLUSTER_ADMIN = "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b"
SECONDS = 10


@pytest.fixture
def machine(azure: Azure) -> Iterator[Principal]:
    """Somebody to give roles to."""
    made = azure.app_registration(f"machine {uuid.uuid4()}")
    yield made
    azure.revoke(made)
    azure.remove_registration(made.name)


def assign(sdk: Sdk, azure: Azure, principal: Principal, role: str, name: str = "") -> Any:
    """Assign a role on the cluster."""
    definition = (
        f"/subscriptions/{azure.subscription_id}/providers/Microsoft.Authorization/roleDefinitions/{role}"
    )
    wanted = models.RoleAssignmentCreateParameters(
        role_definition_id=definition, principal_id=principal.object_id, principal_type="ServicePrincipal"
    )
    return sdk.authorization.role_assignments.create(azure.cluster_id, name or str(uuid.uuid4()), wanted)


def test_roles_are_found_by_name(azure: Azure, sdk: Worker) -> None:
    definitions = sdk("Reader").authorization.role_definitions
    name = "Azure Kubernetes Service RBAC Cluster Admin"
    (found,) = definitions.list(azure.cluster_id, filter=f"roleName eq '{name}'")
    assert found.name == CLUSTER_ADMIN
    assert found.role_type == "BuiltInRole"
    assert found.permissions[0].data_actions == ["Microsoft.ContainerService/managedClusters/*"]
    assert definitions.get(azure.cluster_id, CLUSTER_ADMIN).role_name == name
    assert len(list(definitions.list(azure.cluster_id))) > 10
    with pytest.raises(ResourceNotFoundError, match="RoleDefinitionDoesNotExist"):
        definitions.get(azure.cluster_id, str(uuid.UUID(int=1)))


def test_the_life_of_an_assignment(azure: Azure, sdk: Worker, machine: Principal) -> None:
    clients = sdk("Owner")
    assignments = clients.authorization.role_assignments
    made = assign(clients, azure, machine, READER)
    assert made.principal_id == machine.object_id
    assert made.scope == azure.cluster_id
    assert made.role_definition_id.endswith(READER)
    assert made.created_by == clients.principal.object_id
    assert assignments.get(azure.cluster_id, made.name).id == made.id
    assert assignments.get_by_id(made.id).name == made.name
    found = list(assignments.list_for_scope(azure.cluster_id, filter=f"principalId eq '{machine.object_id}'"))
    assert [one.id for one in found] == [made.id]
    group = assignments.list_for_resource(
        "testbed", "Microsoft.ContainerService", "managedClusters", "testbed", filter="atScope()"
    )
    assert made.id in [one.id for one in group]
    assert assignments.delete(azure.cluster_id, made.name).id == made.id
    assert assignments.delete(azure.cluster_id, made.name) is None
    with pytest.raises(ResourceNotFoundError, match="RoleAssignmentNotFound"):
        assignments.get(azure.cluster_id, made.name)


def test_the_same_twice(azure: Azure, sdk: Worker, machine: Principal) -> None:
    clients = sdk("Owner")
    made = assign(clients, azure, machine, READER)
    assert assign(clients, azure, machine, READER, made.name).id == made.id
    with pytest.raises(ResourceExistsError, match=made.name.replace("-", "")) as caught:
        assign(clients, azure, machine, READER)
    assert code(caught.value) == "RoleAssignmentExists"
    with pytest.raises(HttpResponseError, match="RoleAssignmentUpdateNotPermitted"):
        assign(clients, azure, machine, CLUSTER_ADMIN, made.name)


def test_nobody_can_be_given_a_role(azure: Azure, sdk: Worker) -> None:
    nobody = Principal("nobody", str(uuid.uuid4()), "", "")
    with pytest.raises(HttpResponseError) as caught:
        assign(sdk("Owner"), azure, nobody, READER)
    assert (caught.value.status_code, code(caught.value)) == (400, "PrincipalNotFound")


def test_a_contributor_gives_no_roles(azure: Azure, sdk: Worker, machine: Principal) -> None:
    with pytest.raises(HttpResponseError, match="roleAssignments/write") as caught:
        assign(sdk("Contributor"), azure, machine, READER)
    assert caught.value.status_code == 403


def test_a_caller_can_ask_what_it_may_do(azure: Azure, sdk: Worker) -> None:
    clients = sdk("Reader", scope=azure.cluster_id.rpartition("/providers/")[0])
    found = list(clients.authorization.permissions.list_for_resource_group("testbed"))
    assert [one.actions for one in found] == [["*/read"]]


def may_list_secrets(bed: Testbed, azure: Azure, principal: Principal) -> bool:
    """Whether a principal may do something in the cluster that not everybody may."""
    token = azure.token(principal, AKS_SERVER)
    return bed.cluster.allows(token, "list", "secrets")


def test_a_role_for_aks_becomes_a_real_binding_and_goes_with_it(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Principal
) -> None:
    clients = sdk("Owner")
    assert not may_list_secrets(bed, azure, machine)
    made = assign(clients, azure, machine, CLUSTER_ADMIN)
    wait_for("the binding", lambda: may_list_secrets(bed, azure, machine), SECONDS)
    clients.authorization.role_assignments.delete(azure.cluster_id, made.name)
    wait_for("the end of the binding", lambda: not may_list_secrets(bed, azure, machine), SECONDS)


def test_a_binding_takes_its_time(bed: Testbed, azure: Azure, sdk: Worker, machine: Principal) -> None:
    clients = sdk("Owner")
    azure.settings(rbac_delay=3600)
    assign(clients, azure, machine, CLUSTER_ADMIN)
    assert not may_list_secrets(bed, azure, machine)
    azure.settings(rbac_delay=0)
    wait_for("the binding", lambda: may_list_secrets(bed, azure, machine), SECONDS)


def test_a_reader_of_the_resource_is_nobody_in_the_cluster(
    bed: Testbed, azure: Azure, sdk: Worker, machine: Principal
) -> None:
    clients = sdk("Owner")
    assign(clients, azure, machine, READER)
    binding = assign(clients, azure, machine, CLUSTER_ADMIN)
    wait_for("the binding", lambda: may_list_secrets(bed, azure, machine), SECONDS)
    clients.authorization.role_assignments.delete(azure.cluster_id, binding.name)
    wait_for("the end of the binding", lambda: not may_list_secrets(bed, azure, machine), SECONDS)
