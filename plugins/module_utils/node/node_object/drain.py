# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cordon, drain and uncordon a Node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..machine.clock import Clock
from ..net.kube import KubeClient


def evictable(pod: Mapping[str, Any]) -> bool:
    """Whether a drain evicts this pod: not static pods, not those of a DaemonSet, not finished ones."""
    metadata = pod.get("metadata", {})
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return False
    if any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences") or ()):
        return False
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def drain(client: KubeClient, node: str, clock: Clock, seconds: float) -> list[str]:
    """Cordon a Node and evict its pods within a time limit; returns the pods that are still there."""
    client.patch_node(node, {"spec": {"unschedulable": True}})
    deadline = clock.monotonic() + seconds
    evicted: set[str] = set()
    while True:
        pods = [pod for pod in client.pods_on(node) if evictable(pod)]
        names = {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods}
        if not names or clock.monotonic() >= deadline:
            return sorted(names)
        for name in sorted(names - evicted):
            if client.evict(*name.split("/", 1)):
                evicted.add(name)
        clock.sleep(0.5)


def uncordon(client: KubeClient, node: str) -> list[str]:
    """Make a Node schedulable again; returns what was done, in words."""
    if not (client.node(node) or {}).get("spec", {}).get("unschedulable"):
        return []
    client.patch_node(node, {"spec": {"unschedulable": None}})
    return [f"uncordon {node}"]
