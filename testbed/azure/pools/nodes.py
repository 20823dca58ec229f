# SPDX-License-Identifier: GPL-3.0-or-later
"""What AKS does with the Nodes of a pool, at the API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import requests

from testbed.azure.pools.rules import MANAGED
from testbed.cluster.api import Api, ApiError

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
DELETING = {"key": "kubernetes.azure.com/flex-node-deleting", "value": "true", "effect": "NoSchedule"}
MIRROR = "kubernetes.io/config.mirror"
TRIES = 5
GONE, CONFLICT, BUSY = requests.codes.not_found, requests.codes.conflict, requests.codes.too_many_requests


def taint(text: str) -> dict[str, str]:
    """key=value:effect, as a Node has it."""
    rest, _, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def new_labels(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """The merge patch from one goal to the next; labels that are in neither stay as they are."""
    removed: dict[str, str | None] = dict.fromkeys(set(before) - set(after))
    return {**removed, **after, MANAGED: "false"}


def new_taints(
    there: Sequence[Mapping[str, Any]], before: Sequence[str], after: Sequence[str]
) -> list[dict[str, Any]]:
    """The taints of a Node from one goal to the next.

    A taint that is removed takes all taints of its key with it: so AKS does it.
    """
    wanted = [taint(one) for one in after]
    removed = {taint(one)["key"] for one in before if one not in after}
    same = {(one["key"], one["effect"]) for one in wanted}
    kept = [
        dict(one) for one in there if one["key"] not in removed and (one["key"], one["effect"]) not in same
    ]
    return [*kept, *wanted]


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a Node says that it is."""
    conditions = node.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def version(node: Mapping[str, Any]) -> str:
    """The version of its kubelet."""
    return str(node.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")).removeprefix("v")


def stays(pod: Mapping[str, Any]) -> bool:
    """Whether a drain leaves a pod alone: it belongs to a DaemonSet, or the kubelet itself started it."""
    metadata = pod["metadata"]
    owners = metadata.get("ownerReferences") or []
    daemon = any(one.get("controller") and one["kind"] == "DaemonSet" for one in owners)
    return daemon or MIRROR in (metadata.get("annotations") or {})


class Nodes:
    """The Nodes, for one thread: a connection is not shared."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def find(self, name: str) -> dict[str, Any] | None:
        """A Node; None if there is none."""
        try:
            return self._api.get(f"{NODES}/{name}")
        except ApiError as error:
            if error.status == GONE:
                return None
            raise

    def set_goal(
        self,
        name: str,
        labels: tuple[Mapping[str, str], Mapping[str, str]],
        taints: tuple[Sequence[str], Sequence[str]],
    ) -> bool:
        """Patch labels and taints of (before, after) onto a Node; False if there is none."""

        def change(node: dict[str, Any]) -> dict[str, Any]:
            there = node["spec"].get("taints") or []
            return {
                "metadata": {"labels": new_labels(*labels)},
                "spec": {"taints": new_taints(there, *taints)},
            }

        return self._change(name, change)

    def cordon(self, name: str) -> bool:
        """Let no more pods onto a Node; False if there is none."""
        return self._change(name, lambda _: {"spec": {"unschedulable": True}})

    def taint_deleting(self, name: str) -> bool:
        """Tell the machine that it is to leave; False if there is no Node."""

        def change(node: dict[str, Any]) -> dict[str, Any]:
            others = [one for one in node["spec"].get("taints") or [] if one["key"] != DELETING["key"]]
            return {"spec": {"taints": [*others, DELETING]}}

        return self._change(name, change)

    def delete(self, name: str) -> None:
        """Delete a Node."""
        try:
            self._api.delete(f"{NODES}/{name}")
        except ApiError as error:
            if error.status != GONE:
                raise

    def evict(self, name: str) -> list[str]:
        """Ask every pod of a Node to leave; those that are still there. A budget may refuse for now."""
        found = self._api.get(PODS, fieldSelector=f"spec.nodeName={name}")["items"]
        left = []
        for pod in found:
            if stays(pod):
                continue
            namespace, pod_name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            left.append(f"{namespace}/{pod_name}")
            if pod["metadata"].get("deletionTimestamp"):
                continue
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {"name": pod_name, "namespace": namespace},
            }
            try:
                self._api.post(f"/api/v1/namespaces/{namespace}/pods/{pod_name}/eviction", eviction)
            except ApiError as error:
                if error.status not in (GONE, BUSY):
                    raise
        return left

    def _change(self, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        """Patch a Node by what it is now; the kubelet and others write to it too, so a conflict is usual."""
        for attempt in range(TRIES):
            node = self.find(name)
            if node is None:
                return False
            patch = change(node)
            resource_version = node["metadata"]["resourceVersion"]
            patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": resource_version}
            try:
                self._api.patch(f"{NODES}/{name}", patch)
            except ApiError as error:
                if error.status == GONE:
                    return False
                if error.status != CONFLICT or attempt == TRIES - 1:
                    raise
            else:
                return True
        return False
