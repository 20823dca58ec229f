# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Killed and run again: copies of a machine from moments of an undisturbed run, and what is tried on them."""

from __future__ import annotations

import itertools
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils import node as node_package
from tests.faults.dying import Watch
from tests.faults.lab import Photo, World, differences, files, untimed

LEAVE = ("unbootstrap",)
COUNTED = "crash points: "
NODE = os.path.dirname(node_package.__file__ or "")
# How closely a run is watched. At its effects: before and after each of them, and half of an appended line.
# At every moment: also between any two system calls.
EFFECTS, MOMENTS = "effects", "moments"
CLOSELY = (EFFECTS, pytest.param(MOMENTS, marks=pytest.mark.exhaustive))

# What goes through several states: our own records, what the kubelet gets anew, and what the kernel tells.
EVOLVES = ("var/lib/aks-flex-node", "var/lib/prometheus", "var/lib/kubelet/pki", "proc/swaps", "proc/sys")

Command = tuple[str, ...]
Trial = Callable[[World], None]


@dataclass(frozen=True)
class Point:
    """A machine as a killed process left it. `turn`: only one of the trials is tried on it."""

    where: str
    world: World
    turn: int | None


@dataclass
class Points:
    """Copies of a machine from every moment at which it was in a state of its own.

    If not `all_`: where lines of the program are come upon that were there before, for another file or unit,
    it is every second of these moments, and what is tried there takes turns.
    """

    world: World
    all_: bool
    states: int = 0
    points: list[Point] = field(default_factory=list)
    _last: tuple[Any, ...] = ()
    _ways: Counter[tuple[object, ...]] = field(default_factory=Counter)
    _turns: Iterator[int] = field(default_factory=itertools.count)  # of all ways: many have only one

    def happens(self, _number: int, where: str) -> None:
        """Copy the machine, unless it is as it was a moment ago."""
        now = self.world.fingerprint()
        if now == self._last:
            return
        self._last = now
        self.states += 1
        lines = tuple(calls())
        assert lines, f"{where}: no line of the program is executed, so all moments would be alike"
        # Before, half of, or after: the lines are the same, and a kill leaves something else.
        way = (where.partition(" ")[0], *lines)
        repeated = self._ways[way]
        self._ways[way] += 1
        if self.all_ or not repeated:
            self.points.append(Point(where, self.world.copy(), None))
        elif repeated % 2:
            self.points.append(Point(where, self.world.copy(), next(self._turns)))


def calls() -> Iterator[tuple[str, int]]:
    """The lines of the node's program that are being executed, the innermost first."""
    frame = sys._getframe(1)
    while frame := frame.f_back:  # type: ignore[assignment]
        if os.path.abspath(frame.f_code.co_filename).startswith(NODE):
            yield frame.f_code.co_filename, frame.f_lineno


@dataclass(frozen=True)
class Run:
    """An undisturbed run: how it begins and ends, and the machine at the moments of it."""

    begin: Photo
    end: Photo
    returns: bool  # to how it was, by way of another state: it fails
    found: Points
    watch: Watch
    after: World

    @classmethod
    def of(cls, start: World, command: Command, closely: str, *, ends: int = 0) -> Run:
        """Run a command on a copy of a machine; it must end with this status."""
        world = start.copy()
        found = Points(world, closely == MOMENTS)
        watch = Watch(found.happens)
        world.watched(watch, *command, ends=ends, system_calls=closely == MOMENTS)
        return cls(start.photo(), world.photo(), bool(ends), found, watch, world)

    def survives(self, *trials: Trial) -> None:
        """Try at each point what is to be tried there."""
        wrong: list[str] = []
        for point in self.found.points:
            if not self.returns:
                wrong += [f"killed {point.where}: {line}" for line in self.half_done(point.world.photo())]
            wrong += tried(point, trials)
        self.after.away()
        count = len(self.found.points)
        assert not wrong, f"{len(wrong)} wrong after {count} points:\n" + "\n\n".join(wrong[:20])

    def half_done(self, found: Photo) -> list[str]:
        """A file that is there before and after is there all the time, with the old content or the new."""
        wrong = []
        for path, was in files(self.begin):
            if path not in self.end or path.startswith(EVOLVES):
                continue
            if path not in found:
                wrong.append(f"{path} is not there")
            elif found[path][3:4] not in (was[3:4], self.end[path][3:4]):
                wrong.append(f"{path} is neither as it was nor as it will be")
        return wrong

    @property
    def counts(self) -> str:
        """For the summary."""
        return f"{self.watch.effects} {self.watch.moments} {self.found.states} {len(self.found.points)}"


def tried(point: Point, trials: Sequence[Trial]) -> list[str]:
    """What goes wrong after a kill, in words; each trial has a machine of its own."""
    wrong = []
    chosen = trials if point.turn is None else [trials[point.turn % len(trials)]]
    for left, trial in zip(range(len(chosen) - 1, -1, -1), chosen, strict=True):
        trying = point.world.copy() if left else point.world
        try:
            trial(trying)
        except AssertionError as error:
            wrong.append(f"killed {point.where}: {error}")
        trying.away()
    return wrong


def ends_in(world: World, command: Command, end: Photo) -> Photo:
    """The command completes; what it leaves is what an undisturbed run leaves, and nothing is left to do."""
    status, said = world.command(*command)
    assert status == 0, said
    found = world.photo(times=True)
    assert differences(end, untimed(found)) == []
    has_nothing_to_do(world, found)
    return found


def has_nothing_to_do(world: World, seen: Photo) -> None:
    """A plan finds no difference. Of machines that are the same in all that it reads, one is asked."""

    def plans_nothing() -> None:
        assert world.command("plan") == (0, "nothing to do\n")

    once(world, f"nothing to do {world.manifests()} {world.state(untimed(seen))}", plans_nothing)


def gives_back(world: World, origin: Photo, *, joined: bool = False) -> None:
    """Unbootstrap restores the machine to the byte; a Node that it can't delete it names."""
    status, said = world.command(*LEAVE)
    found = world.photo(times=True)
    if status != 0 and not joined:
        assert "left: Node edge-1" in said, said
        found["nodes"] = {}
    assert differences(origin, found) == []


def would_give_back(world: World, origin: Photo, seen: Photo) -> None:
    """The same after a run that completed. Of machines that are the same to unbootstrap, one is given back.

    That is every file, and whether its time is the one that it had in the beginning; the units, the Nodes;
    and what the journal says, whatever its lines look like.
    """
    timed = {
        path: (*found[:4], found[4] == (origin.get(path) or (0,))[-1])
        for path, found in files(seen)
        if len(found) == 5  # only a file has a time: last of a link is its target, of a directory its group
    }
    state = world.state({**seen, **timed})
    once(world, f"given back {state}", lambda: gives_back(world, origin, joined=True))


def once(world: World, state: str, check: Callable[[], None]) -> None:
    """Check a machine, unless one in the same state has passed."""
    if state not in world.lab.passed:
        check()
        world.lab.passed.add(state)
