# SPDX-License-Identifier: GPL-3.0-or-later
"""The versions a testbed starts with, and those that only tests of updates use: built when asked for."""

from __future__ import annotations

import re

from testbed.basics.errors import TestbedError

KUBERNETES = "1.34.4"
CONTAINERD = "2.3.4"
RUNC = "1.4.3"
CNI_PLUGINS = "1.9.1"
COREDNS = "1.13.1"
NPD = "1.36.0"

CONTROL_PLANE = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
KUBERNETES_NODE = ("kubelet", "kubectl", "kubeadm")

Pairs = tuple[tuple[str, str], ...]
"""(name of an artifact, version)"""


def control_plane_set(kubernetes: str = KUBERNETES) -> Pairs:
    """What a cluster without nodes needs."""
    return tuple((name, kubernetes) for name in (*CONTROL_PLANE, "kubectl"))


def node_set(kubernetes: str = KUBERNETES) -> Pairs:
    """What nodes need, with the add-ons that run on them."""
    return (
        *((name, kubernetes) for name in (*KUBERNETES_NODE, "kube-proxy")),
        ("runc", RUNC),
        ("cni-plugins", CNI_PLUGINS),
        ("containerd", CONTAINERD),
        ("coredns", COREDNS),
    )


def default_set(kubernetes: str = KUBERNETES) -> Pairs:
    """What a testbed starts with."""
    return tuple(dict.fromkeys((*control_plane_set(kubernetes), *node_set(kubernetes))))


# Other lines of Kubernetes: control planes for the oldest and for the newest kubelet that nodes can have.
KUBERNETES_OLDEST = "1.29.6"
KUBERNETES_OLDEST_SERVER = "1.32.13"
"""The newest control plane that still takes the oldest kubelet: three minors apart."""
KUBERNETES_NEWEST = "1.36.3"
"""Kubelets from 1.35 on refuse control groups v1: nodes of it need a kernel of their own, or a v2 machine."""

LINES: tuple[tuple[str, str], ...] = (
    (KUBERNETES_OLDEST_SERVER, KUBERNETES_OLDEST),
    (KUBERNETES_NEWEST, KUBERNETES_NEWEST),
)
"""(version of the control plane, version of kubelets)"""
OLDEST_SERVER = (1, 31)
"""From this one on, kube-proxy by nftables and structured authentication are there without feature gates."""


def line(kubernetes: str) -> tuple[int, int]:
    """(1, 34) of 1.34.4; an error if it is no version of a control plane that a testbed can have."""
    if not re.fullmatch(r"1\.\d+\.\d+", kubernetes):
        raise TestbedError(f"Kubernetes version {kubernetes!r} is not like {KUBERNETES}")
    found = (1, int(kubernetes.split(".")[1]))
    if found < OLDEST_SERVER:
        oldest = ".".join(map(str, OLDEST_SERVER))
        raise TestbedError(
            f"Kubernetes {kubernetes} is too old for a control plane here: name {oldest} or newer"
        )
    return found


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
CONTAINERD_OLD = "1.7.32"
CONTAINERD_OLD_MINOR = "2.2.9"
NPD_OLD = "1.34.0"

# The default's programs, of which the kubelet has another number: an update without a build.
KUBERNETES_RENUMBERED = "1.34.0"

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
    ("kubernetes", KUBERNETES_RENUMBERED, "the default's programs, where the kubelet has another number"),
    ("containerd", CONTAINERD_OLD, "the older major"),
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
