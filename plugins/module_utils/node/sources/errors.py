# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of what a node follows: a flexNodeConfig resource, a machine of a FlexNodes pool, any document."""

from __future__ import annotations

from ..errors import FlexNodeError


class ResourceMissing(FlexNodeError):
    code, title = "FLEX-1109", "The flexNodeConfig resource of this node does not exist"
    deleted = False  # Azure says that it was deleted; the next poll decides
    remedy = (
        "create it again (ansible-playbook -i INVENTORY aks.flexnode.config_put), or remove the machine: "
        "ansible-playbook -i INVENTORY aks.flexnode.unbootstrap --limit HOST, or `aks-flex-node unbootstrap`"
    )


class CredentialMissing(FlexNodeError):
    code, title = "FLEX-1110", "A new credential of this node can't be obtained"
    remedy = (
        "push it to the machine: ansible-playbook -i INVENTORY aks.flexnode.update; or let the identity of "
        "the node call regenerateToken (docs/permissions.md)"
    )


class MachineMissing(FlexNodeError):
    code, title = "FLEX-1116", "The machine of this node does not exist in its FlexNodes pool"
    deleted = False  # Azure and AKS say that it was deleted; the next poll decides
    remedy = (
        "create it again (bootstrap with source machines, or `aks-flex-node join --cluster ID --pool NAME`), "
        "or remove the machine: ansible-playbook -i INVENTORY aks.flexnode.unbootstrap --limit HOST, or "
        "`aks-flex-node unbootstrap`"
    )


class MachineUnusable(FlexNodeError):
    code, title = "FLEX-1111", "The machine of this node in its FlexNodes pool can't be used as it is"
    remedy = (
        "look at it: az aks machine show --resource-group GROUP --cluster-name CLUSTER --nodepool-name POOL "
        "--machine-name NAME; the node keeps its present configuration meanwhile"
    )


class MaxPodsFixed(FlexNodeError):
    code, title = "FLEX-1112", "maxPods of a machine in a FlexNodes pool can't be changed"
    remedy = (
        "remove node.maxPods from the configuration; or recreate the machine: unbootstrap it, delete it from "
        "the pool (az aks nodepool delete-machines), then join again"
    )


class BootstrapDataUnusable(FlexNodeError):
    code, title = "FLEX-1113", "The bootstrap data of the FlexNodes pool can't be used"
    remedy = (
        "check the pool: az aks nodepool get-bootstrap-data --resource-group GROUP --cluster-name CLUSTER "
        "--name POOL; its type must be FlexNodes"
    )


class PoolForbidden(FlexNodeError):
    code, title = "FLEX-1114", "The identity may not use the FlexNodes pool"
    remedy = (
        "assign it the role Azure Kubernetes Service Flex Node Agent Role "
        "(8f139b0f-7eaf-460b-a9da-5b1246d9ed0d) at the pool"
    )


class MachineChanged(FlexNodeError):
    code, title = "FLEX-1115", "The machine of this node was changed by someone else at the same time"
    remedy = "run this again"


class Unforeseen(FlexNodeError):
    code, title = "FLEX-1117", "A new configuration can't be applied because of an unexpected failure"
    remedy = (
        "this is a mistake of this program: report it with the output of `aks-flex-node debug`. Until it is "
        "corrected, undo the last change of the configuration; the node tries again, less and less often"
    )
