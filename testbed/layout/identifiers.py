# SPDX-License-Identifier: GPL-3.0-or-later
"""The names by which the testbed's cluster is known in its Azure."""

from __future__ import annotations

SUBSCRIPTION_ID = "11111111-2222-4333-8444-555555555555"
TENANT_ID = "66666666-7777-4888-9999-aaaaaaaaaaaa"
CLUSTER_ID = (
    f"/subscriptions/{SUBSCRIPTION_ID}/resourceGroups/testbed"
    "/providers/Microsoft.ContainerService/managedClusters/testbed"
)
LOCATION = "westeurope"
NODE_RESOURCE_GROUP = f"MC_testbed_testbed_{LOCATION}"
AKS_SERVER = "6dae42f8-4368-4678-94ff-3960e28e3630"
"""Entra's name for every AKS API server: the audience of Kubernetes tokens."""
