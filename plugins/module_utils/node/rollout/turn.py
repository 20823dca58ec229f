# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The turn of this node: taken before a change that restarts something, released when that has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from ..config.parse import parse
from ..dataclass import dataclass, replace
from ..engine.records.state import Store
from ..errors import ConfigInvalid, FlexNodeError
from ..machine.host import Host
from ..node_object.this_node import ThisNode
from .decide import Change, Policy, Stopped, Take, Verdict, Wait, ask, decide, done, registered, rolled_back
from .errors import RolloutStopped, RolloutUnknown, RolloutWaits, resumes
from .local import (
    DONE,
    ROLLED_BACK,
    STOPPED,
    UNCHANGED,
    UNKNOWN,
    WAITING,
    Local,
    Slot,
    forget_waiting,
    note_waiting,
)
from .record import Shared
from .semaphore import change_shared, read_shared
from .software import rollout_of, software

Progress = Callable[[str], None]
PAUSE = 5.0  # seconds between two questions of a run that waits


@dataclass(frozen=True)
class Turn:
    """One change of this node, and the cluster's permission for it."""

    node: ThisNode  # as it works now: the new configuration may name another server
    store: Store
    change: Change
    policy: Policy
    patience: float  # seconds; 0: do not wait, the next poll asks again

    @property
    def host(self) -> Host:
        """The machine."""
        return self.node.host

    def begin(self) -> None:
        """Register this node, before anything is fetched: nodes of later rings wait only for those they know.

        Raise if it waited for the same change before, and still has to. The first time a change waits, its
        files are fetched before; so the record is not asked then. A node that may be down asks at once: what
        it is in the middle of must not be replaced by a rollout that is stopped.
        """
        if not Local.of(self.store).software:
            self._register()
        waiting = Local.of(self.store).waiting
        waits = not self.patience and waiting and waiting["rollout"] == self.change.rollout
        if self.change.begun or not (waits or self.change.down):
            return
        try:
            shared, _found, now = read_shared(self.node.api(attempts=1))
            if self.change.node not in shared.nodes:  # the record was created anew
                replace(Local.of(self.store), pending=True).keep(self.store)
                self._register()
            verdict = decide(shared, self.change, self.policy, now)
            if not isinstance(verdict, Take):
                raise self._error(verdict)
        except FlexNodeError as error:
            if error.waits:
                self._note(error)
            raise

    def _register(self) -> None:
        """What fails here is tried again when the turn is taken, and said then."""
        register(self.node, self.store, self.change.ring, self.change.before, late=True)

    def take(self, progress: Progress) -> None:
        """Take a slot, or wait for one as long as this run may; everything is fetched, nothing stopped."""
        host, said = self.host, ""
        deadline = host.clock.monotonic() + self.patience
        while True:
            try:
                verdict = self._ask()
            except RolloutUnknown as error:
                if self.change.begun and Local.of(self.store).slot:
                    progress(f"{error.what}: this node has its slot since before, and completes the change")
                    return
                self._note(error)
                raise
            if isinstance(verdict, Take):
                forget_waiting(self.store)
                return
            left = deadline - host.clock.monotonic()
            if isinstance(verdict, Stopped) or left <= 0:
                held_back = self._error(verdict)
                self._note(held_back)
                raise held_back
            if verdict.why != said:
                progress(verdict.why)
                said = verdict.why
            host.clock.sleep(min(PAUSE, left))

    def _ask(self) -> Verdict:
        """Ask once. The slot is remembered before it is taken, and forgotten if it is not."""
        local = Local.of(self.store)

        def step(shared: Shared, now: float) -> tuple[Verdict, Shared]:
            verdict, changed = ask(shared, self.change, self.policy, now)
            if isinstance(verdict, Take):
                replace(local, slot=Slot(self.change, self.policy.max_rolled_back)).keep(self.store)
            return verdict, changed

        verdict = change_shared(self.node.api(), step)
        slot = local.slot
        if isinstance(verdict, Take):
            slot = Slot(self.change, self.policy.max_rolled_back)
        elif not self.change.down:
            slot = None
        software = self.change.before
        replace(local, ring=self.change.ring, software=software, pending=False, slot=slot).keep(self.store)
        return verdict

    def _error(self, verdict: Wait | Stopped) -> FlexNodeError:
        if isinstance(verdict, Stopped):
            fix = RolloutStopped.remedy.replace(resumes("ID"), resumes(self.change.rollout))
            return RolloutStopped(verdict.why, where=self.change.node, fix=fix)
        waited = f"this run waited {self.patience:.0f} s" if self.patience else ""
        return RolloutWaits(verdict.why, where=self.change.node, why=waited)

    def _note(self, error: FlexNodeError) -> None:
        states = {RolloutStopped: STOPPED, RolloutUnknown: UNKNOWN}
        note_waiting(self.host, self.store, error, states.get(type(error), WAITING), self.change)


def settle(node: ThisNode, store: Store, outcome: str, code: str = "", *, works: bool = True) -> str:
    """Report how the change went and release the slot; returns why that failed, in words. Never fails.

    outcome: of the change that has just ended, and the code of its error.
    works: the node works with one of both softwares. Otherwise it keeps its slot.
    """
    local = Local.of(store)
    slot = local.slot
    if slot is None:
        return ""
    slot = replace(slot, outcome=outcome, code=code)
    replace(local, slot=slot).keep(store)  # first: what can't be reported now is reported later
    change, policy = slot.change, slot.policy

    def step(shared: Shared, now: float) -> tuple[None, Shared]:
        if slot.outcome == DONE:
            return None, done(shared, change, now)
        if slot.outcome == ROLLED_BACK:
            return None, rolled_back(shared, change, slot.code, policy, now, works=works)
        return None, shared.without_holder(change.node) if works else shared

    try:
        change_shared(node.api(), step)
    except FlexNodeError as error:
        return f"the slot of this node is not released yet: {error.what}: {error.why}"
    software = change.after if slot.outcome == DONE else local.software
    if works:
        replace(local, slot=None, software=software).keep(store)
    else:  # it was reported, once; the slot itself is released by the next run that finds the node working
        replace(local, slot=replace(slot, outcome=UNCHANGED, code="")).keep(store)
    return ""


def register(
    node: ThisNode, store: Store, ring: str, software: str, *, late: bool, works: bool = False
) -> str:
    """Enter this node into the record, if that says anything else; returns why that failed, in words.

    works: the node was just proven to work. Then the record is read whatever was registered before: it may
    have been created anew, or have a slot that this machine took before its disk was replaced.
    """
    local = Local.of(store)
    if not works and (local.ring, local.software, local.pending) == (ring, software, False):
        return ""
    replace(local, ring=ring, software=software, pending=True).keep(store)
    forgotten = works and local.slot is None

    def step(shared: Shared, now: float) -> tuple[None, Shared]:
        shared = shared.without_holder(node.name) if forgotten else shared
        return None, registered(shared, node.name, ring, software, now, late=late)

    try:
        change_shared(node.api(), step)
    except FlexNodeError as error:
        return f"this node is not registered for rollouts yet: {error.what}: {error.why}"
    replace(Local.of(store), pending=False).keep(store)
    return ""


def forget(node: ThisNode, store: Store) -> None:
    """Remove this node from the record: it leaves, or takes no part any more."""
    change_shared(node.api(), lambda shared, _now: (None, shared.without_node(node.name)))
    Local().keep(store)


def settle_debts(node: ThisNode, store: Store) -> None:
    """Write what an earlier run could not write. What fails again is tried again.

    node: with the configuration that was applied last.
    """
    local = Local.of(store)
    if local.slot:
        settle(node, store, *ended(node, store, local.slot))
    if local.pending:
        register(node, store, local.ring, software(node.config), late=True)


def ended(node: ThisNode, store: Store, slot: Slot) -> tuple[str, str]:
    """How a change ended whose run was killed before it could say so, and with which code.

    What is on the disk says it: a document that was rolled back, or the one that was applied. It does not say
    it of a change that leaves the software as it is; that one does not go through rings, and is not counted.
    """
    if slot.outcome:
        return slot.outcome, slot.code
    refused = store.refused()
    if refused.get("blocks"):
        with contextlib.suppress(ConfigInvalid):
            config = parse(refused["document"], purpose="join", pollable=True)
            if rollout_of(node.config, config) == slot.change.rollout:
                return ROLLED_BACK, str(refused["code"])
    change = slot.change
    return (DONE if change.before != change.after == software(node.config) else UNCHANGED), ""
