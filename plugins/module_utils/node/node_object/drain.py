# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cordon, drain and uncordon a Node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ..dataclass import dataclass, field
from ..errors import FlexNodeError, Forbidden
from ..machine.clock import Clock
from ..net.kube import KubeClient

Pod = dict[str, Any]
TERMINATING, NOT_ASKED = "terminating", "not evicted yet"
PAUSE, LONGEST_PAUSE = 0.5, 5.0  # seconds between two looks; it grows while nothing changes
SHOWN = 3  # pods in a line of progress


class EvictionApi(Protocol):
    """What a drain needs of an API client: the node's own, or the controller's."""

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Pod | None: ...

    def pods_on(self, node: str) -> list[Pod]: ...

    def evict(self, namespace: str, name: str) -> str: ...


@dataclass(frozen=True)
class Drained:
    """How a drain ended: the pods that are still there, each with the reason."""

    stayed: Mapping[str, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all pods have left."""
        return not self.stayed

    @property
    def lines(self) -> list[str]:
        """The pods that stayed, as `default/web-0 (PodDisruptionBudget web)`."""
        return [f"{pod} ({why})" for pod, why in sorted(self.stayed.items())]

    def __str__(self) -> str:
        """One line of progress."""
        lines = self.lines
        some = ", ".join(lines[:SHOWN]) + (f", +{len(lines) - SHOWN}" if len(lines) > SHOWN else "")
        return f"waiting for {len(lines)} pod{'' if len(lines) == 1 else 's'}: {some}"


def evictable(pod: Mapping[str, Any]) -> bool:
    """Whether a drain evicts this pod: not static pods, not those of a DaemonSet, not finished ones."""
    metadata = pod.get("metadata", {})
    if "kubernetes.io/config.mirror" in (metadata.get("annotations") or {}):
        return False
    if any(owner.get("kind") == "DaemonSet" for owner in metadata.get("ownerReferences") or ()):
        return False
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def drain(
    client: EvictionApi,
    node: str,
    clock: Clock,
    seconds: float,
    say: Callable[[str], None] = lambda _line: None,
) -> Drained:
    """Cordon a Node and evict its pods within a time limit.

    A pod that its PodDisruptionBudget holds is tried again until the limit; a pod that we may not evict is
    not. The limit also ends a round over many pods with slow answers: it is exceeded by one request at most.
    """
    client.patch_node(node, {"spec": {"unschedulable": True}})
    deadline = clock.monotonic() + seconds
    refused: dict[str, str] = {}  # pods that we may not evict: asking again can't help
    before, pause = Drained(), PAUSE
    while True:
        now = _round(client, node, clock, deadline, before.stayed, refused)
        waiting = set(now.stayed) - set(refused)
        if not waiting or clock.monotonic() >= deadline:
            return now
        if now != before:
            say(str(now))
        pause = min(pause * 1.5, LONGEST_PAUSE) if now == before else PAUSE
        before = now
        clock.sleep(min(pause, deadline - clock.monotonic()))


def _round(
    client: EvictionApi,
    node: str,
    clock: Clock,
    deadline: float,
    before: Mapping[str, str],
    refused: dict[str, str],
) -> Drained:
    """Ask every pod once to leave. After the deadline none is asked, and its last known reason is kept."""
    stayed: dict[str, str] = {}
    for pod in client.pods_on(node):
        if not evictable(pod):
            continue
        metadata = pod["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if metadata.get("deletionTimestamp"):
            stayed[name] = TERMINATING
        elif name in refused:
            stayed[name] = refused[name]
        elif clock.monotonic() >= deadline:
            stayed[name] = before.get(name, NOT_ASKED)
        else:
            try:
                stayed[name] = client.evict(metadata["namespace"], metadata["name"]) or TERMINATING
            except Forbidden as error:
                stayed[name] = refused[name] = error.why or error.what
            except FlexNodeError as error:  # for example an answer that broke off: the next round asks again
                stayed[name] = error.why or error.what
    return Drained(stayed)


def uncordon(client: KubeClient, node: str) -> list[str]:
    """Make a Node schedulable again; returns what was done, in words."""
    if not (client.node(node) or {}).get("spec", {}).get("unschedulable"):
        return []
    client.patch_node(node, {"spec": {"unschedulable": None}})
    return [f"uncordon {node}"]
