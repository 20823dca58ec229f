# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resource Manager and Microsoft.Authorization: who may not, role assignments, throttling."""

from __future__ import annotations

from . import CLUSTER, GROUP, Recorded

GATEWAY = {"X-Ms-Failure-Cause": "gateway"}
CLIENT = "9c4fb1bb-32a2-469b-a0b6-d1f84590e8a0"
ASSIGNMENT = "providers/Microsoft.Authorization/roleAssignments/{assignment}"

# Quoted inside a deployment's error; the action and the linked scope are those of the recording.
LINKED = Recorded(
    "PUT",
    "/subscriptions/{subscription}/providers/Microsoft.Authorization/roleDefinitions/"
    "40149aaa-39b2-5eb9-a670-d0ad244f11d0",
    403,
    {
        "error": {
            "code": "LinkedAuthorizationFailed",
            "message": f"The client '{CLIENT}' with object id '{CLIENT}' has permission to perform action "
            "'{has}' on scope '{at}'; however, it does not have permission to perform action(s) '{lacks}' "
            "on the linked scope(s) '{linked}' (respectively) or the linked scope(s) are invalid.",
        }
    },
    source="azure-cli test_subscription_level_deployment #9",
)
ASSIGNMENT_GONE = Recorded(
    "DELETE",
    f"{GROUP}/{ASSIGNMENT}",
    204,
    source="azure-service-operator Test_DataProtection_BackupInstance_20231101_CRUD #153",
)
ASSIGNMENT_OF_GONE_GROUP = Recorded(
    "DELETE",
    f"{CLUSTER}/{ASSIGNMENT}",
    404,
    {
        "error": {
            "code": "ResourceGroupNotFound",
            "message": "Resource group '{group}' could not be found.",
        }
    },
    GATEWAY,
    "azure-service-operator Test_DataProtection_BackupInstance_20231101_CRUD #157",
)
ASSIGNMENT_OF_GONE_RESOURCE = Recorded(
    "DELETE",
    f"{GROUP}/providers/Microsoft.Network/virtualNetworks/{{vnet}}/{ASSIGNMENT}",
    404,
    {
        "error": {
            "code": "ResourceNotFound",
            "message": "The Resource 'Microsoft.Network/virtualNetworks/{vnet}' under resource group "
            "'{group}' was not found. For more details please go to "
            "https://aka.ms/ARMResourceNotFoundFix",
        }
    },
    GATEWAY,
    "azure-service-operator Test_RedHatOpenShift_OpenShiftCluster_CRUD #108",
)
# Scopes that a list with atScope() at a resource group has, beside its own.
SCOPES_ABOVE = (
    "/",
    "/subscriptions/{subscription}",
    "/providers/Microsoft.Management/managementGroups/72f988bf-86f1-41af-91ab-2d7cd011db47",
)
SCOPES_ABOVE_SOURCE = "azure-cli test_role_assignment_create_update #3"
THROTTLED = Recorded(
    "DELETE",
    f"{GROUP}/providers/Microsoft.HybridCompute/machines/{{machine}}/extensions/testextension",
    429,
    {
        "error": {
            "code": "SubscriptionRequestsThrottled",
            "message": "Number of requests for subscription '{subscription}' and operation 'DELETE/"
            "SUBSCRIPTIONS/RESOURCEGROUPS/PROVIDERS/MICROSOFT.HYBRIDCOMPUTE/MACHINES/EXTENSIONS/' exceeded "
            "the backend storage limit. Please try again after '6' seconds.",
        }
    },
    source="azure-cli-extensions test_machine_and_extension #39",
)
# Arc machines of one list of 101: the identity of some.
ARC_IDENTITIES = (
    {"type": "SystemAssigned", "principalId": "6b5f56b9-3748-4a07-8c97-c065d5b3a0ad"},
    {"type": "UserAssigned"},
    None,
)
ARC_IDENTITIES_SOURCE = "azure-cli-extensions test_machine_and_extension #2"
ARC_MISSING = Recorded(
    "GET",
    f"{GROUP}/providers/Microsoft.HybridCompute/machines/{{machine}}",
    404,
    {
        "error": {
            "code": "ResourceNotFound",
            "message": "The Resource 'Microsoft.HybridCompute/machines/{machine}' under resource group "
            "'{group}' was not found. For more details please go to "
            "https://aka.ms/ARMResourceNotFoundFix",
        }
    },
    GATEWAY,
    "azure-powershell Remove-AzConnectedMachine #1",
)
