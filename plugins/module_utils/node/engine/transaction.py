# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: observe, plan, carry out in one transaction, take back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..errors import ApiUnreachable, FlexNodeError
from ..machine.host import Host
from ..resources.base import Change, Item, Ownership, Resource, key_of
from ..resources.kinds import KINDS
from ..resources.paths import Directory
from ..resources.tree import Tree
from ..resources.units import RUNNING, Unit, unit_states
from .orphans import Orphan, find_orphans
from .state import Store

UNIT_DIR = "/etc/systemd/system"
# A run that was cut off can leave these in between: some of the swap areas off, a tree without its manifest.
# Their own `restore` tells what is ours.
HALF_DONE = ("directory", "tree", "swap")
Listener = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One item that differs, and how."""

    resource: Item
    change: Change


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that differs from what the configuration asks for, in the order it will be done."""

    steps: tuple[Step, ...]
    restarts: tuple[str, ...] = ()  # owed by a run that was cut off before it could restart them
    reload: bool = False
    touched: tuple[Resource, ...] = ()  # to be journaled: what differs, and the directories that will be ours
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    left: tuple[str, ...] = ()  # nothing asks for these any more, but someone changed them after us
    settled: tuple[str, ...] = ()  # keys of items that are again as they were before us

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps or self.restarts)

    @property
    def sentences(self) -> list[str]:
        """The plan as a person reads it."""
        owed = [f"restart {unit} (an earlier run was cut off)" for unit in self.restarts]
        return [step.change.sentence for step in self.steps] + owed

    @property
    def diff(self) -> list[dict[str, str]]:
        """Before and after of every item, as Ansible shows them."""
        return [
            {
                "before_header": key_of(step.resource),
                "after_header": key_of(step.resource),
                "before": step.change.before,
                "after": step.change.after,
            }
            for step in self.steps
        ]

    @property
    def trees(self) -> list[Tree]:
        """What must be fetched first."""
        return [step.resource for step in self.steps if isinstance(step.resource, Tree)]


class Stager(Protocol):
    """Has artifacts ready beside their place, verified, before anything is stopped."""

    def stage(self, trees: Iterable[Tree]) -> None: ...


class Gate(Protocol):
    """What must be seen before a transaction counts as done; raises if it is not."""

    def pass_(self, host: Host) -> None: ...


@dataclass(slots=True)
class Timings:
    """Seconds spent in each part of a run."""

    host: Host
    seconds: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Measure a block."""
        start = self.host.clock.monotonic()
        try:
            yield
        finally:
            spent = self.host.clock.monotonic() - start
            self.seconds[part] = round(self.seconds.get(part, 0.0) + spent, 3)


def silent(_sentence: str) -> None:
    """Nobody listens."""


def make_plan(
    resources: Sequence[Resource], host: Host, store: Store, ownership: Ownership | None = None
) -> Plan:
    """Look at every item and keep those that differ. Changes nothing.

    With an `ownership`, what its components asked for once and ask for no more is given back, first of all.
    """
    ownership = ownership or Ownership()
    listed = with_parents(resources)
    orphans = find_orphans(host, store.journal, listed, ownership.components)
    steps = [Step(orphan, orphan.change) for orphan in orphans.found]
    touched = []
    for resource in listed:
        change = resource.difference(resource.observe(host))
        if change is not None:
            steps.append(Step(resource, change))
        # A directory that is there already counts as well: what comes into it goes with us.
        if change is not None or (isinstance(resource, Directory) and resource.ours):
            touched.append(resource)
    unfinished = store.transaction() or {}
    # Started anyway, or not to run any more.
    known = {step.resource.name for step in steps if isinstance(step.resource, (Unit, Orphan))}
    known |= {key.partition(":")[2] for key in orphans.settled}
    owed = tuple(unit for unit in unfinished.get("restarts", ()) if unit not in known)
    return Plan(
        tuple(steps),
        owed,
        bool(unfinished.get("reload")),
        tuple(touched),
        _with_parents_owned(ownership.of),
        orphans.left,
        orphans.settled,
    )


def _with_parents_owned(owners: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The same for the directories above: those belong to all who have something below."""
    owned = dict(owners)
    for key, of in owners.items():
        parent = os.path.dirname(key.partition(":")[2])
        while len(parent) > 1:
            above = f"directory:{parent}"
            owned[above] = owned.get(above, frozenset()) | of
            parent = os.path.dirname(parent)
    return owned


def with_parents(resources: Sequence[Resource]) -> list[Resource]:
    """The same list with every parent directory before its first child, so that it is journaled too."""
    given = {resource.name: resource for resource in resources if isinstance(resource, Directory)}
    listed: list[Resource] = []
    placed = {"/"}
    for resource in resources:
        above: list[Resource] = []
        parent = os.path.dirname(resource.name) if resource.name.startswith("/") else "/"
        while parent not in placed:
            placed.add(parent)
            above.append(given.get(parent) or Directory(parent))
            parent = os.path.dirname(parent)
        listed += reversed(above)
        if resource.name not in placed or not isinstance(resource, Directory):
            listed.append(resource)
        if isinstance(resource, Directory):
            placed.add(resource.name)
    return listed


def execute(
    plan: Plan,
    host: Host,
    store: Store,
    stager: Stager | None,
    gates: Sequence[Gate],
    *,
    timings: Timings,
    tell: Listener = silent,
    roll_back: bool = False,
    starting: Callable[[], None] = lambda: None,
) -> None:
    """Carry out a plan in one transaction.

    Write down origins, fetch everything, write down the intent, apply, reload and restart once, pass the
    gates. What fails while applying is rolled back; a failed gate is rolled back where there is a generation
    that worked (`roll_back`), else left in place to be looked at and continued by the next run. `starting` is
    called when all is in place and units are about to start.
    """
    store.journal.record(plan.touched, plan.owners)
    with timings.of("fetch"):
        if plan.trees and stager:
            tell(f"fetch {', '.join(f'{tree.artifact.name} {tree.artifact.version}' for tree in plan.trees)}")
            stager.stage(plan.trees)
    with timings.of("apply"):
        restarts, last = _restarts(plan, _running(host, plan))
        # Those that ran before us run again after us.
        store.journal.record([Unit(unit) for unit in (*restarts, *last)])
        reload = plan.reload or any(step.resource.name.startswith(UNIT_DIR) for step in plan.steps)
        before = _now(plan, host, store)
        store.begin({"restarts": restarts + last, "reload": reload, "before": before})
        done: list[Item] = []
        try:
            tell(f"apply {len(plan.steps)} change(s)")
            for step in plan.steps:
                done.append(step.resource)
                step.resource.apply(host)
        except FlexNodeError as error:
            if stopped := _put_back(done, before, host, store):
                _reload_and_restart(host, False, stopped, tell)
            store.begin({"restarts": list(plan.restarts), "reload": plan.reload, "before": {}})
            if not plan.restarts:  # what an earlier run owes is still owed
                store.finish()
            error.why = f"{error.why}; what had been changed is as it was" if error.why else error.why
            raise
    try:
        with timings.of("start"):
            starting()
            _reload_and_restart(host, reload, restarts, tell)
            store.begin({"restarts": last, "reload": False, "before": before})
        with timings.of("gate"):
            tell("wait until all is well")
            for gate in gates:
                gate.pass_(host)
    except FlexNodeError as error:
        # An API server that can't be reached says nothing about this node: hold, the next run looks again.
        if roll_back and not isinstance(error, ApiUnreachable):
            tell("that did not work: put back what was there before")
            stopped = _put_back(done, before, host, store)
            _reload_and_restart(host, reload, [*restarts, *stopped], tell)
            store.finish()
        raise
    if last:
        with timings.of("start"):
            tell(f"start {', '.join(last)}")
            host.run(["systemctl", "restart", *last], timeout=120)
    store.journal.release([step.resource.key for step in plan.steps if isinstance(step.resource, Orphan)])
    store.finish()


def _running(host: Host, plan: Plan) -> frozenset[str]:
    named = {unit for step in plan.steps for unit in step.resource.restarts} | set(plan.restarts)
    states = unit_states(host, tuple(sorted(named)))
    return frozenset(unit for unit, state in states.items() if state["ActiveState"] in RUNNING)


def _restarts(plan: Plan, running: frozenset[str]) -> tuple[list[str], list[str]]:
    """Units to start or restart, once each, in the order in which they are named; then those that come last.

    A file's wish to restart a unit counts only if that unit runs: preparing a machine starts nothing.
    """
    ordered: dict[str, None] = {}
    last = [
        step.resource.name for step in plan.steps if isinstance(step.resource, Unit) and step.resource.last
    ]
    stopped = [step.resource.name for step in plan.steps if isinstance(step.resource, Orphan)]
    for step in plan.steps:
        for unit in step.resource.restarts:
            if (unit in running and unit not in stopped) or isinstance(step.resource, Unit):
                ordered[unit] = None
    return [unit for unit in ordered | dict.fromkeys(plan.restarts) if unit not in last], last


def _now(plan: Plan, host: Host, store: Store) -> dict[str, Any]:
    """How each item is at this moment. A rollback never empties a directory: pods may live in it by then."""
    return {
        key_of(step.resource): {**step.resource.capture(host, store.journal), "ours": False}
        for step in plan.steps
    }


def _put_back(done: list[Item], before: dict[str, Any], host: Host, store: Store) -> list[str]:
    """The previous generation. Units follow by a restart; trees are inert without a link to them.

    Returns the units that were stopped, and have to run again.
    """
    for resource in reversed(done):
        if not isinstance(resource, (Unit, Tree)):
            resource.restore(host, resource.name, before[key_of(resource)], store.journal)
    return [resource.name for resource in done if isinstance(resource, Orphan) and resource.is_unit]


def _reload_and_restart(host: Host, reload: bool, units: Sequence[str], tell: Listener) -> None:
    if reload:
        host.run(["systemctl", "daemon-reload"], timeout=120)
    if units:
        tell(f"start {', '.join(units)}")
        # A failure is left to the gates, which say more about it than systemctl does.
        host.run(["systemctl", "restart", *units], timeout=120, check=False)


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What became of one item of the journal."""

    key: str
    outcome: str  # restored | removed | left (not ours any more) | failed (to be tried again)
    why: str = ""


def clear_leftovers(host: Host, store: Store) -> None:
    """Remove what killed runs left half written: beside the items of the journal, and among our own files."""
    ours: dict[str, set[str]] = {}
    for entry in store.journal.entries():
        directory, _slash, name = entry.name.rpartition("/")
        if directory:
            ours.setdefault(directory, set()).add(name)
    for directory, names in ours.items():
        for leftover, name in host.leftovers(directory).items():
            if name in names:
                host.remove(f"{directory}/{leftover}")
    for directory in store.directories:
        for leftover in host.leftovers(directory):
            host.remove(f"{directory}/{leftover}")


def _gone(host: Host, key: str) -> bool:
    """Whether a directory went after all, with one above it that is ours."""
    kind, _colon, name = key.partition(":")
    return kind == "directory" and host.look(name).absent


def take_back(host: Host, store: Store, tell: Listener = silent) -> list[TakenBack]:
    """The journal, backwards: every item that is still ours gets the state it had before us."""
    clear_leftovers(host, store)
    results: list[TakenBack] = []
    entries = store.journal.entries()
    restart: list[str] = []
    for entry in reversed(entries):
        kind = KINDS[entry.kind]
        now = kind.mark_now(host, entry.name)
        if entry.kind == "unit" and entry.origin["is"] == "running":
            restart.append(entry.name)
            continue
        if now == entry.was and (entry.kind != "directory" or now == "absent"):
            continue  # never changed in the end, or taken back by a run that was cut off
        if now not in entry.marks and entry.kind not in HALF_DONE:
            results.append(TakenBack(entry.key, "left", "someone changed it after us"))
            continue
        tell(f"restore {entry.name}")
        # A directory of ours goes with all that came into it, but for what is left for its new owner. One
        # below it that is not empty is no reason: a run that was cut off may have left something in it.
        parts = [item.key.partition(":") for item in results if item.outcome in ("left", "failed")]
        spared = [name for of, _colon, name in parts if of != "directory"]
        try:
            left = kind.restore(host, entry.name, {**entry.origin, "spared": spared}, store.journal)
        except FlexNodeError as error:
            results.append(TakenBack(entry.key, "failed", f"{error.what}: {error.why}"))
            continue
        if left:
            results.append(TakenBack(entry.key, "left", f"still in use or not ours: {', '.join(left[:5])}"))
        else:
            outcome = "removed" if entry.origin.get("is") == "absent" else "restored"
            results.append(TakenBack(entry.key, outcome))
    results = [
        TakenBack(item.key, "removed") if item.outcome == "left" and _gone(host, item.key) else item
        for item in results
    ]
    if any(entry.name.startswith(UNIT_DIR) for entry in entries):
        _reload_and_restart(host, True, restart[::-1], tell)
    return results
