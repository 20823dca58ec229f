# SPDX-License-Identifier: GPL-3.0-or-later
"""What a PUT of a pool or of a machine may hold, and when it is carried out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from testbed.azure.pools.refusals import refuse
from testbed.layout import versions

FLEX = "FlexNodes"
SCALE_SET = "VirtualMachineScaleSets"
POOL_NAME = re.compile(r"[a-z][a-z0-9]{0,11}")
MACHINE_NAME = re.compile(r"[a-zA-Z0-9][-_a-zA-Z0-9]{0,39}")
VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")
TAINT = re.compile(r"[^=:\s]+=[^=:\s]*:(NoSchedule|PreferNoSchedule|NoExecute)")
BUDGET = re.compile(r"([1-9]\d*)|([1-9]\d?|100)%")
RESERVED = "kubernetes.azure.com/"
MANAGED = f"{RESERVED}managed"
PODS = range(10, 251)

GOAL = {"orchestratorVersion": str, "maxPods": int, "nodeLabels": dict, "nodeTaints": list}
POOL = {"type": str, "mode": str, **GOAL, "upgradeSettings": dict}
# What only AKS writes: a client that sends an answer back may leave it in, it has no effect.
READ_ONLY = frozenset(
    {"eTag", "provisioningState", "currentOrchestratorVersion", "status", "nodeName", "resourceId"}
)
# Pools of virtual machines are only a record here, so that a cluster can have pools of another type.
SCALE_SET_POOL = {**POOL, "count": int, "vmSize": str, "osType": str}
PATCHES = (versions.KUBERNETES, versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES_OLD_MINOR)

ABSENT = (
    "Resource not found but ETag header is provided. If this is a request to create, please do not provide "
    "ETag."
)


def pool_name(name: str) -> str:
    """The name of a pool."""
    if not POOL_NAME.fullmatch(name):
        raise refuse("name", f"The agent pool name '{name}' is not valid: {POOL_NAME.pattern}.")
    return name


def machine_name(name: str) -> str:
    """The name of a machine; it has no dots, unlike the name of a Node."""
    if not MACHINE_NAME.fullmatch(name):
        raise refuse("name", f"The machine name '{name}' is not valid: {MACHINE_NAME.pattern}.")
    return name


def number(version: str) -> tuple[int, ...]:
    """A version as a number that can be compared."""
    return tuple(int(part) for part in version.split("."))


def full_version(version: str, control_plane: str) -> str:
    """The patch version that AKS chooses; never above the control plane."""
    found = VERSION.fullmatch(version)
    if not found:
        raise refuse("value", f"Kubernetes version '{version}' is not valid.")
    if found[3]:
        chosen = version
    else:
        fitting = [one for one in (control_plane, *PATCHES) if one.startswith(f"{version}.")]
        allowed = [one for one in fitting if number(one) <= number(control_plane)]
        newer = number(version) > number(control_plane)[:2]
        if not allowed and not newer:
            raise refuse("unknown version", f"Version {version} is not supported in this region.")
        chosen = max(allowed, key=number, default=f"{version}.0")
    if number(chosen) > number(control_plane):
        raise refuse(
            "newer",
            f"Node pool version {version} and control plane version {control_plane} are incompatible. "
            "The version of a node pool must not be above the control plane's.",
        )
    return chosen


def pool(body: Mapping[str, Any], before: Mapping[str, Any] | None, control_plane: str) -> dict[str, Any]:
    """The properties of a pool from a PUT; before is what there is already."""
    content = _section(body.get("properties"), "properties")
    kind = content.get("type") or (before or {}).get("type") or SCALE_SET
    if kind not in (FLEX, SCALE_SET):
        raise refuse("value", f"The value of parameter properties.type is invalid: {kind}.")
    properties = _members(content, POOL if kind == FLEX else SCALE_SET_POOL, "properties")
    properties = {"type": kind, "mode": "User", **properties}
    for name in ("type", "mode"):
        if before and before[name] != properties[name]:
            raise refuse("fixed", f"Changing property 'properties.{name}' is not allowed.")
    if kind == SCALE_SET:
        return {"orchestratorVersion": control_plane, **properties}
    if properties["mode"] != "User":
        raise refuse("value", f"A FlexNodes pool has mode User, not '{properties['mode']}'.")
    settings = _section(properties.get("upgradeSettings", {}), "properties.upgradeSettings")
    settings = _members(settings, {"maxUnavailable": str}, "properties.upgradeSettings")
    if settings and not BUDGET.fullmatch(settings["maxUnavailable"]):
        budget = settings["maxUnavailable"]
        raise refuse("value", f"maxUnavailable '{budget}' is neither a number above 0 nor 1% to 100%.")
    _check_goal(properties, "properties")
    version = properties.get("orchestratorVersion") or (before or {}).get("orchestratorVersion")
    full_version(version or control_plane, control_plane)
    pods = (before or {}).get("maxPods", 110)
    return {"maxPods": pods, **properties, "orchestratorVersion": version or control_plane}


def machine(body: Mapping[str, Any], control_plane: str) -> dict[str, Any]:
    """The goal in a PUT of a machine: those of the four fields that it has."""
    for name in ("zones", "tags"):
        if body.get(name) is not None:
            raise _unknown(name, "machine")
    content = _section(body.get("properties"), "properties")
    content = _members(content, {"kubernetes": dict}, "properties")
    kubernetes = _section(content.get("kubernetes", {}), "properties.kubernetes")
    if kubernetes.get("kubeletConfig") is not None:
        raise refuse("kubelet config", "kubeletConfig is not supported for machines of a FlexNodes pool.")
    goal = _members(kubernetes, GOAL, "properties.kubernetes")
    _check_goal(goal, "properties.kubernetes")
    if version := goal.get("orchestratorVersion"):
        full_version(version, control_plane)
    return goal


def _check_goal(goal: Mapping[str, Any], path: str) -> None:
    if "nodeTaints" in goal:
        if not goal["nodeTaints"]:
            raise refuse("empty taints", f"{path}.nodeTaints must not be empty: leave it out.")
        for taint in goal["nodeTaints"]:
            if not isinstance(taint, str) or not TAINT.fullmatch(taint):
                raise refuse("value", f"The taint '{taint}' is not key=value:effect.")
    for label, value in goal.get("nodeLabels", {}).items():
        if not isinstance(value, str):
            raise _wrong_type(f"{path}.nodeLabels.{label}", str)
        if label.startswith(RESERVED) and (label, value) != (MANAGED, "false"):
            raise refuse("reserved label", f"The label '{label}' has a reserved prefix: {RESERVED}.")
    if "maxPods" in goal and goal["maxPods"] not in PODS:
        raise refuse("value", f"maxPods {goal['maxPods']} is not between {PODS[0]} and {PODS[-1]}.")


def _section(content: Any, path: str) -> Mapping[str, Any]:
    if content is None:
        raise refuse("value", f"Required parameter {path} is missing (null).")
    if not isinstance(content, dict):
        raise _wrong_type(path, dict)
    return content


def _members(content: Mapping[str, Any], known: Mapping[str, type], path: str) -> dict[str, Any]:
    found = {name: value for name, value in content.items() if value is not None and name not in READ_ONLY}
    for name, value in found.items():
        if name not in known:
            raise _unknown(name, path, known)
        if not isinstance(value, known[name]) or isinstance(value, bool):
            raise _wrong_type(f"{path}.{name}", known[name])
    return found


def _unknown(name: str, path: str, known: Iterable[str] = ()) -> Exception:
    hint = f" It has {', '.join(known)}." if known else ""
    return refuse("property", f"Property '{name}' of {path} is not supported for FlexNodes.{hint}")


def _wrong_type(path: str, wanted: type) -> Exception:
    return refuse("json type", f"UnmarshalEntity encountered error: {path} is not of type {wanted.__name__}.")


def _tags(header: str) -> list[str]:
    """The eTags of a header: quoted, as the SDK sends them, or bare."""
    return [one.strip().removeprefix("W/").strip('"') for one in header.split(",")]


def check_etag(headers: Mapping[str, str], etag: str | None) -> None:
    """Refuse a write whose If-Match or If-None-Match does not hold; etag is None where there is nothing."""
    if wanted := headers.get("if-match"):
        if etag is None:
            raise refuse("precondition", ABSENT)
        if etag not in _tags(wanted) and "*" not in _tags(wanted):
            raise refuse(
                "precondition",
                f"Etag provided in if-match header {wanted} does not match etag {etag} of resource.",
            )
    unwanted = headers.get("if-none-match")
    if unwanted and etag is not None and ("*" in _tags(unwanted) or etag in _tags(unwanted)):
        raise refuse("precondition", f"Resource exists with etag {etag}, if-none-match is {unwanted}.")
