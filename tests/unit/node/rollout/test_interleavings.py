# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes that read and write the record in any order, lose races, are killed anywhere: never too many down."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from functools import lru_cache, partial

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.decide import (
    Change,
    Policy,
    Stopped,
    Take,
    Verdict,
    ask,
    done,
    registered,
    rolled_back,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import Shared, written
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import read as read_text

NOW = 1_800_000_000.0
RINGS = ("canary", "canary", "plant", "", "", "")
Run = Generator[None, None, None]
read = lru_cache(maxsize=64)(read_text)
# A schedule of 200 steps takes very long to shrink, and says little more when it is shorter.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@dataclass
class Server:
    """The ConfigMap: one text and its resourceVersion."""

    text: str = ""
    version: int = 0

    def put(self, text: str, version: int) -> bool:
        """False: 409, it was changed since it was read."""
        if version != self.version:
            return False
        self.text, self.version = text, self.version + 1
        return True


@dataclass
class World:
    """A cluster whose nodes all want the same new software at once."""

    policy: Policy
    bad: bool  # the new software does not work
    server: Server = field(default_factory=Server)
    nodes: dict[str, Node] = field(default_factory=dict)
    time: float = NOW

    def check(self) -> None:
        """After every single step, from outside."""
        down = {name for name, node in self.nodes.items() if node.changing}
        held = set(read(self.server.text).holders)
        assert len(down) <= self.policy.limit, f"down at once: {down}"
        assert len(held) <= self.policy.limit, f"holders: {held}"
        assert down <= held, "a node is down without a slot"


@dataclass
class Node:
    """One machine. `changing` is its transaction on the disk: a kill does not end it."""

    world: World
    name: str
    ring: str
    software: str = "old"
    slot: bool = False  # remembered on the disk, before it is taken
    changing: bool = False
    blocked: bool = False  # it has tried the new software
    order: list[str] = field(default_factory=list)

    @property
    def change(self) -> Change:
        begun = self.changing and self.slot
        return Change(self.name, self.ring, "r", "kubernetes 1 -> 2", self.software, "new", begun)

    def reported(self, change: Change, shared: Shared) -> tuple[None, Shared]:
        """How the change ended, from what is on the disk: the applied software, and what was rolled back."""
        world = self.world
        if self.software == "new":
            return None, done(shared, change, world.time)
        if self.blocked:
            return None, rolled_back(shared, change, "FLEX-1501", world.policy, world.time, works=True)
        return None, shared.without_holder(self.name)

    def write(self, step: Callable[[Shared], tuple[object, Shared]]) -> Generator[None, None, object]:
        """Read, decide, write; other nodes get their chance at every yield. After a 409 it begins again."""
        for _attempt in range(8):
            text, version = self.world.server.text, self.world.server.version
            yield
            result, changed = step(read(text))
            if changed == read(text):
                return result
            yield
            if self.world.server.put(written(changed), version):
                yield
                return result
        return None  # gives up: this poll does nothing

    def poll(self) -> Run:
        """One poll, as the engine does it."""
        if self.slot and not self.changing:  # a killed run left it
            yield from self.write(partial(self.reported, replace(self.change, before="old")))
            self.slot = False
            yield
        if self.software == "new" or (self.blocked and not self.changing):
            return

        def step(shared: Shared) -> tuple[Verdict, Shared]:
            verdict, changed = ask(shared, self.change, self.world.policy, self.world.time)
            if isinstance(verdict, Take):
                self.slot = True
            return verdict, changed

        verdict = yield from self.write(step)
        if not isinstance(verdict, Take):
            if isinstance(verdict, Stopped):
                self.order.append("stopped")
            return
        self.changing = True
        yield
        works = not self.world.bad
        yield
        change = self.change
        if works:
            self.software = "new"
        self.blocked = True
        self.changing = False  # it is Ready again, with the one or the other
        yield
        yield from self.write(partial(self.reported, change))
        self.slot = False


def world_of(count: int, limit: int, bad: bool) -> World:
    world = World(Policy(limit, rings=("canary", "plant"), soak_seconds=5), bad)
    shared = Shared()
    for index in range(count):
        name = f"n{index}"
        world.nodes[name] = Node(world, name, RINGS[index])
        shared = registered(shared, name, RINGS[index], "old", NOW - 3600, late=False)
    world.server.text = written(shared)
    return world


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.sampled_from(["on", "on", "on", "on", "kill"])), min_size=60, max_size=250
)


def schedule(world: World, steps: list[tuple[int, str]]) -> None:
    """Let the nodes work in this order; a killed one starts again with its next step."""
    running: dict[str, Run] = {}
    for number, act in steps:
        names = sorted(world.nodes)
        node = world.nodes[names[number % len(names)]]
        world.time += 1
        if act == "kill":
            running.pop(node.name, None)
            continue
        run = running.setdefault(node.name, node.poll())
        try:
            next(run)
        except StopIteration:
            running.pop(node.name)
        world.check()


@settings(max_examples=120, phases=PHASES)
@given(st.integers(2, 6), st.integers(1, 3), st.booleans(), STEPS)
def test_never_more_than_the_limit(count: int, limit: int, bad: bool, steps: list[tuple[int, str]]) -> None:
    schedule(world_of(count, limit, bad), steps)


@settings(max_examples=60, phases=PHASES)
@given(st.integers(2, 6), st.integers(1, 3), STEPS)
def test_whatever_happened_all_nodes_get_there_in_the_end(
    count: int, limit: int, steps: list[tuple[int, str]]
) -> None:
    """After any kills and races, polls that are left alone finish it: nothing stays locked."""
    world = world_of(count, limit, bad=False)
    schedule(world, steps)
    for _round in range(4 * count):
        for node in world.nodes.values():
            world.time += 10
            for _step in node.poll():
                world.check()
    assert {node.software for node in world.nodes.values()} == {"new"}
    assert dict(read(world.server.text).holders) == {}


@settings(max_examples=60, phases=PHASES)
@given(st.integers(3, 6), st.integers(1, 2), STEPS)
def test_bad_software_never_leaves_the_first_ring(
    count: int, limit: int, steps: list[tuple[int, str]]
) -> None:
    world = world_of(count, limit, bad=True)
    schedule(world, steps)
    tried = {node.ring for node in world.nodes.values() if node.blocked or node.changing}
    assert tried <= {"canary"}
    assert sum(node.blocked or node.changing for node in world.nodes.values()) <= limit


def test_rings_come_in_order() -> None:
    world = world_of(6, 2, bad=False)
    finished: list[str] = []
    for _round in range(40):
        for node in world.nodes.values():
            world.time += 1
            before = node.software
            for _step in node.poll():
                world.check()
            if node.software != before:
                finished.append(node.ring)
    assert finished == ["canary", "canary", "plant", "", "", ""]


def test_a_lost_slot_is_found_again() -> None:
    """Killed between the note on the disk and the answer of the API server: nobody waits for it for ever."""
    world = world_of(2, 1, bad=False)
    node = world.nodes["n0"]
    run = node.poll()
    for _step in range(3):
        next(run)
    assert node.slot
    assert list(read(world.server.text).holders) == ["n0"]
    for _step in node.poll():
        world.check()
    assert node.software == "new"
    assert replace(read(world.server.text), rollouts={}, nodes={}) == Shared()
