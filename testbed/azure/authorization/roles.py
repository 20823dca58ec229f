# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure's built-in roles, as far as they matter here, and what they allow."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

DEFINITIONS = "/providers/Microsoft.Authorization/roleDefinitions/"
CLUSTERS = "Microsoft.ContainerService/managedClusters"
FLEX_NODE_AGENT = "8f139b0f-7eaf-460b-a9da-5b1246d9ed0d"
SUPPORT = (
    "Microsoft.Authorization/*/read",
    "Microsoft.Insights/alertRules/*",
    "Microsoft.Resources/deployments/*",
    "Microsoft.Resources/subscriptions/resourceGroups/read",
    "Microsoft.Support/*",
)


@dataclass(frozen=True)
class Role:
    """A role definition."""

    id: str
    name: str
    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    data_actions: tuple[str, ...] = ()
    cluster_role: str = ""
    """The Kubernetes role that its data actions come to."""

    def allows(self, action: str) -> bool:
        """Whether it holds an action of Resource Manager."""
        return _among(action, self.actions) and not _among(action, self.not_actions)


def _among(action: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(action.lower(), pattern.lower()) for pattern in patterns)


ROLES = (
    Role("8e3af657-a8ff-443c-a75c-2fe8c4bcb635", "Owner", ("*",)),
    Role(
        "b24988ac-6180-42a0-ab88-20f7382dd24c",
        "Contributor",
        ("*",),
        (
            "Microsoft.Authorization/*/Delete",
            "Microsoft.Authorization/*/Write",
            "Microsoft.Authorization/elevateAccess/Action",
        ),
    ),
    Role("acdd72a7-3385-48ef-bd42-f606fba81ae7", "Reader", ("*/read",)),
    Role(
        "18d7d88d-d35e-4fb5-a5c3-7773c20a72d9",
        "User Access Administrator",
        ("*/read", "Microsoft.Authorization/*", "Microsoft.Support/*"),
    ),
    Role(
        "f58310d9-a9f6-439a-9e8d-f62e7b41a168",
        "Role Based Access Control Administrator",
        (
            "Microsoft.Authorization/roleAssignments/write",
            "Microsoft.Authorization/roleAssignments/delete",
            "*/read",
            "Microsoft.Support/*",
        ),
    ),
    Role(
        "0ab0b1a8-8aac-4efd-b8c2-3ee1fb270be8",
        "Azure Kubernetes Service Cluster Admin Role",
        (
            f"{CLUSTERS}/listClusterAdminCredential/action",
            f"{CLUSTERS}/accessProfiles/listCredential/action",
            f"{CLUSTERS}/read",
            f"{CLUSTERS}/runcommand/action",
        ),
    ),
    Role(
        "4abbcc35-e782-43d8-92c5-2d3f1bd2253f",
        "Azure Kubernetes Service Cluster User Role",
        (f"{CLUSTERS}/listClusterUserCredential/action", f"{CLUSTERS}/read"),
    ),
    Role(
        "ed7f3fbd-7b88-4dd4-9017-9adb7ce333f8",
        "Azure Kubernetes Service Contributor Role",
        (
            "Microsoft.Authorization/*/read",
            "Microsoft.ContainerService/locations/*",
            f"{CLUSTERS}/*",
            "Microsoft.Insights/alertRules/*",
            "Microsoft.Resources/deployments/*",
            "Microsoft.Resources/subscriptions/resourceGroups/read",
        ),
    ),
    Role(
        FLEX_NODE_AGENT,
        "Azure Kubernetes Service Flex Node Agent Role",
        (
            f"{CLUSTERS}/agentPools/listBootstrapData/action",
            f"{CLUSTERS}/agentPools/machines/read",
            f"{CLUSTERS}/agentPools/machines/write",
        ),
    ),
    Role(
        "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b",
        "Azure Kubernetes Service RBAC Cluster Admin",
        (*SUPPORT, f"{CLUSTERS}/listClusterUserCredential/action"),
        data_actions=(f"{CLUSTERS}/*",),
        cluster_role="cluster-admin",
    ),
    Role(
        "3498e952-d568-435e-9b2c-8d77e338d7f7",
        "Azure Kubernetes Service RBAC Admin",
        (*SUPPORT, f"{CLUSTERS}/listClusterUserCredential/action"),
        data_actions=(f"{CLUSTERS}/*",),
        cluster_role="admin",
    ),
    Role(
        "a7ffa36f-339b-4b5c-8bdf-e2c188b2c0eb",
        "Azure Kubernetes Service RBAC Writer",
        SUPPORT,
        data_actions=(f"{CLUSTERS}/*/read", f"{CLUSTERS}/*/write", f"{CLUSTERS}/*/delete"),
        cluster_role="edit",
    ),
    Role(
        "7f6c6a51-bcf8-42ba-9220-52d62157d7db",
        "Azure Kubernetes Service RBAC Reader",
        SUPPORT,
        data_actions=(f"{CLUSTERS}/*/read",),
        cluster_role="view",
    ),
    Role(
        "b64e21ea-ac4e-4cdf-9dc9-5b892992bee7",
        "Azure Connected Machine Onboarding",
        ("Microsoft.HybridCompute/machines/read", "Microsoft.HybridCompute/machines/write"),
    ),
    Role(
        "cd570a14-e51a-42ad-bac8-bafd67325302",
        "Azure Connected Machine Resource Administrator",
        ("Microsoft.HybridCompute/machines/*", "Microsoft.HybridCompute/*/read"),
    ),
    Role("4d97b98b-1d4f-4787-a291-c67834d212e7", "Network Contributor", (*SUPPORT, "Microsoft.Network/*")),
)


def role(wanted: str) -> Role | None:
    """The role of a name, a GUID or a definition's id."""
    name = wanted.rpartition("/")[2].lower()
    return next((one for one in ROLES if name in (one.id, one.name.lower())), None)


def covers(scope: str, target: str) -> bool:
    """Whether what is granted at a scope holds for a target at or below it."""
    above = scope.lower().rstrip("/")
    return target.lower().rstrip("/") == above or target.lower().startswith(f"{above}/")


def filtered(expression: str) -> tuple[str, str]:
    """An OData filter of one condition: (what is compared, with which value); ("", "") for none."""
    if not expression:
        return "", ""
    if found := re.fullmatch(r"(\w+)\(\s*(?:'([^']*)')?\s*\)", expression.strip()):
        return found[1].lower(), found[2] or ""
    if found := re.fullmatch(r"(\w+)\s+eq\s+'([^']*)'", expression.strip(), re.IGNORECASE):
        return found[1].lower(), found[2]
    raise ValueError(f"The filter '{expression}' is not supported.")
