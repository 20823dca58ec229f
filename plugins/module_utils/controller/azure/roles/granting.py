# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign roles to many principals and remove them: one list per scope, then a few requests at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from ....node.errors import FlexNodeError
from ....node.machine.clock import Clock
from ...failures import Failure
from ...parallel import each
from ..errors import NotInAzure, PrincipalUnknown
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
R = TypeVar("R")


class Azure(Protocol):
    """The requests to Azure."""

    def at(self, scope: str) -> list[Existing]: ...

    def of(self, principal_id: str, scope: str) -> list[Existing]: ...

    def role(self, name: str, scope: str) -> Role: ...

    def create(self, grant: Grant) -> bool: ...

    def delete(self, grant: Grant) -> None: ...

    def principal_of(self, machine_id: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Gone:
    """A machine whose principal is not known, because something of it does not exist."""

    request: Request
    missing: str

    def as_dict(self) -> dict[str, str]:
        """As a module returns it."""
        return {
            "name": self.request.node,
            "machine_id": self.request.machine_id,
            "missing": self.missing,
            "command": self.request.list_command,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """The wanted grants, the existing assignments per scope, and for whom there is no plan."""

    grants: Sequence[Grant]
    existing: Mapping[str, Sequence[Existing]]
    failures: Sequence[Failure] = ()
    gone: Sequence[Gone] = ()

    def decided(self, by: Callable[[Grant, Sequence[Existing]], Outcome]) -> list[Outcome]:
        """The outcome of each grant by a rule."""
        return [by(grant, self.existing[grant.scope]) for grant in self.grants]


@dataclass(frozen=True, slots=True)
class Done:
    """What was done, and for whom it was not."""

    outcomes: Sequence[Outcome]
    failures: Sequence[Failure]


# What does not exist, of a machine of Azure Arc whose identity was asked for.
NO_MACHINE, NO_GROUP, NO_IDENTITY = "machine", "resource group", "identity"


def owners_of(
    principal_of: Callable[[str], str], machine_ids: Iterable[str]
) -> dict[str, str | FlexNodeError]:
    """The identity of each Arc machine, asked once, or why there is none."""
    machines = list(dict.fromkeys(machine_ids))
    return dict(zip(machines, each(principal_of, machines), strict=True))


def unowned(found: str | FlexNodeError) -> str:
    """What of a machine does not exist; empty: it has an identity, or that is not known."""
    return found.unowned if isinstance(found, NotInAzure) else ""


def no_principal(machine_id: str, missing: str, kind: str = "") -> NotInAzure:
    """The error for a machine without an identity of its own. kind: of the identity that it has."""
    what, fix = {
        NO_MACHINE: (
            f"there is no machine {machine_id}",
            "register it with Azure Arc first; see `azcmagent show` there",
        ),
        NO_GROUP: (
            f"there is no resource group of machine {machine_id}",
            "register it with Azure Arc first; see `azcmagent show` there",
        ),
        NO_IDENTITY: (
            f"machine {machine_id} has no identity of its own",
            "register it with Azure Arc again: azcmagent disconnect, then azcmagent connect",
        ),
    }[missing]
    error = NotInAzure(what, why=f"its identity is {kind}, not SystemAssigned" if kind else "", fix=fix)
    error.unowned = missing
    return error


def plan_of(azure: Azure, requests: Sequence[Request], *, absent: bool = False) -> Plan:
    """Look up the roles, principals and assignments that the requests need, each once."""
    unknown = [request.machine_id for request in requests if not request.principal_id]
    lookup = _Lookup(azure, owners_of(azure.principal_of, unknown), absent)
    lookup.read([request.scope for request in requests if not request.below])
    grants: list[Grant] = []
    failures: list[Failure] = []
    gone: list[Gone] = []
    for request in requests:
        missing = unowned(lookup.owners.get(request.machine_id, "")) if not request.principal_id else ""
        if absent and missing:
            gone.append(Gone(request, missing))
            continue
        try:
            grants += lookup.grants(request, lookup.principal(request))
        except FlexNodeError as error:
            commands = () if absent else lookup.commands(request)
            failures.append(Failure(request.node, request.machine_id, error, commands))
    return Plan(list(dict.fromkeys(grants)), lookup.existing, failures, gone)


@dataclass(slots=True)
class _Lookup:
    """What Azure said. A question that failed fails the requests that depend on it, and no others."""

    azure: Azure
    owners: Mapping[str, str | FlexNodeError]
    absent: bool = False
    existing: dict[str, list[Existing]] = field(default_factory=dict)
    unread: dict[str, FlexNodeError] = field(default_factory=dict)  # by scope
    roles: dict[tuple[str, str], Role | FlexNodeError] = field(default_factory=dict)

    def read(self, scopes: Iterable[str]) -> None:
        asked = list(dict.fromkeys(scopes))
        for scope, found in zip(asked, each(self.azure.at, asked), strict=True):
            if self.absent and isinstance(found, NotInAzure) and found.refusal and found.refusal.gone:
                self.existing[scope] = []  # what was assigned there is gone with it
            elif isinstance(found, FlexNodeError):
                self.unread[scope] = found
            else:
                self.existing[scope] = list(found)

    def principal(self, request: Request) -> str:
        return request.principal_id or known(self.owners[request.machine_id])

    def grants(self, request: Request, principal: str) -> list[Grant]:
        if request.below:
            found = self.azure.of(principal, request.scope)
            again = own_grants(request, principal, found)
            for scope in dict.fromkeys(grant.scope for grant in again):
                there = self.existing.setdefault(scope, [])
                there += [one for one in found if one not in there]
            return again
        if request.scope in self.unread:
            raise self.unread[request.scope]
        if not request.role:
            return own_grants(request, principal, self.existing[request.scope])
        asked = (request.role, request.scope)
        if asked not in self.roles:
            (self.roles[asked],) = each(lambda one: known_role(one[0]) or self.azure.role(*one), [asked])
        return [Grant(principal, known(self.roles[asked]), request.scope, request.node, request.machine_id)]

    def commands(self, request: Request) -> tuple[str, ...]:
        """The command that assigns a role, as far as it is known without asking Azure."""
        owner, role = self.owners.get(request.machine_id, ""), known_role(request.role)
        principal = request.principal_id or (owner if isinstance(owner, str) else "")
        return (Grant(principal, role, request.scope).command,) if principal and role else ()


def known(found: R | FlexNodeError) -> R:
    """What was found; an error is raised again."""
    if isinstance(found, FlexNodeError):
        raise found
    return found


def inspect_roles(plan: Plan) -> Done:
    """Which of the grants exist."""
    found = plan.decided(decide)
    outcomes = [
        Outcome(one.grant, "missing" if one.changes else "present", one.reason, ours=one.ours)
        for one in found
    ]
    return Done(outcomes, plan.failures)


def assign_roles(azure: Azure, plan: Plan, clock: Clock, *, seconds: float, check: bool) -> Done:
    """Create the grants that are missing; assignments of others are not changed."""

    def act(outcome: Outcome) -> Outcome:
        if check or not outcome.changes:
            return outcome
        if create(azure, outcome.grant, clock, seconds):
            return Outcome(outcome.grant, "created", outcome.reason, ours=True)
        return Outcome(outcome.grant, "unchanged", "assigned by someone else meanwhile")

    return _done(plan, act, decide, commands=True)


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


def remove_roles(azure: Azure, plan: Plan, *, check: bool) -> Done:
    """Remove the assignments that this collection created, and nothing else."""

    def act(outcome: Outcome) -> Outcome:
        if outcome.changes and not check:
            azure.delete(outcome.grant)
        return outcome

    return _done(plan, act, decide_absent, commands=False)


def _done(
    plan: Plan,
    act: Callable[[Outcome], Outcome],
    by: Callable[[Grant, Sequence[Existing]], Outcome],
    *,
    commands: bool,
) -> Done:
    """Act on every grant. What fails for one machine is kept from no other."""
    wanted = plan.decided(by)
    outcomes: list[Outcome] = []
    failures = list(plan.failures)
    for one, found in zip(wanted, each(act, wanted), strict=True):
        if isinstance(found, FlexNodeError):
            shown = (one.grant.command,) if commands else ()
            failures.append(Failure(one.grant.node, one.grant.machine_id, found, shown))
        else:
            outcomes.append(found)
    return Done(outcomes, failures)
