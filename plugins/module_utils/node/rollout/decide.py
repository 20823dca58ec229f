# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this node may begin a change now. Pure: the record and a time in, a verdict out.

A node that restarts the kubelet or containerd is down for a moment: at most `limit` nodes of the cluster are
at a time. A change of the fleet's software goes through the rings in order, and stops when it fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar, Union

from ..dataclass import dataclass, replace
from ..errors import counted
from ..machine.clock import iso
from .record import Holder, Member, Ring, RolledBack, Rollout, Shared

T = TypeVar("T")
REGISTER_SECONDS = 60.0  # that a node of a later ring waits after it was registered late: others do it, too
FIRST = "so that nodes of earlier rings can register before it goes on"
NAMED = 5  # nodes in a message
EARLIER = 5  # digests of earlier software that are remembered per node


@dataclass(frozen=True)
class Policy:
    """The settings of `upgrade` that decide."""

    limit: int
    rings: tuple[str, ...] = ("canary",)
    soak_seconds: float = 0.0
    max_rolled_back: int = 0

    def place(self, ring: str) -> int:
        """The position of a ring; nodes of no listed ring come last."""
        return self.rings.index(ring) if ring in self.rings else len(self.rings)


@dataclass(frozen=True)
class Change:
    """What a node is about to do."""

    node: str
    ring: str
    rollout: str  # empty: a repair, which belongs to no rollout
    what: str
    before: str  # digest of the software that it runs
    after: str  # and of the one that it will run; the same: only settings of this machine change
    begun: bool = False  # this very change was interrupted in the middle
    down: bool = False  # the node has its slot from another change, and may be down since then


@dataclass(frozen=True)
class Take:
    """Begin now."""


@dataclass(frozen=True)
class Wait:
    """Ask again later."""

    why: str
    nodes: tuple[str, ...] = ()  # for whom
    seconds: float = 0.0  # at least; 0: unknown


@dataclass(frozen=True)
class Stopped:
    """Do not begin, until an administrator decides or the configuration changes."""

    why: str


Verdict = Union[Take, Wait, Stopped]  # noqa: UP007 - outside of annotations, for older tools


def decide(shared: Shared, change: Change, policy: Policy, now: float) -> Verdict:
    """Whether a node may begin. Who has begun goes on: a node in the middle of a change may be down.

    A node that is down waits for nobody either: it can't get worse, and others wait for its slot.
    """
    if change.begun:
        return Take()
    rollout = shared.rollouts.get(change.rollout)
    if rollout and rollout.stopped:
        return Stopped(f"rollout stopped ({rollout.what}): {rollout.stopped}")
    if change.down:
        return Take()
    if change.rollout:
        held_back = _registers(shared, change, policy, now) or _after_rings(shared, change, policy, now)
        if held_back:
            return held_back
    others = {name: held for name, held in shared.holders.items() if name != change.node}
    if len(others) >= policy.limit:
        busy = ", ".join(f"{name} ({held.what}, since {iso(held.since)})" for name, held in _first(others))
        limit = f"at most {counted(policy.limit, 'node')} at a time (upgrade.maxUnavailable)"
        return Wait(f"this node waits for {busy}: {limit}", tuple(sorted(others)))
    return Take()


def _registers(shared: Shared, change: Change, policy: Policy, now: float) -> Wait | None:
    """A node of a later ring that is new here can't know whether the nodes of earlier rings are, too."""
    if change.before == change.after or policy.place(change.ring) == 0:
        return None
    member = shared.nodes.get(change.node)
    if member is None:
        time = f"for {REGISTER_SECONDS:.0f} s"
        return Wait(
            f"this node must register for rollouts first, then it waits {time} {FIRST}", (), REGISTER_SECONDS
        )
    left = member.since + REGISTER_SECONDS - now
    if member.late and left > 0:
        # A time, not the seconds that are left: a run prints the same text once.
        time = f"until {iso(member.since + REGISTER_SECONDS)}"
        why = f"this node has just registered for rollouts; it waits {time} {FIRST}. Nothing to do"
        return Wait(why, (), left)
    return None


def _after_rings(shared: Shared, change: Change, policy: Policy, now: float) -> Wait | None:
    """Nodes of earlier rings that run the same software come first; then the others wait for a while.

    That includes those that ran it before: a second new version may be published while the first one is only
    on the canaries. A node that never did belongs to another part of the fleet, which may never get this.
    """
    if change.before == change.after:
        return None
    rollout = shared.rollouts.get(change.rollout)
    failed = rollout.rolled_back if rollout else {}
    for ring in policy.rings[: policy.place(change.ring)]:
        missing = sorted(
            name
            for name, member in shared.nodes.items()
            if member.ring == ring
            and change.before in member.ran
            and member.software != change.after
            and name != change.node
            and name not in failed
        )
        if missing:
            verb = "does" if len(missing) == 1 else "do"
            lack = f"{named(missing)} {verb} not have the change yet ({change.what})"
            return Wait(f"this node waits for ring {ring}: {lack}", tuple(missing))
        part = rollout.done.get(ring) if rollout else None
        left = part.last + policy.soak_seconds - now if part else 0.0
        if left > 0:
            return Wait(
                f"this node waits until {iso(now + left)}: upgrade.soakSeconds after ring {ring}",
                seconds=left,
            )
    return None


def ask(shared: Shared, change: Change, policy: Policy, now: float) -> tuple[Verdict, Shared]:
    """The verdict, and the record as it has to be written for it; the same: nothing is to be written."""
    verdict = decide(shared, change, policy, now)
    shared = registered(shared, change.node, change.ring, change.before, now, late=True)
    if not isinstance(verdict, Take):
        # A slot that was taken and not used: the run was killed before its first change.
        return verdict, shared if change.down else shared.without_holder(change.node)
    known = shared.holders.get(change.node)
    held = Holder(known.since if known else now, change.rollout, change.what)
    shared = replace(shared, holders={**shared.holders, change.node: held})
    if change.rollout and change.rollout not in shared.rollouts:
        shared = shared.with_rollout(change.rollout, Rollout(change.what, now))
    return verdict, shared


def registered(shared: Shared, node: str, ring: str, software: str, now: float, *, late: bool) -> Shared:
    """The record with this node in it. late: it had joined before."""
    known = shared.nodes.get(node)
    if known is None:
        member = Member(ring, software, now, late)
    else:
        earlier = known.ran if software != known.software else known.earlier
        earlier = tuple(one for one in earlier if one != software)[:EARLIER]
        member = replace(known, ring=ring, software=software, earlier=earlier)
    return shared if member == known else replace(shared, nodes={**shared.nodes, node: member})


def done(shared: Shared, change: Change, now: float) -> Shared:
    """The node is Ready with the new software: its slot is free.

    A run that was killed after it said so says it again: without a slot that does not count twice.
    """
    held = change.node in shared.holders
    shared = registered(
        shared.without_holder(change.node), change.node, change.ring, change.after, now, late=True
    )
    rollout = shared.rollouts.get(change.rollout)
    if rollout is None or not held:
        return shared
    part = rollout.done.get(change.ring)
    back = {name: one for name, one in rollout.rolled_back.items() if name != change.node}
    rings = {**rollout.done, change.ring: Ring((part.nodes if part else 0) + 1, now)}
    return shared.with_rollout(change.rollout, replace(rollout, done=rings, rolled_back=back))


def rolled_back(
    shared: Shared, change: Change, code: str, policy: Policy, now: float, *, works: bool
) -> Shared:
    """The node returned to its previous software; too many of those in one ring stop the rollout.

    works: it is Ready again. Otherwise it keeps its slot: it is down.
    """
    shared = shared.without_holder(change.node) if works else shared
    rollout = shared.rollouts.get(change.rollout)
    if rollout is None:
        return shared
    back = {**rollout.rolled_back, change.node: RolledBack(change.ring, code, now)}
    rollout = replace(rollout, rolled_back=back)
    failed = {
        name: one for name, one in back.items() if one.ring == change.ring and one.when > rollout.resumed
    }
    if len(failed) > policy.max_rolled_back and not rollout.stopped:
        nodes = ", ".join(f"{name} ({one.code})" for name, one in _first(failed))
        ring = f" of ring {change.ring}" if change.ring else ""
        verb = "was" if len(failed) == 1 else "were"
        rollout = replace(rollout, stopped=f"{nodes}{ring} {verb} rolled back")
    return shared.with_rollout(change.rollout, rollout)


def _first(found: Mapping[str, T]) -> list[tuple[str, T]]:
    """Some of them, for a message."""
    return sorted(found.items(), key=lambda pair: pair[0])[:NAMED]


def named(names: Sequence[str]) -> str:
    """Some names, and how many more."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
