# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a Node object reports: its Ready condition and its versions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

Node = Mapping[str, Any]
UNKNOWN = "Unknown"  # the cluster sets this if a kubelet has not reported for 40 s


def ready_condition(node: Node) -> tuple[bool, str]:
    """Whether a Node is Ready, and the message of that condition."""
    for condition in node.get("status", {}).get("conditions", ()):
        if condition.get("type") == "Ready":
            return condition.get("status") == "True", str(condition.get("message", ""))
    return False, "the kubelet has not reported yet"


def ready_status(node: Node) -> str:
    """The status of the Ready condition: True, False, or UNKNOWN; empty: it was never reported."""
    conditions = node.get("status", {}).get("conditions", ())
    return next((str(one.get("status", "")) for one in conditions if one.get("type") == "Ready"), "")


def heartbeat(node: Node, name: str = "Ready") -> float:
    """When a condition was last reported, by the clock of this machine, in whole seconds; 0: never."""
    for condition in node.get("status", {}).get("conditions", ()):
        if condition.get("type") == name:
            return seconds(condition.get("lastHeartbeatTime"))
    return 0.0


def renewed(lease: Mapping[str, Any]) -> float:
    """When the kubelet last renewed its Lease, by its own clock, in microseconds; 0: never."""
    return seconds(lease.get("spec", {}).get("renewTime"))


def seconds(stamp: str | None) -> float:
    """A time of the API server, as seconds since the epoch; 0: none, or not a time."""
    try:
        return datetime.fromisoformat((stamp or "").replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def kubelet_version(node: Node) -> str:
    """The kubelet version that a Node reports."""
    return str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")).lstrip("v")


def container_runtime(node: Node) -> str:
    """The container runtime that a Node reports, e.g. containerd 2.3.4."""
    info = node.get("status", {}).get("nodeInfo", {})
    return str(info.get("containerRuntimeVersion", "")).replace("://", " ")


def runtime_version(node: Node) -> str:
    """Its version alone: a build may add a suffix of its own, as in 1.7.15-1."""
    found = re.search(r"\d+\.\d+\.\d+", container_runtime(node))
    return found[0] if found else ""


def summary(name: str, node: Node) -> dict[str, Any]:
    """A Ready Node in short, as modules and the command report it."""
    return {
        "name": name,
        "ready": True,
        "kubeletVersion": kubelet_version(node),
        "containerRuntime": container_runtime(node),
        "addresses": [address["address"] for address in node.get("status", {}).get("addresses", ())],
    }
