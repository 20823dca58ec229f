# SPDX-License-Identifier: GPL-3.0-or-later
"""The control plane: real etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""

from __future__ import annotations

from testbed.cluster.cluster import Cluster

__all__ = ["Cluster"]
