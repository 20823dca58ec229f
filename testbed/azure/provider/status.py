# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a node, as it tells the cluster by its Node and its lease."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

ANNOTATIONS = "flexnode.aks.azure.com/"
APPLIED_VERSION = f"{ANNOTATIONS}applied-config-version"
APPLIED_TIME = f"{ANNOTATIONS}last-config-applied"
STATUS = f"{ANNOTATIONS}status"
SAID = ("phase", "reason", "message", "configVersion", "drift")
OWN_CONDITIONS = "FlexNode"


def _condition(condition: Mapping[str, Any]) -> dict[str, str]:
    keys = ("type", "status", "lastTransitionTime", "reason", "message")
    return {key: str(condition[key]) for key in keys if condition.get(key)}


def said(annotation: str | None) -> dict[str, Any]:
    """What the node says of itself; nothing, if that can't be read: anybody may have written it."""
    try:
        document = json.loads(annotation or "{}")
        return {key: document[key] for key in SAID if document.get(key) not in (None, "")}
    except (ValueError, AttributeError):
        return {}


def status(
    node: Mapping[str, Any] | None, lease: Mapping[str, Any] | None, remembered: Mapping[str, Any]
) -> dict[str, Any]:
    """The status part of a flexNodeConfig; remembered is the last one that was seen."""
    if node is None:
        joined = bool(remembered)
        ready = {
            "type": "Ready",
            "status": "Unknown" if joined else "False",
            "reason": "NodeNotFound" if joined else "NotJoined",
            "message": "its Node is not in the cluster" if joined else "it has never joined the cluster",
        }
        return {key: value for key, value in remembered.items() if key not in SAID} | {"conditions": [ready]}
    conditions = [
        _condition(one)
        for one in node.get("status", {}).get("conditions", [])
        if one["type"] == "Ready" or one["type"].startswith(OWN_CONDITIONS)
    ]
    found: dict[str, Any] = {"conditions": conditions}
    annotations = node["metadata"].get("annotations") or {}
    for key, annotation in (
        ("lastConfigApplied", APPLIED_TIME),
        ("appliedConfigVersion", APPLIED_VERSION),
    ):
        if annotation in annotations:
            found[key] = annotations[annotation]
    found |= said(annotations.get(STATUS))
    renewed = (lease or {}).get("spec", {}).get("renewTime")
    heard = [one.get("lastHeartbeatTime") for one in node.get("status", {}).get("conditions", [])]
    if seen := max((time for time in (renewed, *heard) if time), default=None):
        found["lastSeen"] = seen
    version = node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion")
    return {**found, "kubeletVersion": version} if version else found
