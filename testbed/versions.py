# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions a testbed starts with; more are built on demand."""

from __future__ import annotations

KUBERNETES = "1.34.4"
CONTAINERD = "2.3.4"
CONTAINERD_OLD = "1.7.32"
RUNC = "1.4.3"
CNI_PLUGINS = "1.9.1"
COREDNS = "1.13.1"

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBERNETES_NODE = ("kubelet", "kubectl", "kubeadm")

CONTROL_PLANE_SET: tuple[tuple[str, str], ...] = tuple(
    (name, KUBERNETES) for name in (*CONTROL_PLANE, "kubectl")
)
DEFAULT_SET: tuple[tuple[str, str], ...] = (
    *((name, KUBERNETES) for name in (*CONTROL_PLANE, *KUBERNETES_NODE, "kube-proxy")),
    ("runc", RUNC),
    ("cni-plugins", CNI_PLUGINS),
    ("containerd", CONTAINERD),
    ("containerd", CONTAINERD_OLD),
    ("coredns", COREDNS),
)
