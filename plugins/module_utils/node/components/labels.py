# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Node's name and labels: those of the configuration, and those that AKS requires."""

from __future__ import annotations

from ..config.model import NodeConfig

# Annotations by which a node reports the configuration that it applied.
APPLIED_VERSION = "flexnode.aks.azure.com/applied-config-version"
APPLIED_TIME = "flexnode.aks.azure.com/last-config-applied"


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
        **({"kubernetes.azure.com/cluster": group} if group else {}),
        **(pool_labels(pool) if pool else {}),
    }


def pool_labels(pool: str) -> dict[str, str]:
    """Labels by which AKS and its users find the nodes of a FlexNodes pool; the node sets them itself."""
    return {
        "kubernetes.azure.com/agentpool": pool,
        "kubernetes.azure.com/mode": "user",
        "kubernetes.azure.com/nodepool-type": "FlexNodes",
    }
