# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes without machines: real objects in the real cluster, written as a kubelet writes them."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from testbed.basics.clock import wait_for
from testbed.cluster.api import Api, ApiError

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MARK = "testbed.azure/stand-in"
INTERVAL = 0.2


class StandIns:
    """The Nodes and pods of one test."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._paths: set[str] = set()
        self.close()  # what a run that was killed left behind

    def join(self, name: str, version: str, labels: dict[str, str] | None = None) -> str:
        """Register a Node, Ready at a version; its uid."""
        created = self._api.post(NODES, {"metadata": {"name": name, "labels": {**(labels or {}), MARK: ""}}})
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now,  # without it the cluster takes the Node for lost
            "lastTransitionTime": now,
        }
        status = {"conditions": [condition], "nodeInfo": {"kubeletVersion": f"v{version}"}}
        self._api.patch(f"{NODES}/{name}/status", {"status": status})
        return str(created["metadata"]["uid"])

    def find(self, name: str) -> dict[str, Any] | None:
        """A Node."""
        return next((one for one in self._api.get(NODES)["items"] if one["metadata"]["name"] == name), None)

    def node(self, name: str) -> dict[str, Any]:
        """A Node that must be there."""
        found = self.find(name)
        assert found is not None
        return found

    def taints(self, name: str) -> set[str]:
        """The taints of a Node that a user or AKS set, not those that the cluster sets by itself."""
        found = self.node(name)["spec"].get("taints", [])
        return {
            f"{one['key']}={one.get('value', '')}:{one['effect']}"
            for one in found
            if not one["key"].startswith("node.kubernetes.io/")
        }

    def labels(self, name: str) -> dict[str, str]:
        """The labels of a Node."""
        found: dict[str, str] = self.node(name)["metadata"].get("labels", {})
        return found

    def pod(self, name: str, node: str) -> None:
        """A running pod on a Node, that goes at once when it is evicted: no kubelet ends its containers."""
        container = {"name": "main", "image": "example.invalid/none"}
        self._paths.add(f"{PODS}/{name}")
        self._api.post(
            PODS,
            {
                "metadata": {"name": name, "labels": {"app": name}},
                "spec": {
                    "nodeName": node,
                    "containers": [container],
                    "terminationGracePeriodSeconds": 0,
                    "tolerations": [{"operator": "Exists"}],
                },
            },
        )

        ready = {"type": "Ready", "status": "True"}
        self._api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def budget(self, name: str) -> None:
        """A disruption budget that lets no pod of that name go."""
        self._paths.add(f"{BUDGETS}/{name}")
        spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": name}}}
        self._api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec})

    def pods(self) -> set[str]:
        """The pods of the test."""
        return {one["metadata"]["name"] for one in self._api.get(PODS)["items"]}

    def until(self, what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something."""
        wait_for(what, condition, seconds)

    @contextmanager
    def coming_back(self, version_of: Callable[[str], str], *names: str) -> Iterator[None]:
        """While this lasts, a Node that is deleted registers again: at the version of its machine."""
        ending = threading.Event()

        def run() -> None:
            while not ending.wait(INTERVAL):
                for name in names:
                    if self.find(name) is None:
                        self.join(name, version_of(name))

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(run)
            try:
                yield
            finally:
                ending.set()
                running.result()  # an error of the API server is the test's, too

    def close(self) -> None:
        """Remove all of it."""
        there = self._api.get(NODES, labelSelector=MARK)["items"]
        for path in (*self._paths, *(f"{NODES}/{one['metadata']['name']}" for one in there)):
            try:
                self._api.delete(path, gracePeriodSeconds="0")
            except ApiError as error:
                if error.status != 404:
                    raise
