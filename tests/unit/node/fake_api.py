# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An API server for tests: a few Nodes and pods in memory, behind real TLS with client certificates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

from tests.unit.node.servers import Answer, Pki, Request, Server, answer_json, one_at_a_time, serving

# As kube-apiserver answers.
BLOCKED = {
    "kind": "Status",
    "message": "Cannot evict pod as it would violate the pod's disruption budget.",
    "reason": "TooManyRequests",
    "details": {
        "causes": [
            {
                "reason": "DisruptionBudget",
                "message": "The disruption budget keep needs 2 healthy pods and has 2 currently",
            }
        ]
    },
    "code": 429,
}
NODES, NAMESPACES = "/api/v1/nodes/", "/api/v1/namespaces/"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/"


def a_node(
    name: str = "edge-1",
    *,
    ready: bool = True,
    version: str = "1.34.4",
    runtime: str = "2.3.4",
    labels: Mapping[str, str] | None = None,
    beat: str = "",
) -> dict[str, Any]:
    """A Node as a kubelet registers it. `beat`: when it last reported; by default it never stops doing so."""
    condition = {"type": "Ready", "status": str(ready), "message": "kubelet is posting ready status"}
    condition["lastHeartbeatTime"] = beat
    if not ready:
        condition["message"] = "container runtime network not ready: cni plugin not initialized"
    return {
        "metadata": {"name": name, "labels": dict(labels or {}), "resourceVersion": "1"},
        "spec": {},
        "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, condition],
            "nodeInfo": {
                "kubeletVersion": f"v{version}",
                "containerRuntimeVersion": f"containerd://{runtime}",
            },
            "addresses": [{"type": "InternalIP", "address": "10.0.0.4"}],
        },
    }


def a_pod(name: str, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    """A pod that is bound to a node."""
    return {"metadata": {"namespace": "default", "name": name, **metadata}, "status": {"phase": phase}}


@dataclass
class FakeApi:
    """What the API server knows. `refuse` maps the beginning of a request to a status."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    leases: dict[str, str] = field(default_factory=dict)  # renewTime by node
    pods: list[dict[str, Any]] = field(default_factory=list)
    protected: set[str] = field(default_factory=set)  # pods that the disruption budget `keep` holds
    graceful: set[str] = field(default_factory=set)  # pods that take their time to terminate
    meanwhile: list[Callable[[], object]] = field(default_factory=list)  # by others, one before each patch
    refuse: dict[str, int] = field(default_factory=dict)
    version: str = "v1.34.4"
    knows: Callable[[], bool] = lambda: True  # whether whoever asks for a Node is somebody here
    denied: set[str] = field(default_factory=set)  # acts such as "create nodes" that nobody may do
    arrives: Callable[[Request], object] = lambda _request: None  # called with every request
    now: Callable[[], float] = time.time  # the clock of the nodes
    config_maps: dict[str, dict[str, Any]] = field(default_factory=dict)  # by namespace/name
    server: Server = field(default_factory=lambda: Server(""))

    def answer(self, request: Request) -> Answer:
        """One request."""
        self.arrives(request)
        path = urlsplit(request.path).path
        for start, status in self.refuse.items():
            if f"{request.method} {path}".startswith(start):
                return answer_json({"kind": "Status", "message": f"refused by the test ({status})"}, status)
        if path.endswith("/selfsubjectaccessreviews"):
            return self._review(request)
        if path == "/version":
            return answer_json({"gitVersion": self.version})
        if path == "/api/v1/pods":
            return answer_json({"items": self.pods})
        if path.startswith(NODES) and not self.knows():
            return answer_json({"kind": "Status", "message": "Unauthorized"}, 401)
        if path.startswith(NODES):
            return self._node(request, *path[len(NODES) :].split("/"))
        if path.startswith(LEASES) and (renewed := self.leases.get(path[len(LEASES) :])):
            return answer_json({"spec": {"renewTime": renewed}})
        if "/configmaps/" in path:
            return self._config_map(request, path.removeprefix(NAMESPACES).replace("/configmaps/", "/"))
        if path.endswith("/eviction"):
            return self._evict(path.split("/")[-2])
        return answer_json({"message": "not found"}, 404)

    def _review(self, request: Request) -> Answer:
        asked = request.json["spec"]["resourceAttributes"]
        part = f"/{asked['subresource']}" if asked["subresource"] else ""
        act = f"{asked['verb']} {asked['resource']}{part}"
        if f"?{act}" in self.denied:  # nobody knows
            return answer_json({"status": {"allowed": False, "evaluationError": "webhook is down"}}, 201)
        return answer_json({"status": {"allowed": act not in self.denied}}, 201)

    def _node(self, request: Request, name: str, part: str = "") -> Answer:
        node = self.nodes.get(name)
        if node is None:
            return answer_json({"message": f'nodes "{name}" not found'}, 404)
        if request.method == "DELETE":
            del self.nodes[name]
        if request.method == "PATCH" and part == "status":
            assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
            self.nodes[name] = _with_status(node, request.json)
        elif request.method == "PATCH":
            assert request.headers["Content-Type"] == "application/merge-patch+json"
            if self.meanwhile:
                self.meanwhile.pop(0)()
            node, patch = self.nodes[name], request.json
            now = int(node["metadata"].get("resourceVersion", 0))
            if patch.get("metadata", {}).pop("resourceVersion", str(now)) != str(now):
                message = "the object has been modified; please apply your changes to the latest version"
                return answer_json({"kind": "Status", "message": message, "reason": "Conflict"}, 409)
            self.nodes[name] = _merged(node, {**patch, "metadata": patch.get("metadata", {})})
            self.nodes[name]["metadata"]["resourceVersion"] = str(now + 1)
        return answer_json(self._reported(self.nodes.get(name, {})))

    def _config_map(self, request: Request, name: str) -> Answer:
        """Get or replace one; a PUT with another resourceVersion than the present one is refused."""
        if request.method == "PUT" and self.meanwhile:
            self.meanwhile.pop(0)()
        found = self.config_maps.get(name)
        if found is None:
            return answer_json({"kind": "Status", "message": "not found"}, 404)
        if request.method == "PUT":
            if request.json["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
                return answer_json({"kind": "Status", "reason": "Conflict", "message": "modified"}, 409)
            version = str(int(found["metadata"]["resourceVersion"]) + 1)
            body = request.json
            found = {**body, "metadata": {**body["metadata"], "resourceVersion": version}}
            self.config_maps[name] = found
        return answer_json(found, Date=formatdate(self.now(), usegmt=True))

    def _reported(self, node: dict[str, Any]) -> dict[str, Any]:
        """The Node with the present time in place of an empty heartbeat: its kubelet reports all the time."""
        shown: dict[str, Any] = json.loads(json.dumps(node))
        for condition in shown.get("status", {}).get("conditions", ()):
            if condition.get("lastHeartbeatTime") == "":
                condition["lastHeartbeatTime"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.now()))
        return shown

    def _evict(self, name: str) -> Answer:
        if name in self.protected:
            return answer_json(BLOCKED, 429, Retry_After="10")
        if name in self.graceful:
            for pod in self.pods:
                if pod["metadata"]["name"] == name:
                    pod["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
            return answer_json({"status": "Success"}, 201)
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]
        return answer_json({"status": "Success"}, 201)

    @contextmanager
    def running(self, pki: Pki, *, client_needed: bool = False) -> Iterator[FakeApi]:
        """Listen for as long as the block lasts."""
        context = pki.server_context(client_needed=client_needed)
        with serving(one_at_a_time(self.answer), context, keep_alive=True) as server:
            self.server = server
            yield self


def _with_status(node: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """A strategic merge patch of the status subresource: metadata is taken, the spec is not."""
    assert set(patch) <= {"metadata", "status"}
    conditions = {one["type"]: one for one in node["status"]["conditions"]}
    for one in patch["status"]["conditions"]:
        if one.get("$patch") == "delete":
            conditions.pop(one["type"], None)
        else:
            conditions[one["type"]] = {**conditions.get(one["type"], {}), **one}
    changed = _merged(node, {"metadata": patch.get("metadata", {})})
    changed["status"]["conditions"] = list(conditions.values())
    changed["metadata"]["resourceVersion"] = str(int(changed["metadata"].get("resourceVersion", 0)) + 1)
    return changed


def _merged(target: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged: dict[str, Any] = json.loads(json.dumps(target))
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
