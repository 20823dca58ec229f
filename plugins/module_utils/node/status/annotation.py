# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status at the Node: an annotation for programs and a condition for people and alerts.

A node may write both at its own Node. The provider of a flexNodeConfig reads the annotation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

STATUS = "flexnode.aks.azure.com/status"
CONDITION = "FlexNodeConfigured"  # True: this machine is as its configuration says
LONGEST = 256  # characters of a message: all Nodes of a cluster are read at once, by many


def node_patch(status: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    """What to patch at the Node; empty: it says the same already, only the time would differ."""
    from .reasons import verdict_of  # slow; a drift check only compares

    told = summary(status)
    annotations = node["metadata"].get("annotations") or {}
    conditions = node.get("status", {}).get("conditions") or ()
    before: Mapping[str, Any] = next((one for one in conditions if one.get("type") == CONDITION), {})
    condition = {
        "type": CONDITION,
        "status": verdict_of(status).value,
        "reason": status["reason"],
        "message": told["message"],
    }
    if same(annotations.get(STATUS), told) and all(before.get(key) == condition[key] for key in condition):
        return {}
    now = status["timestamp"].replace("+00:00", "Z")  # as the API server writes times
    since = before.get("lastTransitionTime") if before.get("status") == condition["status"] else None
    times = {"lastHeartbeatTime": now, "lastTransitionTime": since or now}
    return {
        "metadata": {"annotations": {STATUS: json.dumps({**told, "time": now}, separators=(",", ":"))}},
        "status": {"conditions": [{**condition, **times}]},
    }


def is_told(status: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Whether the Node was told this status. Its condition is written with the annotation."""
    return same((node["metadata"].get("annotations") or {}).get(STATUS), summary(status))


def summary(status: Mapping[str, Any]) -> dict[str, Any]:
    """The status in short, without its time."""
    message = str(status["message"])
    return {
        "phase": status["phase"],
        "reason": status["reason"],
        "message": message if len(message) <= LONGEST else f"{message[: LONGEST - 3]}...",
        "configVersion": status["config"]["version"],
        "appliedVersion": status["config"]["appliedVersion"],
        "drift": len(status["drift"]),
    }


def same(annotation: str | None, told: Mapping[str, Any]) -> bool:
    """Whether an annotation says this, at whatever time."""
    try:
        return {**json.loads(annotation or ""), "time": ""} == {**told, "time": ""}
    except (ValueError, TypeError):
        return False
