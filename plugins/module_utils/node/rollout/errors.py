# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of rollouts: this node waits, and keeps its present software meanwhile."""

from __future__ import annotations

from ..errors import FlexNodeError


class RolloutUnknown(FlexNodeError):
    code, title = "FLEX-1521", "The rollout record of the cluster can't be used"
    waits = True
    remedy = (
        "check ConfigMap flexnode-rollout in kube-system and the rights of nodes: kubectl apply -f "
        "docs/examples/rollout.yaml, or module flexnode_rollout with state present; the node keeps its "
        "present software meanwhile"
    )


class RolloutWaits(FlexNodeError):
    code, title = "FLEX-1522", "Other nodes come first: upgrade.maxUnavailable, upgrade.rings"
    waits = True
    remedy = (
        "wait for the nodes that are named, then run this again; if one of them is gone for good: module "
        "flexnode_rollout with forget; a node that polls its configuration tries again by itself"
    )


class RolloutStopped(FlexNodeError):
    code, title = "FLEX-1523", "The rollout is stopped"
    waits = True
    remedy = (
        "look at the nodes that were rolled back (aks-flex-node status), then change the configuration: that "
        "is a new rollout; or let this one go on: module flexnode_rollout with state resumed"
    )
