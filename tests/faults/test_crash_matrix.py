# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Killed anywhere, run again: every command ends where an undisturbed run ends, and the way back stays exact.

SIGKILL leaves what is on disk at that moment, the units that run and the cluster's Nodes: nothing else. So
one undisturbed run is watched, and at every moment - before and after each effect, and between any two
system calls - that is copied. Moments with the same state are one point. On each copy the command is run
again. The points come from the run itself: a new resource or effect is covered by itself.

That is the proof (`exhaustive`). The gate has the same operations on one machine each, the one with a past,
and kills them at the boundaries of their effects, and in the middle of an appended line. It leaves to the
proof the moments between two system calls of one effect (test_host.py shows what each effect leaves there),
the machine that is fresh, and, where the same lines of the program were killed before for another file or
unit, half of the moments, and at the others all trials but one.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from tests.faults import crashes
from tests.faults.crashes import (
    CLOSELY,
    COUNTED,
    EFFECTS,
    LEAVE,
    MOMENTS,
    Command,
    Run,
    ends_in,
    gives_back,
    has_nothing_to_do,
    would_give_back,
)
from tests.faults.dying import Watch
from tests.faults.lab import NEWER, Lab, Photo, World, differences, files, untimed
from tests.unit.node.sites import KUBELET

POLL = ("poll",)
DRIFT = ("poll", "--drift")
FRESH, LIVED_IN = KINDS = ("fresh", "lived-in")


@dataclass(frozen=True)
class Case:
    """One operation on one kind of machine, with what it was before us and after an undisturbed join."""

    start: World
    command: Command
    origin: Photo  # times included
    joined: Photo


@dataclass
class Cases:
    """The operations, each with its machine; machines are made when they are needed, and once."""

    lab: Lab
    _starts: dict[str, tuple[World, Photo]] = field(default_factory=dict)
    _joined: dict[tuple[str, Command], tuple[World, Photo]] = field(default_factory=dict)

    def start(self, kind: str) -> tuple[World, Photo]:
        """A machine before us, and how it was."""
        if kind not in self._starts:
            world = self.lab.fresh() if kind == FRESH else self.lab.lived_in()
            self._starts[kind] = (world, world.photo(times=True))
        return self._starts[kind]

    def joined(self, kind: str, command: Command) -> tuple[World, Photo]:
        """The same after a join."""
        if (kind, command) not in self._joined:
            world = self.start(kind)[0].copy()
            self.lab.published["bundle"] = self.lab.bundles[0]
            status, said = world.command(*command)
            assert status == 0, said
            self._joined[kind, command] = (world, world.photo())
        return self._joined[kind, command]

    def of(self, operation: str, kind: str) -> Case:
        """An operation on a kind of machine."""
        lab, (start, origin) = self.lab, self.start(kind)
        joins = {"poll": lab.follow, "turn": lab.taking_turns[0]}
        world, photo = self.joined(kind, joins.get(operation, lab.join))
        lab.published["bundle"] = lab.bundles[1]
        if operation == "rotation":
            world = world.copy()
            world.authority = 2
        begins, command = {
            "bootstrap": (start, lab.join),
            "update": (world, lab.update),
            "unbootstrap": (world, LEAVE),
            "rotation": (world, lab.rotation),
            "drift": (drifted(world) if operation == "drift" else world, DRIFT),
            "poll": (world, POLL),
            "turn": (world, lab.taking_turns[1]),
            "pull": (world, lab.pull),
            "rollback": (world, lab.broken),
        }[operation]
        return Case(begins, command, origin, photo)


@pytest.fixture(scope="module")
def cases(lab: Lab) -> Cases:
    """The operations, each with its machine."""
    return Cases(lab)


def drifted(joined: World) -> World:
    """A node on which much was changed by hand: a unit, a version, a link, a file, a setting, a label."""
    world = joined.copy()
    machine = world.machine
    machine.commands.units[KUBELET] = "inactive"
    (version,) = machine.path("/opt/aks-flex-node/versions/kubelet").iterdir()
    (version / "kubelet").unlink()
    machine.path("/usr/local/bin/ctr").unlink()
    machine.path("/etc/modules-load.d/aks-flex-node.conf").unlink()
    machine.put("/proc/sys/net/ipv4/ip_forward", "0\n")
    world.nodes["edge-1"]["metadata"]["labels"]["site"] = "elsewhere"
    return world


EVERYWHERE = ("bootstrap", "update", "rotation", "poll", "drift", "unbootstrap")
ALIKE = ("turn", "pull")  # what these do does not depend on the machine's past: one kind is enough
MATRIX = [
    *((EFFECTS, name, LIVED_IN) for name in EVERYWHERE),
    *((EFFECTS, name, FRESH) for name in ALIKE),
    *(
        pytest.param(MOMENTS, name, kind, marks=pytest.mark.exhaustive)
        for name in EVERYWHERE
        for kind in KINDS
    ),
    *(pytest.param(MOMENTS, name, FRESH, marks=pytest.mark.exhaustive) for name in ALIKE),
]


@pytest.mark.parametrize(("closely", "operation", "kind"), MATRIX)
def test_killed_and_run_again(
    cases: Cases,
    lab: Lab,
    closely: str,
    operation: str,
    kind: str,
    record_property: Callable[[str, object], None],
) -> None:
    case = cases.of(operation, kind)
    run = Run.of(case.start, case.command, closely)

    def completes(trying: World) -> None:
        if operation in ("poll", "drift"):
            trying.machine.clock.sleep(30)  # the next look: it does not wait for the lease of a dead one
        would_give_back(trying, case.origin, ends_in(trying, case.command, run.end))

    def leaves(trying: World) -> None:
        gives_back(trying, case.origin)

    def joins_again(trying: World) -> None:
        would_give_back(trying, case.origin, ends_in(trying, lab.join, case.joined))

    record_property(f"{COUNTED}{operation}, {closely}", run.counts)
    run.survives(*((leaves, joins_again) if operation == "unbootstrap" else (completes, leaves)))


# What a run says of a failure: another run, another time, and once it is blocked another reason.
SAID = ("var/lib/aks-flex-node/state.json", "var/lib/aks-flex-node/refused-config.json")


def without_words(photo: Photo) -> Photo:
    """What counts on the machine: everything but the words about the failure."""
    return {path: seen for path, seen in photo.items() if path not in SAID}


@pytest.mark.parametrize("closely", CLOSELY)
def test_an_update_that_is_rolled_back_killed_and_run_again(
    cases: Cases, lab: Lab, closely: str, record_property: Callable[[str, object], None]
) -> None:
    """Never a mixture: the same command again ends in the previous generation, and the old document works."""
    case = cases.of("rollback", LIVED_IN)
    run = Run.of(case.start, case.command, closely, ends=1)
    end = without_words(run.end)
    has_nothing_to_do(run.after, run.end)

    def is_rolled_back(trying: World) -> None:
        status, said = trying.command(*lab.broken)
        assert status == 1, said
        found = trying.photo(times=True)
        assert differences(end, without_words(untimed(found))) == []
        has_nothing_to_do(trying, found)
        assert "FLEX-1508" in trying.command(*lab.broken)[1], "it is not tried again"
        would_give_back(trying, case.origin, trying.photo(times=True))

    def returns(trying: World) -> None:
        status, said = trying.command(*lab.join)
        assert status == 0, said
        found = trying.photo(times=True)
        has_nothing_to_do(trying, found)
        would_give_back(trying, case.origin, found)

    def leaves(trying: World) -> None:
        gives_back(trying, case.origin)

    record_property(f"{COUNTED}rollback, {closely}", run.counts)
    run.survives(is_rolled_back, returns, leaves)


class Changing:
    """A machine that is another one at every moment."""

    def __init__(self) -> None:
        self.fingerprints = itertools.count()

    def fingerprint(self) -> tuple[int]:
        """Of this moment."""
        return (next(self.fingerprints),)

    def copy(self) -> Changing:
        """No matter of which: nothing is tried on it."""
        return self


def test_before_within_and_after_an_effect_are_ways_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lines are executed at all of them; of the next files, every second moment has its turn."""
    monkeypatch.setattr(crashes, "calls", lambda: iter([("journal.py", 7)]))
    found = crashes.Points(cast(World, Changing()), all_=False)
    for path in ("a", "b", "c", "d"):
        for when in ("before", "half of", "after"):
            found.happens(0, f"{when} append {path}")
    assert [(point.where, point.turn) for point in found.points] == [
        ("before append a", None),
        ("half of append a", None),
        ("after append a", None),
        ("before append b", 0),
        ("half of append b", 1),
        ("after append b", 2),
        ("before append d", 3),
        ("half of append d", 4),
        ("after append d", 5),
    ]
    monkeypatch.setattr(crashes, "calls", lambda: iter(()))
    with pytest.raises(AssertionError, match="no line of the program"):
        found.happens(0, "before append e")


def test_whatever_the_lines_of_the_journal_look_like_the_way_back_is_the_same(cases: Cases) -> None:
    """What a run completed is given back once for all machines with the same files and the same origins."""
    case = cases.of("unbootstrap", LIVED_IN)
    world, respelled = case.start.copy(), case.start.copy()
    journal = respelled.machine.path("/var/lib/aks-flex-node/journal")
    first, *lines = map(json.loads, journal.read_text().splitlines())
    again = [{name: value for name, value in line.items() if name not in ("origin", "was")} for line in lines]
    spelled = [json.dumps(dict(sorted(line.items(), reverse=True)), indent=None) for line in (*lines, *again)]
    torn = json.dumps(lines[-1])[:-5]
    journal.write_text("\n".join([json.dumps(first), *spelled, torn]))
    assert respelled.machine.store.journal.entries() == world.machine.store.journal.entries()
    said = [each.command(*LEAVE) for each in (world, respelled)]
    assert said[0] == said[1]
    assert differences(case.origin, respelled.photo(times=True)) == []
    assert differences(case.origin, world.photo(times=True)) == []


def files_of(world: World) -> Photo:
    """The files alone; those half written have random names."""
    return {re.sub(r"[.][0-9a-f]{12}$", ".~", path): seen for path, seen in files(world.photo())}


def killed(world: World, command: Command, moment: int) -> int:
    """Run the command in a process of its own that gets SIGKILL at a moment; returns how it ended."""

    def strike(number: int, _where: str) -> None:
        if number == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    world.meet()  # the cluster is not in the process that dies, and does not see its clock
    began = world.machine.clock.time
    world.lab.api.now = lambda: began + 1
    child = os.fork()
    if child == 0:
        try:
            world.watched(Watch(strike), *command)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("operation", ["bootstrap", "update", "unbootstrap"])
@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.exhaustive)])
def test_a_real_kill_leaves_what_the_copies_show(cases: Cases, operation: str, kills: int) -> None:
    case = cases.of(operation, LIVED_IN)
    world = case.start.copy()
    known = cases.of("unbootstrap", LIVED_IN).start.nodes  # what the dying process would have registered
    shown: dict[int, Photo] = {}
    counted = Watch(lambda _number, _where: None)
    case.start.copy().watched(counted, *case.command)
    chosen = range(1, counted.moments, max(1, counted.moments // kills))
    watch = Watch(lambda number, _: shown.update({number: files_of(world)}) if number in chosen else None)
    world.watched(watch, *case.command)
    for moment in chosen:
        doomed = case.start.copy()
        doomed.nodes = copy.deepcopy(known)
        doomed.nodes["edge-1"]["status"]["nodeInfo"]["kubeletVersion"] = f"v{doomed_version(operation)}"
        assert killed(doomed, case.command, moment) == -signal.SIGKILL
        assert differences(shown[moment], files_of(doomed)) == []
        doomed.away()


def doomed_version(operation: str) -> str:
    """What the Node says once the command's kubelet runs."""
    return NEWER if operation == "update" else "1.34.4"
