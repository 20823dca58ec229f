# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes watched from outside, all the time, while something changes them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from testbed import Testbed
from tests.e2e import fleet

SECONDS = 0.2  # between two looks


@dataclass
class Watch:
    """Looks at Nodes from outside, all the time: which are missing, not Ready, or cordoned."""

    bed: Testbed
    names: frozenset[str]
    down: list[frozenset[str]] = field(default_factory=list)
    longest_gap: float = 0
    _ended: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def of(cls, bed: Testbed, names: Iterable[str]) -> Watch:
        return cls(bed, frozenset(names))

    def look(self, api: Any) -> frozenset[str]:
        """The names of those that take no pods now."""
        nodes = api.get("/api/v1/nodes")["items"]
        working = {
            one["metadata"]["name"]
            for one in nodes
            if fleet.is_ready(one) and not one["spec"].get("unschedulable")
        }
        return self.names - working

    def _run(self) -> None:
        api, last = self.bed.cluster.api(), time.monotonic()
        while not self._ended.wait(SECONDS):
            self.down.append(self.look(api))
            now = time.monotonic()
            self.longest_gap, last = max(self.longest_gap, now - last), now

    @property
    def order(self) -> list[str]:
        """The nodes that were seen down, each when it first was."""
        return list(dict.fromkeys(name for names in self.down for name in sorted(names)))

    def __enter__(self) -> Watch:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
