# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The early YAML form (azure.arc.targetCluster.name etc.), converted to the present form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import NOT_SET, UNKNOWN_KEY, ConfigInvalid, Problem, shown

_RESOURCE_ID = "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.ContainerService/managedClusters/{}"


def early_form(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document in the present form; other documents are returned unchanged."""
    azure = _mapping(document, "azure")
    arc = _mapping(azure, "arc")
    if "targetCluster" not in arc:
        return document if isinstance(document, dict) else dict(document)
    early, group = _mapping(arc, "targetCluster"), azure.get("resourceGroup")
    kept = {key: value for key, value in azure.items() if key not in ("location", "resourceGroup")}
    cluster = {
        "resourceId": _resource_id(azure, early, group),
        "location": azure.get("location"),
        **_mapping(azure, "targetCluster"),
    }
    arc_kept = {key: value for key, value in arc.items() if key != "targetCluster"}
    return {
        **document,
        # The machine itself was registered in azure.resourceGroup, wherever the cluster was.
        "azure": {**kept, "targetCluster": cluster, "arc": {"resourceGroup": group, **arc_kept}},
    }


def _resource_id(azure: Mapping[str, Any], early: Mapping[str, Any], group: object) -> str:
    """Return the cluster's resource id; problems name the fields of the early form."""
    parts = {
        "azure.subscriptionId": azure.get("subscriptionId"),
        "azure.resourceGroup": early.get("resourceGroup") or group,
        "azure.arc.targetCluster.name": early.get("name"),
    }
    problems = [
        Problem(path, shown(value) if value is not None else NOT_SET, "text", "the cluster's id needs it")
        for path, value in parts.items()
        if not isinstance(value, str) or not value
    ]
    problems += (
        Problem(f"azure.arc.targetCluster.{key}", UNKNOWN_KEY, "name, resourceGroup")
        for key in early
        if key not in ("name", "resourceGroup")
    )
    if problems:
        raise ConfigInvalid(problems)
    return _RESOURCE_ID.format(*parts.values())


def _mapping(parent: object, key: str) -> Mapping[str, Any]:
    """Return a nested mapping; the parser refuses anything else."""
    found = parent.get(key) if isinstance(parent, Mapping) else None
    return found if isinstance(found, Mapping) else {}
