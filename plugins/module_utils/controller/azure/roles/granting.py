# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign roles to many principals and remove them: one list per scope, then a few requests at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....node.machine.clock import Clock
from ...parallel import FAILURES, in_parallel
from ..errors import NotInAzure, PermissionMissing, PrincipalUnknown
from .assignments import (
    Existing,
    Grant,
    Outcome,
    Request,
    Role,
    decide,
    decide_absent,
    known_role,
    own_grants,
)

PAUSE, LONGEST_PAUSE = 2.0, 15.0


class Azure(Protocol):
    """The requests to Azure."""

    def at(self, scope: str) -> list[Existing]: ...

    def of(self, principal_id: str, scope: str) -> list[Existing]: ...

    def role(self, name: str, scope: str) -> Role: ...

    def create(self, grant: Grant) -> bool: ...

    def delete(self, grant: Grant) -> None: ...

    def principal_of(self, machine_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted grants, and the existing assignments per scope."""

    grants: Sequence[Grant]
    existing: Mapping[str, Sequence[Existing]]

    def decided(self, by: Callable[[Grant, Sequence[Existing]], Outcome]) -> list[Outcome]:
        """The outcome of each grant by a rule."""
        return [by(grant, self.existing[grant.scope]) for grant in self.grants]


def owners_of(
    principal_of: Callable[[str], str], machine_ids: Iterable[str], *, absent: bool = False
) -> dict[str, str]:
    """The identity of each Arc machine, asked once. With `absent`, a machine may no longer exist."""
    machines = list(dict.fromkeys(machine_ids))
    owners = dict(zip(machines, in_parallel(principal_of, machines, str), strict=True))
    gone = [machine for machine, owner in owners.items() if not owner]
    if gone and not absent:
        raise NotInAzure(
            f"there is no machine {', '.join(gone)}, or it has no identity",
            fix="register it with Azure Arc first; see `azcmagent show` there",
        )
    return owners


def plan_of(azure: Azure, requests: Sequence[Request], *, absent: bool = False) -> Plan:
    """Look up the roles, principals and assignments that the requests need, each once."""
    unknown = [request.machine_id for request in requests if not request.principal_id]
    owners = owners_of(azure.principal_of, unknown, absent=absent)
    scopes = list(dict.fromkeys(request.scope for request in requests if not request.below))
    try:
        lists = in_parallel(azure.at, scopes, str)
    except FAILURES as error:
        raise with_commands(error, [] if absent else known_grants(requests, owners)) from error
    existing = {scope: list(found) for scope, found in zip(scopes, lists, strict=True)}
    roles: dict[tuple[str, str], Role] = {}
    grants: list[Grant] = []
    for request in requests:
        principal = request.principal_id or owners[request.machine_id]
        if not principal:
            continue
        if request.below:
            found = azure.of(principal, request.scope)
            again = own_grants(request, principal, found)
            for scope in dict.fromkeys(grant.scope for grant in again):
                there = existing.setdefault(scope, [])
                there += [one for one in found if one not in there]
            grants += again
            continue
        if not request.role:
            grants += own_grants(request, principal, existing[request.scope])
            continue
        asked = (request.role, request.scope)
        if asked not in roles:
            roles[asked] = known_role(request.role) or azure.role(request.role, request.scope)
        grants.append(Grant(principal, roles[asked], request.scope, request.node))
    return Plan(list(dict.fromkeys(grants)), existing)


def known_grants(requests: Sequence[Request], owners: Mapping[str, str]) -> list[Grant]:
    """The grants that are known without asking Azure."""
    return [
        Grant(request.principal_id or owners[request.machine_id], role, request.scope, request.node)
        for request in requests
        if (role := known_role(request.role))
    ]


def inspect_roles(plan: Plan) -> list[Outcome]:
    """Which of the grants exist."""
    found = plan.decided(decide)
    return [
        Outcome(one.grant, "missing" if one.changes else "present", one.reason, ours=one.ours)
        for one in found
    ]


def assign_roles(azure: Azure, plan: Plan, clock: Clock, *, seconds: float, check: bool) -> list[Outcome]:
    """Create the grants that are missing; assignments of others are not changed."""

    def act(outcome: Outcome) -> Outcome:
        if check or not outcome.changes:
            return outcome
        if create(azure, outcome.grant, clock, seconds):
            return Outcome(outcome.grant, "created", outcome.reason, ours=True)
        return Outcome(outcome.grant, "unchanged", "assigned by someone else meanwhile")

    wanted = plan.decided(decide)
    try:
        return in_parallel(act, wanted, lambda one: f"{one.grant.who}: {one.grant.role.label}")
    except FAILURES as error:
        raise with_commands(error, [one.grant for one in wanted if one.changes]) from error


def create(azure: Azure, grant: Grant, clock: Clock, seconds: float) -> bool:
    """Assign a role, with retries for a principal that is not yet known everywhere; False: it existed."""
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


def remove_roles(azure: Azure, plan: Plan, *, check: bool) -> list[Outcome]:
    """Remove the assignments that this collection created, and nothing else."""

    def act(outcome: Outcome) -> Outcome:
        if outcome.changes and not check:
            azure.delete(outcome.grant)
        return outcome

    return in_parallel(
        act, plan.decided(decide_absent), lambda one: f"{one.grant.who}: {one.grant.role.label}"
    )


def with_commands(error: Exception, grants: Sequence[Grant]) -> Exception:
    """Add the commands that an administrator can run."""
    if not isinstance(error, PermissionMissing) or not grants:
        return error
    commands = "\n  ".join(grant.command for grant in grants)
    return PermissionMissing(
        error.what,
        where=error.where,
        why=error.why,
        fix=f"{error.fix}\nor let an administrator run:\n  {commands}",
    )
