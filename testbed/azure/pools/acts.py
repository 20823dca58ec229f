# SPDX-License-Identifier: GPL-3.0-or-later
"""What AKS does by itself after a request: each step is recorded, and an act can be held after it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from testbed.azure.database import Database
from testbed.azure.pools import nodes as node_facts
from testbed.azure.pools.nodes import Nodes
from testbed.azure.pools.store import Machine

INTERVAL = 0.3
"""Seconds between two looks at what an act waits for."""
HELD_SECONDS = 1800
"""How long an act may be held: one that a test forgot must not stay for ever."""


class Stopped(Exception):
    """The act was ended before it was through: by a test, or because the server ends."""


class Failed(Exception):
    """A machine did not do what it should."""


@dataclass(frozen=True)
class Act:
    """One thing that AKS does: it writes down its steps and can be held after each."""

    kind: str
    """patch, upgrade or delete"""
    pool: str
    database: Database
    ended: threading.Event
    """Set when it is to end."""

    def reached(self, machine: str, step: str, detail: str = "") -> None:
        """A step is done; stay here while the setting says so."""
        self.database.insert(
            "service_acts",
            {
                "time": time.time(),
                "kind": self.kind,
                "pool": self.pool,
                "machine": machine,
                "step": step,
                "detail": detail,
            },
        )
        limit = time.monotonic() + HELD_SECONDS
        while self.database.settings.service_stop_after == step:
            self._pause(limit)
        if self.ended.is_set():
            raise Stopped

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Whether something came true in time."""
        limit = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= limit:
                return False
            self._pause(limit + 1)
        return True

    def _pause(self, limit: float) -> None:
        if self.ended.wait(INTERVAL) or time.monotonic() >= limit:
            raise Stopped


def patch(act: Act, nodes: Nodes, before: Machine, after: Machine) -> None:
    """Labels and taints of a machine go onto its Node, where there is one."""
    act.reached(after.name, "goal")
    if act.database.settings.patch_nodes:
        there = nodes.set_goal(after.node_name, (before.labels, after.labels), (before.taints, after.taints))
        act.reached(after.name, "patch", "" if there else "there is no Node")


def upgrade(act: Act, nodes: Nodes, machine: Machine) -> None:
    """After its new goal is written: take the Node away, and wait until it is back at the version."""
    act.reached(machine.name, "goal", machine.etag)
    name = machine.node_name
    before = nodes.find(name)
    if before is None:  # it never joined, or is on its way: it takes the goal when it comes
        act.reached(machine.name, "done", "there is no Node")
        return
    nodes.cordon(name)
    act.reached(machine.name, "cordon")
    left = drain(act, nodes, name)
    if left:
        raise Failed(f"Drain of node {name} did not complete: pods {', '.join(left)} are still running.")
    act.reached(machine.name, "drain")
    nodes.delete(name)
    act.reached(machine.name, "delete")
    seen = ["its Node did not come back"]

    def back() -> bool:
        node = nodes.find(name)
        if node is None or node["metadata"]["uid"] == before["metadata"]["uid"]:
            return False
        ready = "Ready" if node_facts.is_ready(node) else "not Ready"
        seen[0] = f"its Node is {ready} at version {node_facts.version(node)}"
        return node_facts.is_ready(node) and node_facts.version(node) == machine.full_version

    if not act.wait(back, act.database.settings.upgrade_seconds):
        raise Failed(f"Machine {machine.name} is not Ready at version {machine.full_version}: {seen[0]}.")
    act.reached(machine.name, "done")


def delete(act: Act, nodes: Nodes, machine: Machine, through: Callable[[], None]) -> None:
    """After the machine is gone from Azure: taint its Node, which makes it leave, and remove the Node later.

    through is called when the operation of the request ends: the removal of the Node comes after it.
    """
    act.reached(machine.name, "goal")
    name = machine.node_name
    node = nodes.find(name)
    if node is None or not nodes.cordon(name):
        through()
        act.reached(machine.name, "done", "there is no Node")
        return
    act.reached(machine.name, "cordon")
    left = drain(act, nodes, name)
    act.reached(machine.name, "drain", f"left: {', '.join(left)}" if left else "")
    nodes.taint_deleting(name)
    act.reached(machine.name, "taint")
    through()

    def gone() -> bool:
        """A machine that joins again under its name has a new Node, which must stay."""
        now = nodes.find(name)
        return now is None or now["metadata"]["uid"] != node["metadata"]["uid"]

    if act.wait(gone, act.database.settings.node_removal_seconds):
        act.reached(machine.name, "done", "the Node is gone already")
        return
    nodes.delete(name)
    act.reached(machine.name, "delete")


def drain(act: Act, nodes: Nodes, name: str) -> list[str]:
    """Evict the pods of a Node; those that did not go in time."""
    left: list[str] = []

    def empty() -> bool:
        left[:] = nodes.evict(name)
        return not left

    act.wait(empty, act.database.settings.drain_seconds)
    return left
