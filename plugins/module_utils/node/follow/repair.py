# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repair what differs: the applied configuration is applied again, with its gates, by the same engine."""

from __future__ import annotations

from collections.abc import Callable

from ..config.parse import parse
from ..drift.check import OF_THE_NODE, Drift, not_installed
from ..drift.record import CONTENDED, PULL_INSTALL, REPORTED, RETURNS, WINDOW, DriftRecord
from ..engine.leftovers import clear_own_leftovers
from ..engine.records.checked import note_checked
from ..engine.records.state import Store
from ..errors import FlexNodeError, counted
from ..machine.host import Host
from ..node_object.this_node import ThisNode
from ..operations.obtain import Obtained
from ..operations.outcome import Reconciled
from ..operations.reconcile import EVERYTHING, reconcile
from ..pull.install import PULL, install, is_concerned
from ..rollout.local import forget_waiting_repair
from ..status.publish import publish

Say = Callable[[str], None]
FAILED = 3  # exit status, as of a document that was refused


def repair(host: Host, store: Store, drift: Drift, say: Say) -> int:
    """Repair the items that a check found, and record how that went. The caller holds the lease."""
    record = drift.record
    tell(DriftRecord.of(store), record, say)
    record.keep(store, host.clock.now())  # first: a run that is killed has found them, too
    for what in drift.what:
        say(f"drift: {what}")
    left = record.left_alone
    try:
        run = reconcile(applied_config(host, store), EVERYTHING, progress=say, leave=left, patience=0)
    except FlexNodeError as error:
        now = host.clock.now()
        message = " ".join(f"{error.what}: {error.why}".split())
        note = record.postponed if error.waits else record.failed
        told = record.waits_for_others and record.failure and record.failure.message == message
        note(error.code, message, now).keep(store, now)
        note_checked(host)
        if not told:  # one that waits for the same nodes as before says so once
            say(f"{error}\ndrift is not repaired{' yet' if error.waits else ''}")
        return 0 if error.waits else FAILED  # other nodes come first: a later check repairs it
    uninstalled = repair_pull(host, store, record, say)
    now = host.clock.now()
    of_pull = {entry.key for entry in store.journal.entries() if entry.of and entry.of <= set(PULL)}
    repaired = drift.repairs & {*made_by(run, drift), *(() if uninstalled else (*of_pull, PULL_INSTALL))}
    if uninstalled:  # all that ansible-pull lacks is that one item from now on
        record = record.without(of_pull).failed_alone(not_installed(uninstalled), now)
    record = record.repaired(repaired, now)
    publish(host, store, record=record)  # before it is kept: a run that is killed here comes back
    record.keep(store, now)
    note_checked(host)
    if repaired:
        say(f"{counted(len(repaired), 'item')} repaired: {run.summary}")
    return FAILED if uninstalled else 0


def made_by(run: Reconciled, drift: Drift) -> frozenset[str]:
    """Keys of what a run repaired: what it changed; and items at the API server, if it got as far as that."""
    at_server = (key for key in drift.repairs if run.node and key.startswith(OF_THE_NODE))
    return run.made.union(at_server)


def repair_pull(host: Host, store: Store, record: DriftRecord, say: Say) -> dict[str, str] | None:
    """Install ansible-pull, or repair it; returns why that failed, None: it did not.

    A failure is not one of the node: it must not delay the repair of the kubelet and containerd.
    """
    applied, now = applied_config(host, store), host.clock.now()
    pauses = any(item.item == PULL_INSTALL and item.waits(now) for item in record.items)
    if pauses or not is_concerned(applied):
        return None
    try:
        install(applied, progress=say, leave=record.left_alone)
    except FlexNodeError as error:
        say(f"{error}\nansible-pull is not installed as configured; the node works without it")
        return {"code": error.code, "message": " ".join(f"{error.what}: {error.why}".split())}
    return None


def settle(host: Host, store: Store, drift: Drift, say: Say) -> None:
    """Record a check that needs no repair."""
    tell(DriftRecord.of(store), drift.record, say)
    clear_own_leftovers(host, store)
    forget_waiting_repair(store)
    publish(host, store, record=drift.record)  # before it is kept: a run that is killed here comes back
    drift.record.keep(store, host.clock.now())
    note_checked(host)


def tell(before: DriftRecord, record: DriftRecord, say: Say) -> None:
    """Say what is not repaired, once."""
    known = {(item.item, item.state) for item in before.items}
    for item in record.of_state(REPORTED, CONTENDED):
        if (item.item, item.state) not in known:
            again = f"it came back {RETURNS} times in {WINDOW / 60:g} minutes and is left alone"
            say(f"drift: {item.what} ({again if item.state == CONTENDED else 'reported only'})")


def applied_config(host: Host, store: Store) -> Obtained:
    """The configuration that was applied last. One that is only stored is not applied by a repair."""
    document = store.applied_config() or {}
    config = parse(document, purpose="join", pollable=True)
    return Obtained(ThisNode.of(host, config), store, document, store.state().get("appliedVersion"))
