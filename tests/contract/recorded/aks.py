# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Microsoft.ContainerService: what is missing, what is refused, and a FlexNodes pool with its machine."""

from __future__ import annotations

from typing import Any

from . import CLUSTER, MACHINE, POOL, Recorded

GATEWAY = {"X-Ms-Failure-Cause": "gateway"}
FLEXNODES = "azure-cli-extensions test_aks_flexnodes_supported_operations"
NOT_FOUND = "rpc error: code = NotFound desc = {what} not found"


def _of_aks(what: str, message: str, subcode: str, code: str = "NotFound") -> dict[str, Any]:
    """An error of AKS itself: without the envelope `error`."""
    details = [{"code": "Unspecified", "message": NOT_FOUND.replace("{what}", what)}]
    return {"code": code, "details": details, "message": message, "subcode": subcode}


def _of_gateway(code: str, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


# -- 404 ---------------------------------------------------------------------------------------------------

MACHINE_MISSING = Recorded(
    "GET",
    MACHINE,
    404,
    _of_aks("Machine", "The entity was not found.", "GetMachine_NotFound_HCPServerError"),
    source=f"{FLEXNODES} #38; the same in test_aks_machines_nodepool and test_aks_machine_add_spot",
)
POOL_MISSING = Recorded(
    "GET",
    POOL,
    404,
    _of_aks(
        "Agent Pool",
        "Could not find the agentpool: {pool} in subscription: {subscription}, resourceGroup: {group}, "
        "resourceName: {cluster}.",
        "GetAgentPool_NotFound_HCPServerError",
    ),
    source="azure-service-operator Test_AKS_ManagedCluster_20251002preview_CRUD #42",
)
CLUSTER_MISSING = Recorded(
    "GET",
    CLUSTER,
    404,
    _of_aks(
        "Managed Cluster",
        "Could not find managed cluster resource: {cluster} in subscription: {subscription}, "
        "resourceGroup: {group}.",
        "GetManagedCluster_NotFound_HCPServerError",
    ),
    source="azure-service-operator Test_AKS_ManagedCluster_20251002preview_CRUD #72",
)
CLUSTER_MISSING_2023 = Recorded(
    "GET",
    CLUSTER,
    404,
    {**CLUSTER_MISSING.body, "subcode": "GetManagedCluster_NotFound"},
    source="azure-cli test_aks_create_scale_with_custom_nodepool_name_msi #37",
)
CLUSTER_MISSING_AT_GATEWAY = Recorded(
    "GET",
    CLUSTER,
    404,
    _of_gateway(
        "ResourceNotFound",
        "The Resource 'Microsoft.ContainerService/managedClusters/{cluster}' under resource group '{group}' "
        "was not found. For more details please go to https://aka.ms/ARMResourceNotFoundFix",
    ),
    GATEWAY,
    "azure-service-operator Test_AKS_ManagedCluster_20250801_CRUD #69; the same for DELETE of agentPools "
    "below it: Test_Containerservice_v20251002preview_CreationAndDeletion #84",
)
GROUP_MISSING = Recorded(
    "DELETE",
    POOL,
    404,
    _of_gateway("ResourceGroupNotFound", "Resource group '{group}' could not be found."),
    GATEWAY,
    "azure-service-operator Test_Containerservice_v1api20250801_CreationAndDeletion #93",
)
PARENT_MISSING = Recorded(
    "DELETE",
    MACHINE,
    404,
    _of_gateway(
        "ParentResourceNotFound",
        "Failed to perform 'delete' on resource(s) of type 'managedClusters/agentPools', because the parent "
        f"resource '{CLUSTER}' could not be found.",
    ),
    GATEWAY,
    "azure-service-operator Test_AKS_Fleet_20250301_CRUD #51, there of fleets/members",
)
# A provider that names what is missing by its name only.
NAMED_WITHOUT_ID = Recorded(
    "GET",
    f"{CLUSTER}/providers/Microsoft.KubernetesConfiguration/extensions/{{machine}}",
    404,
    {
        "error": {
            "code": "ResourceNotFound",
            "message": "Extension instance with name '{machine}' not found.",
            "additionalInfo": [],
        }
    },
    source="azure-service-operator Test_KubernetesConfiguration_Extension_20230501_CRUD #34",
)
# Nobody recorded the GET of a machine in a pool that is gone: AKS may answer as it does for the pool itself.
MACHINE_OF_MISSING_POOL = Recorded("GET", MACHINE, 404, POOL_MISSING.body, belief=True)
MACHINE_OF_MISSING_CLUSTER = Recorded("GET", MACHINE, 404, CLUSTER_MISSING.body, belief=True)
MACHINE_OF_MISSING_CLUSTER_AT_GATEWAY = Recorded(
    "GET", MACHINE, 404, CLUSTER_MISSING_AT_GATEWAY.body, GATEWAY, belief=True
)

# -- 409 ---------------------------------------------------------------------------------------------------

ANOTHER_OPERATION = Recorded(
    "DELETE",
    CLUSTER,
    409,
    {
        "code": "EtagMismatch",
        "details": [
            {
                "code": "Unspecified",
                "message": "rpc error: code = FailedPrecondition desc = Etag mismatched",
            }
        ],
        "message": "Operation is not allowed: Another operation is in progress. Please refer "
        "https://aka.ms/aks/aksoperationpreempted to for more details.",
        "subcode": "PutManagedClusterAndComponents_FailedPrecondition_HCPServerError",
    },
    source="azure-cli-extensions test_aks_update_with_transit_encryption_type_mtls #23",
)
POLICY = Recorded(
    "PUT",
    CLUSTER,
    409,
    {
        "code": "OperationNotAllowed",
        "details": None,
        "message": "Operation 'PutManagedClusterHandler.PUT' is blocked by node disruption policy.",
        "subcode": "OperationBlockedByNodeDisruptionPolicy",
    },
    source="azure-cli-extensions test_aks_update_node_disruption_policy #31",
)

# -- 5xx ---------------------------------------------------------------------------------------------------

GATEWAY_TIMEOUT = Recorded(
    "GET",
    MACHINE,
    504,
    _of_gateway(
        "GatewayTimeout",
        "The gateway did not receive a response from 'Microsoft.ContainerService' within the specified time "
        "period.",
    ),
    {"X-Ms-Failure-Cause": "service"},
    "azure-cli test_aks_approuting_zone_add_delete_list #44, there of an operation",
)

# -- a FlexNodes pool and its machine ----------------------------------------------------------------------

_POOL: dict[str, Any] = {
    "id": POOL.replace("resourceGroups", "resourcegroups"),
    "name": "{pool}",
    "properties": {
        "maxPods": 75,
        "type": "FlexNodes",
        "provisioningState": "Succeeded",
        "orchestratorVersion": "1.35.6",
        "currentOrchestratorVersion": "1.35.6",
        "nodeLabels": {"source": "updated"},
        "nodeTaints": ["source=updated:NoSchedule"],
        "mode": "User",
        "upgradeSettings": {"maxUnavailable": "30%"},
        "eTag": "7e865351-d4c8-45c2-b6f0-2a52441bdf65",
    },
}
POOL_THERE = Recorded("GET", POOL, 200, _POOL, source=f"{FLEXNODES} #36")
# Read again 3 s later, after listBootstrapData and the GET of a machine, and no write in between.
POOL_WITH_ANOTHER_ETAG = Recorded(
    "GET",
    POOL,
    200,
    {**_POOL, "properties": {**_POOL["properties"], "eTag": "9e4cdc25-7d2c-48d5-9128-21bf0a19504d"}},
    source=f"{FLEXNODES} #39",
)
# What a PUT with maxUnavailable 50% is answered with, and what is there afterwards: 30% stays.
MAX_UNAVAILABLE_STAYS = Recorded("PUT", POOL, 200, _POOL, source=f"{FLEXNODES} #32 and #53")

_MACHINE: dict[str, Any] = {
    "id": MACHINE.replace("resourceGroups", "resourcegroups"),
    "name": "{machine}",
    "type": "Microsoft.ContainerService/managedClusters/agentPools/machines",
    "properties": {
        "eTag": "bbba4e07-296c-451e-b7f7-8a15c5461542",
        "kubernetes": {
            "currentOrchestratorVersion": "1.35.6",
            "maxPods": 60,
            "nodeLabels": {
                "kubernetes.azure.com/agentpool": "{pool}",
                "kubernetes.azure.com/managed": "false",
                "kubernetes.azure.com/mode": "user",
                "kubernetes.azure.com/nodepool-type": "FlexNodes",
                "machine": "initial",
                "source": "updated",
            },
            "nodeName": "{machine}",
            "nodeTaints": ["machine=initial:NoSchedule"],
            "orchestratorVersion": "1.35.6",
        },
        "provisioningState": "Succeeded",
    },
}
MACHINE_THERE = Recorded("GET", MACHINE, 200, _MACHINE, source=f"{FLEXNODES} #41")
NEXT = f"{POOL}/machines?$skipToken=482946&api-version=2026-05-02-preview&skipToken=482946"
# Each page with entries has a nextLink, here below the server of the test; the last page is empty.
MACHINES_FIRST_PAGE = Recorded(
    "GET",
    f"{POOL}/machines",
    200,
    {"value": [_MACHINE], "nextLink": f"{{server}}{NEXT}"},
    source=f"{FLEXNODES} #42",
)
MACHINES_LAST_PAGE = Recorded("GET", f"{POOL}/machines", 200, {"value": []}, source=f"{FLEXNODES} #43")
NO_MACHINES = Recorded(
    "GET", f"{POOL}/machines", 200, {"value": []}, source=f"{FLEXNODES} #51, after deleteMachines"
)
