# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drift in one tick: look, check when it is time, then repair, record, or hand over to the apply service."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..drift.quick import check_due, looks_wrong
from ..engine.lease import held, new_operation
from ..engine.records.checked import note_checked
from ..engine.records.state import Phase, Store
from ..machine.host import Host
from ..machine.layout import APPLY_SERVICE
from ..machine.program import COMMAND

if TYPE_CHECKING:
    from ..drift.check import Drift

Say = Callable[[str], None]


def watch_drift(host: Host, store: Store, say: Say, *, hand_over: bool, whole: bool = False) -> int | None:
    """Exit status of a repair, or 0 when it was handed over; None: nothing to repair, the poll goes on.

    whole: make the whole check now, whenever the last one was.
    """
    if store.is_unfinished:  # completing that comes first
        return None if hand_over or store.source_if_intact() else _complete(host, store, say)
    wrong = looks_wrong(host, store)
    if wrong and hand_over:
        return _hand_over(host, say, wrong)
    if not (wrong or whole or check_due(host, store)):
        return None
    from ..drift.check import check_drift  # the engine and the configuration's types: only for a check
    from ..drift.record import DriftRecord

    _recover_arc(host, store, say)
    drift = check_drift(host, store, host.clock.now())
    _note_ring(host, store, drift.ring)
    if hand_over and (drift.repairs or drift.unsure):
        return _hand_over(host, say, "; ".join(drift.what[:3]) or drift.unsure)
    if not drift.repairs and drift.record.same(DriftRecord.of(store)):
        _publish_anew(host, store, drift)
        note_checked(host)
        return None
    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        from .repair import repair, settle

        if drift.repairs:
            return repair(host, store, drift, say)
        settle(host, store, drift, say)
    return None


def _recover_arc(host: Host, store: Store, say: Say) -> None:
    """A node whose last run failed at Azure Arc: look if that works now."""
    if store.state()["phase"] != Phase.ARC_FAILED.value:
        return
    from ..procedures.arc.recovery import recover

    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        if recover(host, store):
            say("the Arc agent works again")


def _publish_anew(host: Host, store: Store, drift: Drift) -> None:
    """Nothing differs that did not before; the status may have been published in the middle of an outage."""
    from ..status.outdated import is_outdated
    from .report import publish_unless_busy

    if drift.seen and is_outdated(host, store, drift.record, drift.seen):
        publish_unless_busy(host, store, drift.record)


def _note_ring(host: Host, store: Store, ring: str | None) -> None:
    """Remember a ring that was changed by `kubectl label node`; the next poll registers it."""
    stored = store.state().get("rollout") or {}
    if ring is None or not stored.get("software") or stored.get("ring", "") == ring:
        return
    from ..dataclass import replace
    from ..rollout.local import Local

    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        replace(Local.of(store), ring=ring, pending=True).keep(store)


def _complete(host: Host, store: Store, say: Say) -> int:
    """Complete an interrupted run on a machine that polls nothing: no poll would do it."""
    from ..operations.obtain import stored_config
    from ..operations.reconcile import EVERYTHING, reconcile

    with held(host, new_operation(), f"{COMMAND} poll", patience=0):
        run = reconcile(stored_config(host, pollable=True), EVERYTHING, progress=say, patience=0)
    say(f"an interrupted change is complete: {run.summary}")
    return 0


def _hand_over(host: Host, say: Say, why: str) -> int:
    host.run(["systemctl", "start", "--no-block", APPLY_SERVICE])
    say(f"{why}: {APPLY_SERVICE} repairs it")
    return 0
