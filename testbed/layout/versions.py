# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions a testbed starts with, and those that only tests of updates use: built when asked for."""

from __future__ import annotations

KUBERNETES = "1.34.4"
CONTAINERD = "2.3.4"
CONTAINERD_OLD = "1.7.32"
RUNC = "1.4.3"
CNI_PLUGINS = "1.9.1"
COREDNS = "1.13.1"
NPD = "1.36.0"

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

NODE_SET: tuple[tuple[str, str], ...] = tuple(
    (name, version)
    for name, version in DEFAULT_SET
    if name not in CONTROL_PLANE and (name, version) != ("containerd", CONTAINERD_OLD)
)
"""What nodes of another architecture than the control plane's need, with the add-ons that run on them."""

# Sections of a node configuration -> the artifacts that their version selects.
SOFTWARE: dict[str, tuple[str, ...]] = {
    "kubernetes": KUBERNETES_NODE,
    "containerd": ("containerd",),
    "runc": ("runc",),
    "cni": ("cni-plugins",),
    "npd": ("npd",),
}

KUBERNETES_OLD_PATCH = "1.34.3"
KUBERNETES_OLD_MINOR = "1.33.13"
CONTAINERD_OLD_MINOR = "2.2.9"
NPD_OLD = "1.34.0"

# Broken on purpose: numbers that upstream never released. See artifacts/broken.py.
KUBELET_EXITS = "1.34.90"
KUBELET_NEVER_READY = "1.34.91"
KUBELET_STOPS = "1.34.92"
CONTAINERD_REFUSES = "2.3.90"
NPD_EXITS = "1.36.90"
NPD_SILENT = "1.36.91"

EXTRA: tuple[tuple[str, str, str], ...] = (
    ("kubernetes", KUBERNETES_OLD_PATCH, "a patch older than the API server"),
    ("kubernetes", KUBERNETES_OLD_MINOR, "a minor older than the API server"),
    ("containerd", CONTAINERD_OLD_MINOR, "a minor older than the default"),
    ("kubernetes", KUBELET_EXITS, "broken: the kubelet exits at once"),
    ("kubernetes", KUBELET_NEVER_READY, "broken: the kubelet runs, but never reports to the API server"),
    ("kubernetes", KUBELET_STOPS, "broken: the kubelet is Ready and exits after 3 s"),
    ("containerd", CONTAINERD_REFUSES, "broken: containerd refuses its configuration"),
    ("npd", NPD, "node-problem-detector, which nodes have only if asked for"),
    ("npd", NPD_OLD, "older than that"),
    ("npd", NPD_EXITS, "broken: node-problem-detector exits at once"),
    ("npd", NPD_SILENT, "broken: node-problem-detector runs, and reports nothing"),
)
"""(section of a node configuration, version, what it is for)"""
