# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drift.json: every item that was found to differ, what became of it, and how often it came back."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable, Mapping
from typing import Any

from ..dataclass import dataclass, replace
from ..engine.records.state import Store
from ..errors import StateCorrupt
from ..machine.clock import back_off
from ..sources.watched import LONGEST, pausing

WINDOW = 600.0  # seconds in which returns are counted, and after which a repaired item is forgotten
RETURNS = 3  # within the window: another process changes the item again and again
FIRST_PAUSE = 60.0  # seconds before a failed repair is tried again; doubled each time
REPAIR, RESTART, REPORT = "repair", "restart", "report"  # classes
FOUND, REPAIRED, CONTENDED, REPORTED = "found", "repaired", "contended", "reported"  # states
PULL_INSTALL = "pull:install"  # ansible-pull is not installed; the node works without it


def node_key(name: str) -> str:
    """The key of a Node that does not exist."""
    return f"node:{name}"


@dataclass(frozen=True)
class Finding:
    """An item that differs now."""

    item: str  # e.g. file:/etc/containerd/config.toml
    class_: str
    what: str


@dataclass(frozen=True)
class Item:
    """An item that differed, and what became of it."""

    item: str
    class_: str
    what: str
    state: str
    since: str  # when it got this state
    returns: tuple[float, ...] = ()  # when it differed again after a repair
    attempts: int = 0  # that failed, of an item that is repaired apart from the others
    retry_at: float = 0.0  # of such an item: before that its repair is not tried again

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Item:
        """From drift.json."""
        return cls(
            stored["item"],
            stored["class"],
            stored["what"],
            stored["state"],
            stored["since"],
            tuple(float(moment) for moment in stored.get("returns", ())),
            int(stored.get("attempts", 0)),
            float(stored.get("retryAt", 0.0)),
        )

    def as_dict(self) -> dict[str, Any]:
        """For drift.json."""
        return {
            "item": self.item,
            "class": self.class_,
            "what": self.what,
            "state": self.state,
            "since": self.since,
            "returns": list(self.returns),
            **({"attempts": self.attempts, "retryAt": self.retry_at} if self.attempts else {}),
        }

    def entered(self, state: str, now: float) -> Item:
        """The same in a state; the time is that of the change of state."""
        if state == self.state:
            return self
        return replace(self, state=state, since=_iso(now), attempts=0, retry_at=0.0)

    def waits(self, now: float) -> bool:
        """Whether a repair of this item alone failed, and it is too early for the next one."""
        return self.attempts > 0 and pausing(self.retry_at, now)

    def recent(self, now: float) -> tuple[float, ...]:
        """The returns that still count."""
        return tuple(moment for moment in self.returns if 0 <= now - moment < WINDOW)


@dataclass(frozen=True)
class Failure:
    """The last repair failed, or has to wait; it is not tried again at once."""

    code: str
    message: str
    attempts: int  # that failed
    retry_at: float
    waiting: bool = False  # nothing failed: other nodes come first


@dataclass(frozen=True)
class DriftRecord:
    """All items; empty: the machine is as configured, and has been for ten minutes."""

    items: tuple[Item, ...] = ()
    checked: float = 0.0  # when the record last changed
    failure: Failure | None = None

    @classmethod
    def of(cls, store: Store) -> DriftRecord:
        """From drift.json; a damaged one is as good as none, the next check writes it again."""
        try:
            stored = store.drift() or {}
            return cls(
                tuple(Item.of(item) for item in stored.get("items", ())),
                float(stored.get("checked", 0.0)),
                _failure(stored.get("failure") or stored.get("waiting"), "waiting" in stored),
            )
        except (StateCorrupt, KeyError, TypeError, ValueError):
            return cls()

    def keep(self, store: Store, now: float) -> bool:
        """Write it, if anything but the time changed; True: it did."""
        if self.same(DriftRecord.of(store)):
            return False
        failure = self.failure
        store.set_drift(
            {
                "checked": int(now),
                "items": [item.as_dict() for item in self.items],
                "waiting" if failure and failure.waiting else "failure": failure
                and {
                    "code": failure.code,
                    "message": failure.message,
                    "attempts": failure.attempts,
                    "retryAt": failure.retry_at,
                },
            }
            if self.items or failure
            else None
        )
        return True

    def same(self, other: DriftRecord) -> bool:
        """Whether both say the same."""
        return (self.items, self.failure) == (other.items, other.failure)

    def of_state(self, *states: str) -> tuple[Item, ...]:
        """The items in these states."""
        return tuple(item for item in self.items if item.state in states)

    @property
    def left_alone(self) -> frozenset[str]:
        """Keys of items that are contended: another process wants them otherwise."""
        return frozenset(item.item for item in self.of_state(CONTENDED))

    def waits(self, now: float) -> bool:
        """Whether a repair failed or had to wait, and it is too early for the next one."""
        return self.failure is not None and pausing(self.failure.retry_at, now)

    @property
    def waits_for_others(self) -> bool:
        """Whether the last repair had to wait for other nodes; once a service is down, it need not."""
        return self.failure is not None and self.failure.waiting

    def to_repair(self, now: float) -> frozenset[str]:
        """Keys of the items that are to be repaired now."""
        if self.waits(now) and not self.waits_for_others:
            return frozenset()
        return frozenset(item.item for item in self.of_state(FOUND) if not item.waits(now))

    def updated(
        self, findings: Iterable[Finding], now: float, *, repair: bool, unseen: tuple[str, ...] = ()
    ) -> DriftRecord:
        """The record after a check. `unseen`: kinds of items that could not be looked at; they stay."""
        known = {item.item: item for item in self.items}
        found = {finding.item: finding for finding in findings}
        items = [_met(finding, known.get(key), now, repair) for key, finding in found.items()]
        for key, item in known.items():
            if key in found:
                continue
            if key.startswith(unseen):
                items.append(item)
            elif quiet := _quiet(item, now):
                items.append(quiet)
        of_node = any(item.state == FOUND and item.item != PULL_INSTALL for item in items)
        failure = self.failure if of_node else None
        return DriftRecord(tuple(sorted(items, key=lambda item: item.item)), now, failure)

    def repaired(self, keys: Iterable[str], now: float) -> DriftRecord:
        """The record after these items were repaired."""
        done = frozenset(keys)
        items = tuple(item.entered(REPAIRED, now) if item.item in done else item for item in self.items)
        return DriftRecord(items, now)

    def without(self, keys: Iterable[str]) -> DriftRecord:
        """The record without these items: another one stands for them."""
        gone = frozenset(keys)
        return replace(self, items=tuple(item for item in self.items if item.item not in gone))

    def failed(self, code: str, message: str, now: float) -> DriftRecord:
        """The record after a repair failed."""
        attempts = self.failure.attempts + 1 if self.failure else 1
        return replace(self, failure=Failure(code, message, attempts, now + _pause(attempts)))

    def failed_alone(self, finding: Finding, now: float) -> DriftRecord:
        """The record after the repair of one item failed: only this item gets a pause, the others do not."""
        others = [item for item in self.items if item.item != finding.item]
        known = next((item for item in self.items if item.item == finding.item), None)
        item = known or Item(finding.item, finding.class_, finding.what, FOUND, _iso(now))
        attempts = item.attempts + 1
        item = replace(item, what=finding.what, attempts=attempts, retry_at=now + _pause(attempts))
        return replace(self, items=tuple(sorted([*others, item], key=lambda each: each.item)))

    def postponed(self, code: str, message: str, now: float) -> DriftRecord:
        """The record after a repair had to wait for other nodes: the pause does not get longer."""
        attempts = self.failure.attempts if self.failure else 0
        return replace(self, failure=Failure(code, message, attempts, now + FIRST_PAUSE, waiting=True))


def _pause(attempts: int) -> float:
    """Seconds before a repair that failed so often is tried again."""
    return back_off(FIRST_PAUSE, attempts, LONGEST)


def _failure(stored: Mapping[str, Any] | None, waiting: bool) -> Failure | None:
    if not stored:
        return None
    return Failure(stored["code"], stored["message"], stored["attempts"], stored["retryAt"], waiting)


def _met(finding: Finding, known: Item | None, now: float, repair: bool) -> Item:
    """An item that differs now, with its history."""
    item = known or Item(finding.item, finding.class_, finding.what, "", "")
    item = replace(item, class_=finding.class_, what=finding.what)
    if finding.class_ == REPORT or not repair:
        return item.entered(REPORTED, now)
    if item.state == CONTENDED:
        return item
    if item.state == REPAIRED:
        item = replace(item, returns=(*item.recent(now), now))
    return item.entered(CONTENDED if len(item.returns) >= RETURNS else FOUND, now)


def _quiet(item: Item, now: float) -> Item | None:
    """An item that does not differ any more; None: it is forgotten."""
    if item.state == REPORTED:
        return None
    item = item.entered(REPAIRED, now)
    # Until then a return counts: another process may only be slow.
    return item if item.recent(now) or 0 <= now - _seconds(item.since) < WINDOW else None


def _iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(moment))


def _seconds(iso: str) -> float:
    return calendar.timegm(time.strptime(iso[:19], "%Y-%m-%dT%H:%M:%S"))
