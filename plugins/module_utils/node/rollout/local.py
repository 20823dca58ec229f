# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this machine remembers of rollouts, in state.json: its entry, its slot, and what it waits for.

The slot is remembered before it is taken, and forgotten after it was released: a run that is killed in
between leaves a slot that the next run finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dataclass import asdict, dataclass, replace
from ..engine.records.state import Phase, Store
from ..errors import FlexNodeError, StateCorrupt
from ..machine.clock import stamp
from ..machine.host import Host
from .decide import Change, Policy

WAITING, STOPPED, UNKNOWN, HOLDS = "waiting", "stopped", "unknown", "holds"  # states
DONE, ROLLED_BACK, UNCHANGED = "done", "rolled back", "unchanged"  # outcomes of a slot


@dataclass(frozen=True)
class Slot:
    """A slot that this node holds, or was about to take."""

    change: Change
    max_rolled_back: int = 0
    outcome: str = ""  # that is still to be reported; empty: the change is in progress
    code: str = ""

    @property
    def policy(self) -> Policy:
        """What counts when it is released."""
        return Policy(1, max_rolled_back=self.max_rolled_back)


@dataclass(frozen=True)
class Local:
    """The part `rollout` of state.json."""

    ring: str = ""
    software: str = ""  # as registered; empty: this node is not registered
    slot: Slot | None = None
    pending: bool = False  # ring or software are still to be registered
    waiting: Mapping[str, str] | None = None  # state, code, message, what, rollout, since

    @classmethod
    def of(cls, store: Store) -> Local:
        """From state.json."""
        stored = store.state().get("rollout") or {}
        slot = stored.get("slot")
        return cls(
            stored.get("ring", ""),
            stored.get("software", ""),
            Slot(Change(**slot["change"]), slot["maxRolledBack"], slot["outcome"], slot["code"])
            if slot
            else None,
            bool(stored.get("pending")),
            stored.get("waiting"),
        )

    def keep(self, store: Store) -> None:
        """Write it; nothing to remember is not written."""
        slot = self.slot
        found: dict[str, Any] = {
            "ring": self.ring,
            "software": self.software,
            "slot": slot
            and {
                "change": asdict(slot.change),
                "maxRolledBack": slot.max_rolled_back,
                "outcome": slot.outcome,
                "code": slot.code,
            },
            "pending": self.pending,
            "waiting": dict(self.waiting) if self.waiting else None,
        }
        found = {key: value for key, value in found.items() if value}
        if (store.state().get("rollout") or {}) != found:
            store.note(rollout=found or None)


def takes_part(local: Local) -> bool:
    """Whether this node is in the rollout record, or may be: it was about to be written there."""
    return bool(local.software or local.slot or local.pending)


def note_waiting(host: Host, store: Store, error: FlexNodeError, state: str, change: Change) -> None:
    """Remember why this node waits. The time is that of the first such message."""
    local = Local.of(store)
    message = " ".join((f"{error.what}: {error.why}" if error.why else error.what).split())
    now = {
        "state": state,
        "code": error.code,
        "message": message,
        "what": change.what,
        "rollout": change.rollout,
    }
    before = dict(local.waiting or {})
    since = before.pop("since", "")
    if before != now or not since:
        since = since if before.get("state") == state and since else stamp(host.clock)
        replace(local, waiting={**now, "since": since}).keep(store)


def forget_waiting(store: Store) -> None:
    """It waits no more."""
    local = Local.of(store)
    if local.waiting:
        replace(local, waiting=None).keep(store)


def forget_waiting_repair(store: Store) -> None:
    """Nothing is to be repaired any more: someone else did it."""
    waiting = Local.of(store).waiting
    if waiting and not waiting["rollout"]:
        forget_waiting(store)


def owes(store: Store) -> bool:
    """Whether something is still to be written to the rollout record, and no change is in progress."""
    try:
        state = store.state()
    except StateCorrupt:
        return False
    stored = state.get("rollout") or {}
    if not stored or state.get("phase") != Phase.NODE_JOINED.value or state.get("cordoned"):
        return False
    return bool(stored.get("pending") or (stored.get("slot") and store.transaction() is None))
