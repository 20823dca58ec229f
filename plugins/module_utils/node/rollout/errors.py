# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of rollouts: this node waits, and keeps its current software meanwhile."""

from __future__ import annotations

from ..errors import FlexNodeError

ADMINISTER = "on the controller: ansible localhost -m aks.flexnode.flexnode_rollout"


def resumes(rollout: str) -> str:
    """The command that lets a stopped rollout go on."""
    return f"{ADMINISTER} -a 'state=resumed rollout={rollout} kubeconfig=~/.kube/config'"


def forgets(node: str) -> str:
    """The command that removes a node from the record."""
    return f"{ADMINISTER} -a 'forget={node} kubeconfig=~/.kube/config'"


class RolloutUnknown(FlexNodeError):
    code, title = "FLEX-1521", "The rollout record of the cluster can't be used"
    waits = True
    remedy = (
        "do what the message says for its cause. Record or rights missing: kubectl apply -f "
        "docs/examples/rollout.yaml (a file of the collection). The node keeps its current version"
    )


class RolloutWaits(FlexNodeError):
    code, title = (
        "FLEX-1522",
        "This node waits for its turn in the rollout (upgrade.maxUnavailable, upgrade.rings)",
    )
    waits = True
    remedy = (
        "wait for the nodes that are named, then run this again; a node that polls its configuration tries "
        f"again by itself. If one of them never comes back, {forgets('NODE')}"
    )


class RolloutStopped(FlexNodeError):
    code, title = "FLEX-1523", "The rollout is stopped"
    waits = True
    remedy = (
        "look at the nodes that were rolled back (aks-flex-node status), then change the configuration: that "
        f"is a new rollout. Or resume this one, {resumes('ID')}"
    )
