# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which roles an identity lacks, from what it has been granted."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.azure_roles import (
    Grant,
    assignment_command,
    missing_roles,
    needed_by,
    scope_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import ROLES, Role
from tests.unit.node.config.test_samples import CLUSTER, PRINCIPAL, TENANT, TOKEN, joining

ALL = READER, RBAC_CLUSTER_ADMIN, CLUSTER_ADMIN = tuple(ROLES.values())[:3]
OF_POOL = ROLES["flex-node-agent"]
AKS = "Microsoft.ContainerService/managedClusters"


def grant(**lists: tuple[str, ...]) -> Grant:
    """An item of ARM's answer."""
    keys = {"not_actions": "notActions", "data_actions": "dataActions"}
    return {keys.get(name, name): list(values) for name, values in lists.items()}


# The built-in roles' permissions, as ARM lists them.
READ = grant(actions=("*/read",))
RBAC_ADMIN = grant(
    actions=("Microsoft.Authorization/*/read", f"{AKS}/listClusterUserCredential/action"),
    data_actions=(f"{AKS}/*",),
)
ADMIN = grant(
    actions=(
        f"{AKS}/listClusterAdminCredential/action",
        f"{AKS}/accessProfiles/listCredential/action",
        f"{AKS}/read",
    )
)


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        ((), ALL),
        ((READ,), (RBAC_CLUSTER_ADMIN, CLUSTER_ADMIN)),
        ((ADMIN,), (RBAC_CLUSTER_ADMIN,)),  # reads the cluster too
        ((READ, RBAC_ADMIN, ADMIN), ()),
        ((grant(actions=("*",)),), (RBAC_CLUSTER_ADMIN,)),  # an Owner may not act inside of Kubernetes
        ((grant(actions=("*",), data_actions=("*",)),), ()),
        ((grant(actions=("*",), not_actions=(f"{AKS}/read",)),), (READER, RBAC_CLUSTER_ADMIN)),
        ((grant(actions=("*",), not_actions=(f"{AKS}/read",)), READ), (RBAC_CLUSTER_ADMIN,)),
        ((grant(data_actions=(f"{AKS}/pods/read",)),), ALL),
    ],
)
def test_missing_roles(granted: tuple[Grant, ...], missing: tuple[Role, ...]) -> None:
    assert missing_roles(granted, ALL) == missing


IDENTITY: dict[str, Any] = {
    "azure": {"servicePrincipal": PRINCIPAL, "tenantId": TENANT, "bootstrapToken": None}
}
TOKEN_AND_IDENTITY: dict[str, Any] = {
    "azure": {"servicePrincipal": PRINCIPAL, "tenantId": TENANT, "bootstrapToken": {"token": TOKEN}}
}


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, ()),
        (IDENTITY, ()),
        ({**IDENTITY, "continuousMonitoring": True}, (READER,)),
        ({**IDENTITY, "kubernetesAuth": {"profile": "token"}}, ALL[1:]),
        ({**IDENTITY, "kubernetesAuth": {"profile": "token"}, "continuousMonitoring": True}, ALL),
        ({**TOKEN_AND_IDENTITY, "continuousMonitoring": True}, (READER,)),
        (TOKEN_AND_IDENTITY, ()),
        ({"azure": {**TOKEN_AND_IDENTITY["azure"], "targetAgentPoolName": "edge"}}, ()),
        (
            {
                "azure": {**TOKEN_AND_IDENTITY["azure"], "targetAgentPoolName": "edge"},
                "continuousMonitoring": True,
            },
            (OF_POOL,),
        ),
    ],
)
def test_what_each_choice_needs(changes: dict[str, Any], needed: tuple[Role, ...]) -> None:
    found = needed_by(parse(joining(changes))).values()
    assert {role for roles in found for role in roles} == set(needed)


def test_the_command_names_who_what_and_where() -> None:
    assert assignment_command(READER, "some-oid", CLUSTER) == (
        "az role assignment create --assignee-object-id some-oid --assignee-principal-type ServicePrincipal "
        f"--role acdd72a7-3385-48ef-bd42-f606fba81ae7 --scope {CLUSTER}"
    )
    assert "OBJECT_ID_OF_THE_IDENTITY" in assignment_command(READER, "", CLUSTER)
    assert assignment_command(READER, "x", "/rg(1)/plant").endswith("--scope '/rg(1)/plant'")


def test_roles_of_a_pool_are_needed_there() -> None:
    pool = {"azure": {**TOKEN_AND_IDENTITY["azure"], "targetAgentPoolName": "edge"}}
    assert scope_of(parse(joining(pool))) == f"{CLUSTER}/agentPools/edge"
    assert scope_of(parse(joining({}))) == CLUSTER


def test_each_identity_needs_what_it_serves() -> None:
    mixed = {
        "azure": {**IDENTITY["azure"], "arc": {"enabled": True}, "targetCluster": {"location": "westeurope"}},
        "kubernetesAuth": {"method": "servicePrincipal", "profile": "token"},
        "azureAuth": {"method": "arc"},
        "continuousMonitoring": True,
    }
    assert needed_by(parse(joining(mixed))) == {
        "azure": (READER,),
        "kubernetes": (RBAC_CLUSTER_ADMIN, CLUSTER_ADMIN),
    }
