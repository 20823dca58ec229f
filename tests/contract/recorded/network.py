# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Microsoft.Network: a gateway's subnet, operations that fail or take long, and what is busy."""

from __future__ import annotations

from . import GROUP, Recorded

VNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/{{vnet}}"
GATEWAY = f"{GROUP}/providers/Microsoft.Network/virtualNetworkGateways/{{gateway}}"
LIFECYCLE = "azure-service-operator Test_Networking_VirtualNetworkGateway_20250301_CRUD"

RETRYABLE = Recorded(
    "PUT",
    f"{VNET}/subnets/GatewaySubnet",
    429,
    {
        "error": {
            "code": "RetryableError",
            "message": "A retryable error occurred.",
            "details": [
                {
                    "code": "RetryableErrorDueToAnotherOperation",
                    "message": "Operation PutVirtualNetworkPeeringOperation "
                    f"(dca9636f-2e58-4d3e-8b4c-7928c7eb0c9d) is updating resource {VNET}. The call can be "
                    "retried in 12 seconds.",
                }
            ],
        }
    },
    {"Retry-After": "12"},
    "azure-service-operator Test_Network_v1api20201101_CreationAndDeletion #59",
)
RETRYABLE_WITHOUT_TIME = Recorded(
    "PUT",
    f"{VNET}/subnets/GatewaySubnet",
    429,
    {
        "error": {
            "code": "RetryableError",
            "message": "A retryable error occurred.",
            "details": [
                {
                    "code": "ReferencedResourceNotProvisioned",
                    "message": f"Cannot proceed with operation because resource {VNET} is not in Succeeded "
                    "state. Resource is in Updating state and the last operation that updated/is updating "
                    "the resource is PutSubnetOperation.",
                }
            ],
        }
    },
    {"X-Ms-Failure-Cause": "service"},
    "azure-service-operator Test_Compute_VM_20201201_CRUD #8",
)
SMALL_LETTERS = Recorded(
    "GET",
    f"{VNET}/subnets/gatewaysubnet",
    200,
    {
        "name": "gatewaysubnet",
        "id": f"{VNET}/subnets/gatewaysubnet",
        "properties": {"provisioningState": "Succeeded", "addressPrefix": "10.0.0.0/24", "delegations": []},
    },
    source=f"{LIFECYCLE} #13; the gateway in it is Succeeded in #48",
)
# The operation of a DELETE; the second DELETE worked.
DELETION_FAILED = Recorded(
    "GET",
    "/subscriptions/{subscription}/providers/Microsoft.Network/locations/westus2/operations/f3744fd3",
    200,
    {
        "status": "Failed",
        "error": {
            "code": "VmssGatewayDeploymentFailed",
            "message": "The gateway deployment operation failed due to an intermittent error. Please try "
            "again.",
            "details": [],
        },
    },
    source=f"{LIFECYCLE} #59",
)
RUNNING = Recorded(
    "GET",
    "/subscriptions/{subscription}/providers/Microsoft.Network/locations/westus2/operations/c913e49e",
    200,
    {"status": "InProgress"},
    {"Retry-After": "160"},
    f"{LIFECYCLE} #67",
)
IN_CAPITALS = (
    "/subscriptions/{subscription}/resourceGroups/NET/providers/Microsoft.Network/virtualNetworkGateways/"
    "FLEXNODE-VPN/ipConfigurations/DEFAULT"
)
IN_CAPITALS_SOURCE = "azure-cli test_network_vnet_peering #36"
GROUP_MISSING = Recorded(
    "DELETE",
    GATEWAY,
    404,
    {
        "error": {
            "code": "ResourceGroupNotFound",
            "message": "Resource group '{group}' could not be found.",
        }
    },
    {"X-Ms-Failure-Cause": "gateway"},
    f"{LIFECYCLE} #75",
)
