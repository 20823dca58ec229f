# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Node's name and labels: those of the configuration, and those that AKS requires."""

from __future__ import annotations

import re

from ..config.model import NodeConfig

# Annotations by which a node reports the configuration that it applied.
APPLIED_VERSION = "flexnode.aks.azure.com/applied-config-version"
APPLIED_TIME = "flexnode.aks.azure.com/last-config-applied"

LABEL_LENGTH = 63  # of the value of a label


def node_name(config: NodeConfig, hostname: str) -> str:
    """The Node's name: as configured, else the host name."""
    return config.node_name or hostname


def node_labels(config: NodeConfig) -> dict[str, str]:
    """Labels of the Node."""
    group = config.azure.target_cluster.node_resource_group
    pool = config.azure.target_agent_pool_name
    return {
        **config.node.labels,
        # Without this label AKS deletes a NotReady node that it can't find in Azure.
        "kubernetes.azure.com/managed": "false",
        "node.kubernetes.io/exclude-from-external-load-balancers": "true",
        # The node selector of AKS's kube-proxy.
        **({"kubernetes.azure.com/cluster": cluster_label(group)} if group else {}),
        **(pool_labels(pool) if pool else {}),
    }


def cluster_label(resource_group: str) -> str:
    """The node resource group as AKS writes it into a label, whose value may have less than such a name.

    AKS says nothing about other letters than ASCII, nor about names that begin with one of `_(.-`.
    """
    value = re.sub(r"[^A-Za-z0-9_.-]", "-", resource_group)[:LABEL_LENGTH]
    if value[-1] in "-_.":
        value = f"{value[: LABEL_LENGTH - 1]}z"
    return value if value[0].isalnum() else f"z{value[1:]}"


def pool_labels(pool: str) -> dict[str, str]:
    """Labels by which AKS and its users find the nodes of a FlexNodes pool; the node sets them itself."""
    return {
        "kubernetes.azure.com/agentpool": pool,
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/nodepool-type": "FlexNodes",
    }
