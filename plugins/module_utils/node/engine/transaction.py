# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction: fetch, record the intent, apply, restart, pass the gates; on failure roll back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from ..dataclass import dataclass, field, replace
from ..errors import ApiUnreachable, FlexNodeError, TokenRefused, counted
from ..machine.host import Host
from ..machine.layout import UNIT_DIR
from ..resources.tree import Tree
from ..resources.units import SYSTEMCTL_SECONDS, Unit
from .orphans import Orphan
from .plan import Plan
from .prune import discard_new
from .records.record import Record, Stage
from .records.state import Store
from .restarts import Progress, reload_and_restart, restart_order, running_units, silent
from .rollback import previous_generation, restore_certificate, roll_back, sync_entries

CHECK_FAILED = "check failed: "  # how the step begins that follows a failed one


class Stager(Protocol):
    """Fetches and verifies artifacts beside their final place, before anything is stopped."""

    def stage(self, trees: Iterable[Tree]) -> None: ...


class Gate(Protocol):
    """A condition that must hold before a transaction is committed; raises if it does not."""

    @property
    def condition(self) -> str: ...

    def pass_(self, host: Host) -> None: ...


@dataclass()
class Timings:
    """Seconds spent in each part of a run."""

    host: Host
    seconds: dict[str, float] = field(default_factory=dict)
    changes: list[tuple[str, float]] = field(default_factory=list)  # that were made, each with its seconds
    attempt: str = ""  # the change that is being made, or that failed

    @contextlib.contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Measure a block."""
        start = self.host.clock.monotonic()
        try:
            yield
        finally:
            spent = self.host.clock.monotonic() - start
            self.seconds[part] = round(self.seconds.get(part, 0.0) + spent, 3)

    def change(self, sentence: str, make: Callable[[], None]) -> None:
        """Make one change and measure it."""
        start, self.attempt = self.host.clock.monotonic(), sentence
        make()
        self.changes.append((sentence, self.host.clock.monotonic() - start))
        self.attempt = ""


# What is recorded of a failure; True: the configuration is to blame, and is not tried again by itself.
Reason = Callable[[FlexNodeError, bool], Mapping[str, Any]]


def nothing() -> None:
    """The default of what happens around a change."""


@dataclass(frozen=True)
class Around:
    """What happens around a change, and what is recorded of it."""

    fetched: Callable[[], None] = nothing  # everything is staged, nothing is changed or stopped yet
    starting: Callable[[], None] = nothing  # all items are in place, and units are about to restart
    returns: bool = False  # there is a generation that worked: a failed gate is rolled back
    source: Mapping[str, Any] | None = None  # of that generation
    reason: Reason = lambda error, blocks: {"code": error.code, "blocks": blocks}


def execute(
    plan: Plan,
    host: Host,
    store: Store,
    stager: Stager | None,
    gates: Sequence[Gate],
    *,
    timings: Timings,
    progress: Progress = silent,
    around: Around | None = None,
) -> None:
    """Apply a plan in one transaction.

    Record origins, fetch everything, record the intent, apply, reload and restart once, pass the gates. A
    failure while applying is rolled back. A failed gate is rolled back if there is a generation that worked;
    otherwise everything stays in place for inspection, and the next run continues from there.
    """
    around = around or Around()
    store.journal.record(plan.touched, plan.owners)
    with timings.of("fetch"):
        if plan.trees and stager:
            progress(
                f"fetch {', '.join(f'{tree.artifact.name} {tree.artifact.version}' for tree in plan.trees)}"
            )
            stager.stage(plan.trees)
    with timings.of("drain"):
        around.fetched()
    with timings.of("apply"):
        restarts, last = restart_order(plan, running_units(plan, host))
        # Units that ran before the first join must run again after unbootstrap.
        store.journal.record([Unit(unit) for unit in (*restarts, *last)])
        reload = plan.reload or any(step.resource.name.startswith(UNIT_DIR) for step in plan.steps)
        unproven = Record.of(store.transaction()) or Record(source=around.source)
        generation = previous_generation(plan, host, store.journal, unproven.before)
        record = replace(
            unproven, stage=Stage.APPLYING, before=generation, restarts=(*restarts, *last), reload=reload
        )
        store.begin(record.as_dict())
        try:
            progress(f"apply {counted(len(plan.steps), 'change')}")
            for step in plan.steps:
                timings.change(step.change.sentence, partial(step.resource.apply, host))
            sync_entries(host, (step.resource.name for step in plan.steps))
        except FlexNodeError as error:
            undo(replace(record, reason=around.reason(error, False)), error, host, store, progress)
            raise
    record = record.placed(restarts, last)
    try:
        with timings.of("start"):
            around.starting()
            store.begin(replace(record, restarts=(*restarts, *last), reload=reload).as_dict())
            reload_and_restart(host, reload, restarts, progress)
            store.begin(record.as_dict())
    except FlexNodeError as error:
        conclude(record, error, host, store, progress, around)
        raise
    prove(gates, record, host, store, timings=timings, progress=progress, around=around)
    if last:
        with timings.of("start"):
            progress(f"start {', '.join(last)}")
            host.run(["systemctl", "restart", *last], timeout=SYSTEMCTL_SECONDS)
    orphans = [step.resource for step in plan.steps if isinstance(step.resource, Orphan)]
    store.journal.release([orphan.key for orphan in orphans if not orphan.left])
    for orphan in (orphan for orphan in orphans if orphan.left):
        store.journal.disown(orphan.entry)
        progress(f"left until unbootstrap: {', '.join(orphan.left)}")


def prove(
    gates: Sequence[Gate],
    record: Record,
    host: Host,
    store: Store,
    *,
    timings: Timings,
    progress: Progress,
    around: Around,
) -> None:
    """Pass the gates; on failure return to the generation that worked, if there is one."""
    try:
        with timings.of("gate"):
            if gates:
                progress(f"waiting for {', '.join(gate.condition for gate in gates)}")
            for gate in gates:
                gate.pass_(host)
    except FlexNodeError as error:
        conclude(record, error, host, store, progress, around)
        raise


def conclude(
    record: Record, error: FlexNodeError, host: Host, store: Store, progress: Progress, around: Around
) -> None:
    """A gate failed. Roll back, unless no generation worked before, or the gate was inconclusive."""
    error.at_gate, error.changed = True, bool(record.before)
    if not around.returns:
        stay = "the changes made so far stay on the machine"
        try:
            if restore_certificate(record, host, store, progress):
                error.add("the kubelet has its earlier certificate again")
        except FlexNodeError as second:
            error.add(f"the kubelet's earlier certificate is not restored: {second.what}: {second.why}")
        # With a token that was refused no run continues.
        error.add(stay if isinstance(error, TokenRefused) else f"{stay}; the next run continues from here")
        return
    if isinstance(error, ApiUnreachable):
        # An unreachable API server says nothing about this node: keep the new state for the next run.
        error.add("the change stays in place; the next run completes it, or rolls it back")
        return
    progress(f"{CHECK_FAILED}rolling back to the earlier configuration")
    undo(replace(record, reason=around.reason(error, True)), error, host, store, progress)


def undo(record: Record, error: FlexNodeError, host: Host, store: Store, progress: Progress) -> None:
    """Return to the previous generation, and add to the error how that went."""
    failures = roll_back(record, host, store, progress)
    if not failures:
        try:
            discard_new(host, store, record.before)
            store.returned(record)
        except FlexNodeError as second:
            failures.append(f"{second.what}: {second.why}")
    error.changed, error.rolled_back = bool(failures), not failures
    if failures:
        error.add(f"the rollback is not complete, the next run continues it: {'; '.join(failures)}")
    else:
        error.outcome = "all changes were rolled back"
