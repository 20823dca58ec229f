# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give roles to many principals and take them back: one list a scope, then each, a few at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....node.machine.clock import Clock
from ...parallel import FAILURES, in_parallel
from ..errors import NotInAzure, PermissionMissing, PrincipalUnknown
from .assignments import Existing, Grant, Order, Outcome, Role, decide, decide_absent, found_again, known_role

PAUSE, LONGEST_PAUSE = 2.0, 15.0


class Azure(Protocol):
    """What is asked of Azure."""

    def at(self, scope: str) -> list[Existing]: ...

    def of(self, principal_id: str, scope: str) -> list[Existing]: ...

    def role(self, name: str, scope: str) -> Role: ...

    def create(self, grant: Grant) -> bool: ...

    def delete(self, grant: Grant) -> None: ...

    def principal_of(self, machine_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Who gets or loses what, and what there is of it."""

    grants: Sequence[Grant]
    existing: Mapping[str, Sequence[Existing]]

    def decided(self, by: Callable[[Grant, Sequence[Existing]], Outcome]) -> list[Outcome]:
        """The outcome of each, by a rule."""
        return [by(grant, self.existing[grant.scope]) for grant in self.grants]


def owners_of(
    principal_of: Callable[[str], str], machine_ids: Iterable[str], *, absent: bool = False
) -> dict[str, str]:
    """The identity of each Arc machine, asked once; who takes things back may meet one that is gone."""
    machines = list(dict.fromkeys(machine_ids))
    owners = dict(zip(machines, in_parallel(principal_of, machines, str), strict=True))
    gone = [machine for machine, owner in owners.items() if not owner]
    if gone and not absent:
        raise NotInAzure(
            f"there is no machine {', '.join(gone)}, or it has no identity",
            fix="register it with Azure Arc first; see `azcmagent show` there",
        )
    return owners


def plan_of(azure: Azure, orders: Sequence[Order], *, absent: bool = False) -> Plan:
    """Look everything up that the orders leave open; each question is asked once."""
    unknown = [order.machine_id for order in orders if not order.principal_id]
    owners = owners_of(azure.principal_of, unknown, absent=absent)
    scopes = list(dict.fromkeys(order.scope for order in orders if not order.below))
    try:
        lists = in_parallel(azure.at, scopes, str)
    except FAILURES as error:
        raise may_not(error, [] if absent else certain(orders, owners)) from error
    existing = {scope: list(found) for scope, found in zip(scopes, lists, strict=True)}
    roles: dict[tuple[str, str], Role] = {}
    grants: list[Grant] = []
    for order in orders:
        principal = order.principal_id or owners[order.machine_id]
        if not principal:
            continue
        if order.below:
            found = azure.of(principal, order.scope)
            again = found_again(order, principal, found)
            for scope in dict.fromkeys(grant.scope for grant in again):
                there = existing.setdefault(scope, [])
                there += [one for one in found if one not in there]
            grants += again
            continue
        if not order.role:
            grants += found_again(order, principal, existing[order.scope])
            continue
        asked = (order.role, order.scope)
        if asked not in roles:
            roles[asked] = known_role(order.role) or azure.role(order.role, order.scope)
        grants.append(Grant(principal, roles[asked], order.scope, order.node))
    return Plan(list(dict.fromkeys(grants)), existing)


def certain(orders: Sequence[Order], owners: Mapping[str, str]) -> list[Grant]:
    """The grants that need no further question."""
    return [
        Grant(order.principal_id or owners[order.machine_id], role, order.scope, order.node)
        for order in orders
        if (role := known_role(order.role))
    ]


def looked(plan: Plan) -> list[Outcome]:
    """Which of the grants are there."""
    found = plan.decided(decide)
    return [
        Outcome(one.grant, "missing" if one.changes else "present", one.reason, ours=one.ours)
        for one in found
    ]


def give(azure: Azure, plan: Plan, clock: Clock, *, seconds: float, check: bool) -> list[Outcome]:
    """Have every grant; what somebody else gave stays theirs."""

    def act(outcome: Outcome) -> Outcome:
        if check or not outcome.changes:
            return outcome
        if create(azure, outcome.grant, clock, seconds):
            return Outcome(outcome.grant, "created", outcome.reason, ours=True)
        return Outcome(outcome.grant, "unchanged", "somebody else gave it meanwhile")

    wanted = plan.decided(decide)
    try:
        return in_parallel(act, wanted, lambda one: f"{one.grant.who}: {one.grant.role.label}")
    except FAILURES as error:
        raise may_not(error, [one.grant for one in wanted if one.changes]) from error


def create(azure: Azure, grant: Grant, clock: Clock, seconds: float) -> bool:
    """Give a role, also to a principal so new that not all of Azure has heard of it; False: it was there."""
    deadline, pause = clock.monotonic() + seconds, PAUSE
    while True:
        try:
            return azure.create(grant)
        except PrincipalUnknown:
            left = deadline - clock.monotonic()
            if left <= 0:
                raise
            clock.sleep(min(pause, left))
            pause = min(pause * 1.5, LONGEST_PAUSE)


def take(azure: Azure, plan: Plan, *, check: bool) -> list[Outcome]:
    """Take back what we gave, and nothing else."""

    def act(outcome: Outcome) -> Outcome:
        if outcome.changes and not check:
            azure.delete(outcome.grant)
        return outcome

    return in_parallel(
        act, plan.decided(decide_absent), lambda one: f"{one.grant.who}: {one.grant.role.label}"
    )


def may_not(error: Exception, grants: Sequence[Grant]) -> Exception:
    """Who may not give roles is told what somebody else can type for them."""
    if not isinstance(error, PermissionMissing) or not grants:
        return error
    commands = "\n  ".join(grant.command for grant in grants)
    return PermissionMissing(
        error.what,
        where=error.where,
        why=error.why,
        fix=f"{error.fix}\nor let somebody who may give roles run:\n  {commands}",
    )
