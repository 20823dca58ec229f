# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The transaction: fetch, record the intent, apply, restart, pass the gates; on failure roll back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..errors import ApiUnreachable, FlexNodeError
from ..machine.host import Host
from ..machine.layout import UNIT_DIR
from ..resources.base import Item
from ..resources.tree import Tree
from ..resources.units import Unit
from .orphans import Orphan
from .plan import Plan
from .restarts import Progress, reload_and_restart, restart_order, running_units, silent
from .rollback import previous_generation, restore_generation
from .state import Store


class Stager(Protocol):
    """Fetches and verifies artifacts beside their final place, before anything is stopped."""

    def stage(self, trees: Iterable[Tree]) -> None: ...


class Gate(Protocol):
    """A condition that must hold before a transaction is committed; raises if it does not."""

    @property
    def condition(self) -> str: ...

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


def execute(
    plan: Plan,
    host: Host,
    store: Store,
    stager: Stager | None,
    gates: Sequence[Gate],
    *,
    timings: Timings,
    progress: Progress = silent,
    roll_back: bool = False,
    starting: Callable[[], None] = lambda: None,
) -> None:
    """Apply a plan in one transaction.

    Record origins, fetch everything, record the intent, apply, reload and restart once, pass the gates. A
    failure while applying is rolled back. A failed gate is rolled back if there is a generation that worked
    (`roll_back`); otherwise everything stays in place for inspection, and the next run continues from there.
    `starting` is called when all files are in place and units are about to start.
    """
    store.journal.record(plan.touched, plan.owners)
    with timings.of("fetch"):
        if plan.trees and stager:
            progress(
                f"fetch {', '.join(f'{tree.artifact.name} {tree.artifact.version}' for tree in plan.trees)}"
            )
            stager.stage(plan.trees)
    with timings.of("apply"):
        restarts, last = restart_order(plan, running_units(plan, host))
        # Units that ran before the first join must run again after unbootstrap.
        store.journal.record([Unit(unit) for unit in (*restarts, *last)])
        reload = plan.reload or any(step.resource.name.startswith(UNIT_DIR) for step in plan.steps)
        before = previous_generation(plan, host, store.journal)
        store.begin({"restarts": restarts + last, "reload": reload, "before": before})
        applied: list[Item] = []
        try:
            progress(f"apply {len(plan.steps)} change(s)")
            for step in plan.steps:
                applied.append(step.resource)
                step.resource.apply(host)
        except FlexNodeError as error:
            if stopped := restore_generation(applied, before, host, store.journal):
                reload_and_restart(host, False, stopped, progress)
            store.begin({"restarts": list(plan.restarts), "reload": plan.reload, "before": {}})
            if not plan.restarts:  # restarts that an earlier, interrupted run still owes stay recorded
                store.finish()
            error.why = f"{error.why}; all changes of this run were rolled back" if error.why else error.why
            raise
    try:
        with timings.of("start"):
            starting()
            reload_and_restart(host, reload, restarts, progress)
            store.begin({"restarts": last, "reload": False, "before": before})
        with timings.of("gate"):
            if gates:
                progress(f"waiting for {', '.join(gate.condition for gate in gates)}")
            for gate in gates:
                gate.pass_(host)
    except FlexNodeError as error:
        # An unreachable API server says nothing about this node: keep the new state for the next run.
        if roll_back and not isinstance(error, ApiUnreachable):
            progress("gate failed: rolling back to the previous generation")
            stopped = restore_generation(applied, before, host, store.journal)
            reload_and_restart(host, reload, [*restarts, *stopped], progress)
            store.finish()
        raise
    if last:
        with timings.of("start"):
            progress(f"start {', '.join(last)}")
            host.run(["systemctl", "restart", *last], timeout=120)
    store.journal.release([step.resource.key for step in plan.steps if isinstance(step.resource, Orphan)])
    store.finish()
