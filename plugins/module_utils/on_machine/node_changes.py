# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects: labels, taints, cordon, drain, readiness, deletion. On a node, and on the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..node.errors import ApiUnreachable, NodeNotReady
from ..node.machine.clock import Clock
from ..node.node_object.conditions import kubelet_version, ready_condition
from ..node.node_object.drain import drain, evictable

Json = dict[str, Any]
Taint = Mapping[str, str]
CONFLICT = 409
ATTEMPTS, PAUSE = 5, 0.2  # of a change of taints that meets another change of the Node


class NodeApi(Protocol):
    """What is asked of the API server: by the controller's client, or on a node by the node's own."""

    def node(self, name: str) -> Json | None: ...

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None: ...

    def delete_node(self, name: str) -> bool: ...

    def pods_on(self, node: str) -> list[Json]: ...

    def evict(self, namespace: str, name: str) -> str: ...


def node_patch(
    node: Mapping[str, Any],
    *,
    labels: Mapping[str, str | None],
    taints: Sequence[Taint] | None,
    unschedulable: bool | None,
    taints_absent: Sequence[Taint] = (),
) -> dict[str, Any]:
    """The smallest patch that brings labels, taints and cordon to what is wanted; empty: nothing differs.

    A label of None is removed. Taints replace those with the same key and effect and leave all others,
    which belong to Kubernetes or to other tools. A patch replaces the whole list of taints: it names the
    version of the Node that it was computed from, so that no taint of others is lost.
    """
    patch: dict[str, Any] = {}
    have = node.get("metadata", {}).get("labels") or {}
    if changed := {key: value for key, value in labels.items() if have.get(key) != value}:
        patch["metadata"] = {"labels": changed}
    spec: dict[str, Any] = {}
    now = node.get("spec", {})
    known = {_identity(taint): taint for taint in now.get("taints") or ()}
    merged = {key: taint for key, taint in known.items() if key not in map(_identity, taints_absent)}
    merged |= {_identity(taint): dict(taint) for taint in taints or ()}
    if list(map(written, merged.values())) != list(map(written, known.values())):
        spec["taints"] = list(merged.values())
        if version := node.get("metadata", {}).get("resourceVersion"):
            patch.setdefault("metadata", {})["resourceVersion"] = version
    if unschedulable is not None and bool(now.get("unschedulable")) != unschedulable:
        spec["unschedulable"] = unschedulable
    return {**patch, "spec": spec} if spec else patch


def _identity(taint: Taint) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def written(taint: Taint) -> str:
    """A taint as kubectl writes it: KEY=VALUE:EFFECT."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint['key']}{value}:{taint['effect']}"


def http_status(error: BaseException) -> int:
    """The HTTP status behind an error, of either client; 0: there was no answer."""
    return int(getattr(error.__cause__, "status", 0) or 0)


def wait_ready(client: NodeApi, name: str, clock: Clock, seconds: float) -> Mapping[str, Any]:
    """Wait until the Node is Ready, and return it."""
    deadline = clock.monotonic() + seconds
    while True:
        node = client.node(name)
        ready, message = ready_condition(node) if node else (False, "it is not registered")
        if node and ready:
            return node
        if clock.monotonic() >= deadline:
            raise NodeNotReady(f"Node {name} is not Ready after {seconds:g} s", where=name, why=message)
        clock.sleep(0.5)


@dataclass(slots=True)
class NodeResult:
    """What was done to one Node."""

    actions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    diff: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)


def apply_node(
    client: NodeApi, name: str, wanted: Mapping[str, Any], clock: Clock, *, check: bool
) -> NodeResult:
    """Bring one Node to what is wanted: deleted, or labelled, tainted, cordoned, drained and Ready."""
    result = NodeResult()
    if wanted["state"] == "absent":
        if client.node(name) is not None:
            result.actions.append(f"delete Node {name}")
            if not check:
                client.delete_node(name)
        return result
    if wanted["ready"] and not check:
        wait_ready(client, name, clock, wanted["timeout"])
    node = _change(client, name, wanted, clock, result, check=check)
    leaving = [pod for pod in client.pods_on(name) if evictable(pod)] if wanted["drain"] else []
    if leaving or (wanted["drain"] and not node["spec"].get("unschedulable")):
        result.actions.append(f"drain Node {name} ({len(leaving)} pods)")
        result.remains = [] if check else drain(client, name, clock, wanted["timeout"]).lines
    ready, _message = ready_condition(node)
    result.summary = {"name": name, "ready": ready, "kubeletVersion": kubelet_version(node)}
    return result


def _change(
    client: NodeApi, name: str, wanted: Mapping[str, Any], clock: Clock, result: NodeResult, *, check: bool
) -> Mapping[str, Any]:
    """Patch the Node if it differs; again from its new state if another client changed it in between."""
    for attempt in range(1, ATTEMPTS + 1):
        node = client.node(name)
        if node is None:
            fix = "check the name: kubectl get nodes"
            raise NodeNotReady(f"there is no Node {name}", where=name, fix=fix)
        patch = node_patch(
            node,
            labels=wanted["labels"],
            taints=wanted["taints"],
            taints_absent=wanted["taints_absent"],
            unschedulable=wanted["unschedulable"],
        )
        if not patch:
            return node
        try:
            changed = node if check else client.patch_node(name, patch) or node
        except ApiUnreachable as error:
            if http_status(error) != CONFLICT or attempt == ATTEMPTS:
                raise
            clock.sleep(PAUSE * attempt)
            continue
        result.actions.append(f"change Node {name}: {', '.join(sorted(described(patch, node)))}")
        result.diff.append({"before_header": name, "after_header": name, **compared(patch, node)})
        return changed
    raise AssertionError("the last attempt returns or raises")


def described(patch: Mapping[str, Any], node: Mapping[str, Any]) -> list[str]:
    """A patch in words."""
    labels = patch.get("metadata", {}).get("labels", {})
    spec, now = patch.get("spec", {}), node.get("spec", {})
    words = [f"label {key}={value}" for key, value in labels.items() if value is not None]
    words += [f"remove label {key}" for key, value in labels.items() if value is None]
    if "taints" in spec:
        before, after = now.get("taints") or (), spec["taints"]
        have, want = set(map(written, before)), set(map(written, after))
        words += [f"taint {text}" for text in want - have]
        kept = set(map(_identity, after))
        words += [f"remove taint {written(taint)}" for taint in before if _identity(taint) not in kept]
    words += ["cordon" if spec["unschedulable"] else "uncordon"] if "unschedulable" in spec else []
    return words


def compared(patch: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Json]:
    """What a patch changes, before and after it."""
    labels, have = patch.get("metadata", {}).get("labels", {}), node.get("metadata", {}).get("labels") or {}
    spec, now = patch.get("spec", {}), node.get("spec", {})
    before: Json = {}
    after: Json = {}
    if labels:
        before["labels"] = {key: have[key] for key in labels if key in have}
        after["labels"] = {key: value for key, value in labels.items() if value is not None}
    if "taints" in spec:
        before["taints"] = [written(taint) for taint in now.get("taints") or ()]
        after["taints"] = [written(taint) for taint in spec["taints"]]
    if "unschedulable" in spec:
        before["unschedulable"], after["unschedulable"] = (
            bool(now.get("unschedulable")),
            spec["unschedulable"],
        )
    return {"before": before, "after": after}


def apply_nodes(
    client: NodeApi, names: Sequence[str], wanted: Mapping[str, Any], clock: Clock, *, check: bool
) -> Json:
    """Bring each Node to what is wanted; the result of module flexnode_node."""
    done = [apply_node(client, name, wanted, clock, check=check) for name in names]
    actions = [sentence for result in done for sentence in result.actions]
    return {
        "changed": bool(actions),
        "actions": actions,
        "nodes": [result.summary for result in done if result.summary],
        "remains": [pod for result in done for pod in result.remains],
        "diff": [entry for result in done for entry in result.diff],
    }
