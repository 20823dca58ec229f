# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects: labels, taints, cordon, drain, readiness, deletion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from ...node.errors import ApiUnreachable, NodeNotReady
from ...node.machine.clock import Clock
from ...node.net.kube import KubeClient
from ...node.node_object.conditions import kubelet_version, ready_condition
from ...node.node_object.drain import drain, evictable
from .client import Client

Json = dict[str, Any]


class NodeApi(Protocol):
    """What is asked of the API server: by the controller's client, or on a node by the node's own."""

    def node(self, name: str) -> Json | None: ...

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None: ...

    def delete_node(self, name: str) -> bool: ...

    def pods_on(self, node: str) -> list[Json]: ...

    def evict(self, namespace: str, name: str) -> bool: ...


class NodeClient(Client):
    """The same calls from the controller."""

    def node(self, name: str) -> Json | None:
        """The Node, None where there is none."""
        return self._found(self._core.read_node, name)

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None:
        """Change parts of the Node with a merge patch."""
        return self._found(self._patching().patch_node, name, dict(patch))

    def delete_node(self, name: str) -> bool:
        """Delete the Node; False where there was none."""
        return self._found(self._core.delete_node, name) is not None

    def pods_on(self, node: str) -> list[Json]:
        """The pods that are bound to a node."""
        chosen = f"spec.nodeName={node}"
        return self._items(self._core.list_pod_for_all_namespaces, field_selector=chosen)

    def evict(self, namespace: str, name: str) -> bool:
        """Ask a pod to leave; False: its PodDisruptionBudget does not allow it now."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        call = self._core.create_namespaced_pod_eviction
        try:
            self._call(call, name, namespace, body, attempts=1, accepted=(404,))
        except ApiUnreachable as error:
            if getattr(error.__cause__, "status", 0) == 429:
                return False
            raise
        return True


def node_patch(
    node: Mapping[str, Any],
    *,
    labels: Mapping[str, str | None],
    taints: Sequence[Mapping[str, str]] | None,
    unschedulable: bool | None,
) -> dict[str, Any]:
    """The smallest patch that brings labels, taints and cordon to what is wanted; empty: nothing differs.

    A label of None is removed. Taints replace those with the same key and effect and leave all others,
    which belong to Kubernetes or to other tools.
    """
    patch: dict[str, Any] = {}
    have = node.get("metadata", {}).get("labels") or {}
    if changed := {key: value for key, value in labels.items() if have.get(key) != value}:
        patch["metadata"] = {"labels": changed}
    spec: dict[str, Any] = {}
    now = node.get("spec", {})
    if taints is not None:
        known = {(taint["key"], taint["effect"]): taint for taint in now.get("taints") or ()}
        merged = known | {(taint["key"], taint["effect"]): dict(taint) for taint in taints}
        if values_of(merged) != values_of(known):
            spec["taints"] = list(merged.values())
    if unschedulable is not None and bool(now.get("unschedulable")) != unschedulable:
        spec["unschedulable"] = unschedulable
    return {**patch, "spec": spec} if spec else patch


def values_of(taints: Mapping[tuple[str, str], Mapping[str, str]]) -> dict[tuple[str, str], str]:
    """Taints in a form that compares: an absent value is an empty one."""
    return {key: taint.get("value") or "" for key, taint in taints.items()}


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
    node = client.node(name)
    if node is None:
        raise NodeNotReady(f"there is no Node {name}", where=name, fix="check the name: kubectl get nodes")
    patch = node_patch(
        node, labels=wanted["labels"], taints=wanted["taints"], unschedulable=wanted["unschedulable"]
    )
    if patch:
        result.actions.append(f"change Node {name}: {', '.join(sorted(described(patch)))}")
        result.diff.append({"before_header": name, "after_header": name, "before": "", "after": patch})
        node = node if check else client.patch_node(name, patch) or node
    leaving = [pod for pod in client.pods_on(name) if evictable(pod)] if wanted["drain"] else []
    if leaving or (wanted["drain"] and not node["spec"].get("unschedulable")):
        result.actions.append(f"drain Node {name} ({len(leaving)} pods)")
        result.remains = [] if check else drain(cast(KubeClient, client), name, clock, wanted["timeout"])
    ready, _message = ready_condition(node)
    result.summary = {"name": name, "ready": ready, "kubeletVersion": kubelet_version(node)}
    return result


def described(patch: Mapping[str, Any]) -> list[str]:
    """A patch in words."""
    labels = patch.get("metadata", {}).get("labels", {})
    spec = patch.get("spec", {})
    words = [f"label {key}={value}" for key, value in labels.items() if value is not None]
    words += [f"remove label {key}" for key, value in labels.items() if value is None]
    words += ["taints"] if "taints" in spec else []
    words += ["cordon" if spec["unschedulable"] else "uncordon"] if "unschedulable" in spec else []
    return words
