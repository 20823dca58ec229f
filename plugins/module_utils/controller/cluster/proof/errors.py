# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Errors of the proof of join: a pod on the node shows what does not work."""

from __future__ import annotations

from ....node.errors import FlexNodeError


class ProofPodFailed(FlexNodeError):
    code, title = "FLEX-1601", "A pod does not run on the node"


class DnsBroken(FlexNodeError):
    code, title = "FLEX-1602", "Pods on the node can't resolve names"


class ServicesUnreachable(FlexNodeError):
    code, title = "FLEX-1603", "Services are not reachable from the node"
    remedy = "check kube-proxy on this node: kubectl --namespace kube-system get pods --output wide"


class LogsUnavailable(FlexNodeError):
    code, title = "FLEX-1604", "Logs of pods on the node are not available"
    remedy = "allow the cluster to reach the kubelet's port (10250) of this node"


class ExecUnavailable(FlexNodeError):
    code, title = "FLEX-1605", "Commands can't be run in pods on the node"
    remedy = "allow the cluster to reach the kubelet's port (10250) of this node"


class ProofImpossible(FlexNodeError):
    code, title = "FLEX-1606", "The proof of join can't run"
