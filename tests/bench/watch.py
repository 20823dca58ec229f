# SPDX-License-Identifier: GPL-3.0-or-later
"""The stop watch of all cases: it stops when the Nodes are seen Ready, by someone who is not the act."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from testbed.basics.errors import TookTooLong
from testbed.cluster.api import Api

LOOK_EVERY = 0.05
LIMIT_SECONDS = 120

T = TypeVar("T")


@dataclass(frozen=True)
class Measured(Generic[T]):
    """How long an act took."""

    seconds: float
    """Until the Nodes were seen Ready."""
    act_seconds: float
    """Until the act ended: it goes on watching a new kubelet for five seconds."""
    result: T


def ready_names(nodes: Mapping[str, Any]) -> set[str]:
    """The names of Nodes that say they are Ready, out of a list answer."""
    return {
        node["metadata"]["name"]
        for node in nodes["items"]
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", ()))
    }


class _Looker(threading.Thread):
    """Asks the API server every 50 ms, from the outer machine."""

    def __init__(
        self,
        api: Api,
        names: Collection[str],
        wanted: Callable[[Mapping[str, Any]], set[str]] = ready_names,
    ) -> None:
        super().__init__(name="ready-watch", daemon=True)
        self._api = api
        self._wanted = wanted
        self._names = set(names)
        self.seen_at = 0.0

    def run(self) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while (now := time.monotonic()) < deadline:
            if self._names <= self._wanted(self._api.get("/api/v1/nodes")):
                self.seen_at = time.monotonic()
                return
            time.sleep(max(0.0, now + LOOK_EVERY - time.monotonic()))


@contextmanager
def at_version(api: Api, name: str, version: str) -> Iterator[Callable[[], float]]:
    """When a Node was seen Ready with a kubelet version; it is looked for while the block runs, and after."""

    def reports(nodes: Mapping[str, Any]) -> set[str]:
        infos = {node["metadata"]["name"]: node["status"]["nodeInfo"] for node in nodes["items"]}
        return {one for one in ready_names(nodes) if infos[one]["kubeletVersion"] == version}

    looker = _Looker(api, [name], reports)
    looker.start()

    def seen() -> float:
        looker.join()
        if not looker.seen_at:
            raise TookTooLong(f"{name}: not Ready with {version} within {LIMIT_SECONDS} s")
        return looker.seen_at

    yield seen


def measure(api: Api, names: Collection[str], act: Callable[[], T]) -> Measured[T]:
    """Time an act that makes these Nodes Ready."""
    looker = _Looker(api, names)
    start = time.monotonic()
    looker.start()
    result = act()
    ended = time.monotonic()
    looker.join()
    if not looker.seen_at:
        raise TookTooLong(f"{', '.join(sorted(names))}: not Ready within {LIMIT_SECONDS} s")
    return Measured(looker.seen_at - start, ended - start, result)
