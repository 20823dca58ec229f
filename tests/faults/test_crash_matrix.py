# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Killed anywhere, run again: every command ends where an undisturbed run ends, and the way back stays exact.

SIGKILL leaves what is on disk at that moment, the units that run and the cluster's Nodes: nothing else. So
one undisturbed run is watched, and at every moment - before and after each effect, and between any two
system calls - that is copied. Moments with the same state are one point. On each copy the command is run
again. The points come from the run itself: a new resource or effect is covered by itself.
"""

from __future__ import annotations

import copy
import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.faults.conftest import COUNTED
from tests.faults.dying import LOOKING, Watch, changing
from tests.faults.lab import NEWER, Lab, Photo, World, differences
from tests.unit.node.sites import KUBELET

LEAVE = ("unbootstrap",)
POLL = ("poll",)
DRIFT = ("poll", "--drift")
EFFECTS = {
    "append",
    "link",
    "make_directories",
    "make_directory",
    "move",
    "remove",
    "remove_directory",
    "remove_tree",
    "set_access",
    "set_value",
    "sync_directory",
    "sync_tree",
    "write",
}
KINDS = ("fresh", "lived-in")
KILLS = 12  # real ones, for each operation


def test_every_method_of_the_host_either_looks_or_changes() -> None:
    assert changing() == EFFECTS, "is it an effect? add it here; does it only look? add it to dying.LOOKING"
    assert not LOOKING & EFFECTS


@dataclass(frozen=True)
class Case:
    """One operation on one kind of machine, with what it was before us and after an undisturbed join."""

    start: World
    command: tuple[str, ...]
    origin: Photo  # times included
    joined: Photo


@pytest.fixture(scope="module")
def cases(lab: Lab) -> dict[str, Case]:
    """The operations, each with its machine."""
    made = {}
    for kind, start in zip(KINDS, (lab.fresh(), lab.lived_in()), strict=True):
        origin = start.photo(times=True)
        joined = start.copy()
        assert joined.command(*lab.join)[0] == 0
        photo = joined.photo()
        made[f"bootstrap, {kind}"] = Case(start, lab.join, origin, photo)
        made[f"update, {kind}"] = Case(joined, lab.update, origin, photo)
        made[f"unbootstrap, {kind}"] = Case(joined, LEAVE, origin, photo)
        rotated = joined.copy()
        rotated.authority = 2
        made[f"rotation, {kind}"] = Case(rotated, lab.rotation, origin, photo)
        made[f"drift, {kind}"] = Case(drifted(joined), DRIFT, origin, photo)
        following = start.copy()
        assert following.command(*lab.follow)[0] == 0
        made[f"poll, {kind}"] = Case(following, POLL, origin, following.photo())
        taking_turns = start.copy()
        assert taking_turns.command(*lab.taking_turns[0])[0] == 0
        made[f"turn, {kind}"] = Case(taking_turns, lab.taking_turns[1], origin, taking_turns.photo())
        made[f"pull, {kind}"] = Case(joined, lab.pull, origin, photo)
    lab.published["bundle"] = lab.news
    return made


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


@dataclass
class Points:
    """Copies of a machine from every moment at which it was in a state of its own."""

    world: World
    copies: list[tuple[str, World]] = field(default_factory=list)
    _last: tuple[Any, ...] = ()

    def happens(self, _number: int, where: str) -> None:
        """Copy the machine, unless it is as it was a moment ago."""
        now = self.world.fingerprint()
        if now != self._last:
            self._last = now
            self.copies.append((where, self.world.copy()))


def ends_in(world: World, command: tuple[str, ...], end: Photo) -> None:
    """The command completes; what it leaves is what an undisturbed run leaves, and nothing is left to do."""
    status, said = world.command(*command)
    assert status == 0, said
    assert differences(end, world.photo()) == []
    assert world.command("plan") == (0, "nothing to do\n")


def gives_back(world: World, origin: Photo, *, joined: bool = False) -> None:
    """Unbootstrap restores the machine to the byte; a Node that it can't delete it names."""
    status, said = world.command(*LEAVE)
    found = world.photo(times=True)
    if status != 0 and not joined:
        assert "left: Node edge-1" in said, said
        found["nodes"] = {}
    assert differences(origin, found) == []


def tried(where: str, world: World, *trials: Callable[[World], None]) -> list[str]:
    """What goes wrong after a kill, in words; each trial has a copy of its own."""
    wrong = []
    for trial in trials:
        trying = world.copy()
        try:
            trial(trying)
        except AssertionError as error:
            wrong.append(f"killed {where}: {error}")
        trying.away()
    world.away()
    return wrong


# What these do does not depend on the machine's past: one kind is enough.
ALIKE = ("turn", "pull")
EVERYWHERE = ("bootstrap", "update", "rotation", "poll", "drift", "unbootstrap")
MATRIX = [*((name, kind) for name in EVERYWHERE for kind in KINDS), *((name, KINDS[0]) for name in ALIKE)]


@pytest.mark.parametrize(("operation", "kind"), MATRIX)
def test_killed_and_run_again(
    cases: dict[str, Case],
    lab: Lab,
    operation: str,
    kind: str,
    record_property: Callable[[str, object], None],
) -> None:
    case = cases[f"{operation}, {kind}"]
    world = case.start.copy()
    points = Points(world)
    watch = Watch(points.happens)
    world.watched(watch, *case.command)
    end = world.photo()

    def completes(trying: World) -> None:
        if operation in ("poll", "drift"):
            trying.machine.clock.sleep(30)  # the next look: it does not wait for the lease of a dead one
        ends_in(trying, case.command, end)
        gives_back(trying, case.origin, joined=True)

    def leaves(trying: World) -> None:
        gives_back(trying, case.origin)

    def joins_again(trying: World) -> None:
        ends_in(trying, lab.join, case.joined)
        gives_back(trying, case.origin, joined=True)

    trials = (leaves, joins_again) if operation == "unbootstrap" else (completes, leaves)
    wrong = [line for where, left in points.copies for line in tried(where, left, *trials)]
    record_property(f"{COUNTED}{operation}", f"{watch.effects} {watch.moments} {len(points.copies)}")
    assert not wrong, f"{len(wrong)} wrong after {len(points.copies)} points:\n" + "\n\n".join(wrong[:20])


# What a run says of a failure: another run, another time, and once it is blocked another reason.
SAID = ("var/lib/aks-flex-node/state.json", "var/lib/aks-flex-node/refused-config.json")


def without_words(photo: Photo) -> Photo:
    """What counts on the machine: everything but the words about the failure."""
    return {path: seen for path, seen in photo.items() if path not in SAID}


def test_an_update_that_is_rolled_back_killed_and_run_again(
    cases: dict[str, Case], lab: Lab, record_property: Callable[[str, object], None]
) -> None:
    """Never a mixture: the same command again ends in the previous generation, and the old document works."""
    case = cases["update, lived-in"]
    world = case.start.copy()
    points = Points(world)
    watch = Watch(points.happens)
    world.watched(watch, *lab.broken, ends=1)
    end = without_words(world.photo())
    assert world.command("plan") == (0, "nothing to do\n")

    def is_rolled_back(trying: World) -> None:
        status, said = trying.command(*lab.broken)
        assert status == 1, said
        assert differences(end, without_words(trying.photo())) == []
        assert trying.command("plan") == (0, "nothing to do\n")
        assert "FLEX-1508" in trying.command(*lab.broken)[1], "it is not tried again"
        gives_back(trying, case.origin, joined=True)

    def returns(trying: World) -> None:
        status, said = trying.command(*lab.join)
        assert status == 0, said
        assert trying.command("plan") == (0, "nothing to do\n")
        gives_back(trying, case.origin, joined=True)

    def leaves(trying: World) -> None:
        gives_back(trying, case.origin)

    trials = (is_rolled_back, returns, leaves)
    wrong = [line for where, left in points.copies for line in tried(where, left, *trials)]
    record_property(f"{COUNTED}rollback", f"{watch.effects} {watch.moments} {len(points.copies)}")
    assert not wrong, f"{len(wrong)} wrong after {len(points.copies)} points:\n" + "\n\n".join(wrong[:20])


NOT_FILES = ("units", "nodes", "registered", "holders")


def files_of(world: World) -> Photo:
    """The files alone; those half written have random names."""
    photo = {re.sub(r"[.][0-9a-f]{12}$", ".~", path): seen for path, seen in world.photo().items()}
    return {path: seen for path, seen in photo.items() if path not in NOT_FILES}


def killed(world: World, command: tuple[str, ...], moment: int) -> int:
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
def test_a_real_kill_leaves_what_the_copies_show(cases: dict[str, Case], lab: Lab, operation: str) -> None:
    case = cases[f"{operation}, lived-in"]
    world = case.start.copy()
    known = cases["unbootstrap, lived-in"].start.nodes  # what the dying process would have registered
    shown: dict[int, Photo] = {}
    counted = Watch(lambda _number, _where: None)
    case.start.copy().watched(counted, *case.command)
    chosen = range(1, counted.moments, max(1, counted.moments // KILLS))
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
