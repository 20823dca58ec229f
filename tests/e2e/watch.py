# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes watched from outside while something changes them: every change that the API server stores."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from testbed import Testbed
from tests.e2e import fleet

SECONDS = 1  # of one request; the next one goes on at the last resourceVersion, so no change is missed


def takes_pods(node: dict[str, Any]) -> bool:
    return fleet.is_ready(node) and not node["spec"].get("unschedulable")


@dataclass
class Watch:
    """The API server's own record of Nodes: which are missing, not Ready, or cordoned, after each change.

    Looking at intervals would miss what is short; a watch of Kubernetes delivers each stored change in order.
    """

    bed: Testbed
    names: frozenset[str]
    down: list[frozenset[str]] = field(default_factory=list)
    requests: int = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, bed: Testbed, names: Iterable[str]) -> Watch:
        return cls(bed, frozenset(names))

    def _watch(self) -> None:
        api = self.bed.cluster.api()
        found = api.get("/api/v1/nodes")
        version = found["metadata"]["resourceVersion"]
        working = {node["metadata"]["name"] for node in found["items"] if takes_pods(node)}
        self.down.append(self.names - working)
        while not self._ended.is_set():
            self.requests += 1
            path = f"/api/v1/nodes?watch=true&timeoutSeconds={SECONDS}&resourceVersion={version}"
            for change in map(json.loads, api.text(path).splitlines()):
                node = change["object"]
                assert change["type"] in ("ADDED", "MODIFIED", "DELETED"), change
                version = node["metadata"]["resourceVersion"]
                working.discard(node["metadata"]["name"])
                if change["type"] != "DELETED" and takes_pods(node):
                    working.add(node["metadata"]["name"])
                self.down.append(self.names - working)

    @property
    def order(self) -> list[str]:
        """The nodes that were seen down, each when it first was."""
        return list(dict.fromkeys(name for names in self.down for name in sorted(names)))

    def __enter__(self) -> Watch:
        self._thread = ThreadPoolExecutor(1)
        self._watching = self._thread.submit(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.shutdown()
        self._watching.result()  # raises what ended it early
        assert self.requests, "the block was over before anything was watched"
