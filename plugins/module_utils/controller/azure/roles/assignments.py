# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Role assignments: which principal needs which role where, which assignments this collection created, and
what has to change. All pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....node.config.types.formats import guid
from ....node.config.types.setting import Refused
from ....node.config.types.values import ArmId
from ....node.errors import NOT_SET, ConfigInvalid, Problem
from ....node.procedures.arc.agent import Registration
from ....node.procedures.arc.roles import ROLES, needed
from ....node.procedures.assignments import name_of
from ....node.sources.machines import POOL_PATTERN, pool_id
from ...members import IN_OPTIONS, not_a_cluster

PRINCIPAL_TYPE = "ServicePrincipal"
SCOPE = re.compile(r"/|(/(subscriptions|providers)/[^\s?#]+)", re.IGNORECASE)
MANAGEMENT_GROUPS = "/providers/microsoft.management/managementgroups/"
GUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Role:
    """An Azure role."""

    id: str
    name: str

    @property
    def label(self) -> str:
        """The name, or the GUID if the name is not known."""
        return self.name or self.id

    def definition(self, scope: str) -> str:
        """Its resource id, as an assignment at a scope names it."""
        found = re.match(r"/subscriptions/[^/]+", scope, re.IGNORECASE)
        return f"{found[0] if found else ''}/providers/Microsoft.Authorization/roleDefinitions/{self.id}"


KNOWN = {role.id: Role(role.id, role.name) for role in ROLES.values()}


def known_role(text: str) -> Role | None:
    """The role of a short name, a name, a GUID or a definition's id; None: ask Azure."""
    if text in ROLES:
        return KNOWN[ROLES[text].id]
    last = text.rpartition("/")[2].lower() if text.startswith("/") else text.lower()
    if GUID.fullmatch(last):
        return KNOWN.get(last, Role(last, ""))
    return next((role for role in KNOWN.values() if role.name.lower() == last), None)


def about(node: str) -> str:
    """The description of an assignment."""
    return f"aks.flexnode: {node}" if node else "aks.flexnode"


@dataclass(frozen=True, slots=True)
class Request:
    """One requested assignment. No role: all that this collection assigned; no principal: the machine's."""

    scope: str
    role: str
    principal_id: str = ""
    machine_id: str = ""
    node: str = ""
    below: bool = False  # also scopes below this one, because the cluster is not known

    @property
    def list_command(self) -> str:
        """The command that lists what this collection assigned to the machine, whatever its principal."""
        where = f"--all --subscription {self.scope.split('/')[2]}" if self.below else f"--scope {self.scope}"
        return f"az role assignment list {where} --query \"[?description=='{about(self.node)}'].id\" -o tsv"


@dataclass(frozen=True, slots=True)
class Grant:
    """One role of one principal at one scope."""

    principal_id: str
    role: Role
    scope: str
    node: str = ""
    machine_id: str = ""  # in Azure Arc, if the principal was found by it

    @property
    def name(self) -> str:
        """The assignment's name: always the same for one grant, so that later runs find it."""
        return name_of(self.scope, self.principal_id, self.role.id)

    @property
    def id(self) -> str:
        """The assignment's resource id."""
        return f"{self.scope.rstrip('/')}/providers/Microsoft.Authorization/roleAssignments/{self.name}"

    @property
    def who(self) -> str:
        """The principal, as shown to users."""
        return self.node or self.principal_id

    @property
    def properties(self) -> dict[str, str]:
        """The properties to send. With its type, Azure needs no lookup of a new principal."""
        return {
            "roleDefinitionId": self.role.definition(self.scope),
            "principalId": self.principal_id,
            "principalType": PRINCIPAL_TYPE,
            "description": about(self.node),
        }

    @property
    def command(self) -> str:
        """The command that does the same."""
        return (
            f"az role assignment create --assignee-object-id {self.principal_id} "
            f"--assignee-principal-type {PRINCIPAL_TYPE} --role {self.role.id} --scope {self.scope}"
        )

    def as_missing(self) -> dict[str, str]:
        """A missing assignment, with the command that creates it."""
        return {
            "node": self.node,
            "principal_id": self.principal_id,
            "role": self.role.label,
            "role_id": self.role.id,
            "scope": self.scope,
            "command": self.command,
        }


@dataclass(frozen=True, slots=True)
class Existing:
    """An assignment in Azure."""

    name: str
    scope: str
    role_id: str
    principal_id: str
    conditional: bool = False  # it has a condition, so it may not apply to our requests

    @property
    def ours(self) -> bool:
        """Whether this collection created it."""
        return self.name.lower() == name_of(self.scope, self.principal_id, self.role_id)

    def grants(self, grant: Grant) -> bool:
        """Whether it provides a grant, at its scope or above."""
        above, scope = self.scope.lower().rstrip("/"), grant.scope.lower()
        # Azure lists those of the management groups above a scope, whose ids say nothing of what is in them.
        inherited = above.startswith(MANAGEMENT_GROUPS)
        return (
            (self.role_id.lower(), self.principal_id.lower())
            == (grant.role.id.lower(), grant.principal_id.lower())
            and not self.conditional
            and (inherited or scope == above or scope.startswith(f"{above}/"))
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result, or the plan, for one grant."""

    grant: Grant
    action: str
    reason: str = ""
    ours: bool = False

    @property
    def changes(self) -> bool:
        """Whether it changes anything."""
        return self.action in ("created", "deleted")

    def lacks(self, *, planned: bool) -> bool:
        """Whether the role is not assigned; in check mode, planned ones count as missing."""
        return self.action == "missing" or (planned and self.action == "created")

    def as_dict(self) -> dict[str, Any]:
        """As a module returns it."""
        missing = self.grant.as_missing()
        del missing["command"]
        result = {"action": self.action, "reason": self.reason, "ours": self.ours}
        return {**missing, "name": self.grant.name, "id": self.grant.id, **result}

    def sentence(self) -> str:
        """What was done, in words."""
        role, scope = self.grant.role.label, self.grant.scope
        if self.action == "created":
            return f"assign role {role} to {self.grant.who} at {scope}"
        return f"remove role assignment {role} of {self.grant.who} at {scope}"

    def diff(self) -> dict[str, Any]:
        """Before and after."""
        title = f"role assignment {self.grant.name}"
        granted = {"principal": self.grant.who, "role": self.grant.role.label, "scope": self.grant.scope}
        before, after = ({}, granted) if self.action == "created" else (granted, {})
        return {"before_header": title, "after_header": title, "before": before, "after": after}


def decide(grant: Grant, existing: Iterable[Existing]) -> Outcome:
    """What a grant needs. Assignments of others count, and are never changed."""
    found = [one for one in existing if one.grants(grant)]
    if any(one.name.lower() == grant.name for one in found):
        return Outcome(grant, "unchanged", "it exists", ours=True)
    if found:
        at = f"at {found[0].scope or '/'}"
        return Outcome(grant, "unchanged", f"assigned by someone else {at} ({found[0].name})")
    return Outcome(grant, "created", "it does not exist")


def decide_absent(grant: Grant, existing: Iterable[Existing]) -> Outcome:
    """What to delete: only what this collection created."""
    found = [one for one in existing if one.grants(grant)]
    if any(one.name.lower() == grant.name for one in found):
        return Outcome(grant, "deleted", "created by this collection", ours=True)
    if found:
        return Outcome(grant, "kept", f"assigned by someone else ({found[0].name})")
    return Outcome(grant, "unchanged", "it does not exist")


def own_grants(request: Request, principal_id: str, existing: Iterable[Existing]) -> list[Grant]:
    """All grants that this collection created for a principal at a scope."""
    return [
        Grant(
            principal_id,
            KNOWN.get(one.role_id, Role(one.role_id, "")),
            one.scope,
            request.node,
            request.machine_id,
        )
        for one in existing
        if one.ours
        and one.principal_id == principal_id
        and (request.below or one.scope.lower() == request.scope.lower())
    ]


# --- from the options of a module -------------------------------------------------------------------------


def requests_of(options: Mapping[str, Any]) -> list[Request]:
    """Read the options; all problems are reported at once. Without roles: those of the profile."""
    problems: list[Problem] = []
    requests: list[Request] = []
    for index, one in enumerate(options["assignments"]):
        requests += _assignment(one, f"assignments[{index}]", problems)
    for index, one in enumerate(options["nodes"]):
        cluster, at = one["cluster_id"] or options["cluster_id"] or "", f"nodes[{index}]"
        machine = Registration.parse(one["machine_id"] or "")
        if options["state"] == "absent" and machine and not cluster:
            whole = f"/subscriptions/{machine.subscription_id}"
            principal = one["principal_id"] or ""
            requests.append(Request(whole, "", principal.lower(), one["machine_id"], one["name"], below=True))
        else:
            everywhere = options["state"] == "absent"
            requests += _node(one, cluster, _roles(one, options), at, problems, everywhere=everywhere)
    if problems:
        raise ConfigInvalid(problems, fix=IN_OPTIONS)
    return list(dict.fromkeys(requests))


def _roles(node: Mapping[str, Any], options: Mapping[str, Any]) -> Sequence[str]:
    """The roles of a node: its own, those of all, or those of the profile."""
    for roles in (node["roles"], options["roles"]):
        if roles is not None:
            return list(roles)
    # All assignments of ours are removed: the profile may have been another one when they were created.
    if options["state"] == "absent":
        return [""]
    return needed(node["auth_profile"] or options["auth_profile"], pool=bool(node.get("pool")))


def _assignment(params: Mapping[str, Any], at: str, problems: list[Problem]) -> list[Request]:
    principal = _guid(params["principal_id"], f"{at}.principal_id", problems)
    scope = params["scope"].rstrip("/") or "/"
    if not SCOPE.fullmatch(scope):
        problems.append(Problem(f"{at}.scope", repr(scope), "a resource id, or that of a group of them"))
    return [Request(scope, params["role"], principal)]


def _node(
    params: Mapping[str, Any],
    cluster: str,
    roles: Sequence[str],
    at: str,
    problems: list[Problem],
    *,
    everywhere: bool,
) -> list[Request]:
    """The requests for a node: at its pool, else at its cluster. everywhere: both, as it may have moved."""
    principal, machine = params["principal_id"] or "", params["machine_id"] or ""
    if principal:
        principal = _guid(principal, f"{at}.principal_id", problems)
    elif not machine:
        problems.append(Problem(f"{at}.principal_id", NOT_SET, "principal_id or machine_id"))
    elif Registration.parse(machine) is None:
        problems.append(Problem(f"{at}.machine_id", repr(machine), "the resource id of an Arc machine"))
    try:
        home = ArmId.parse(cluster).canonical()
    except ValueError as error:
        problems.append(not_a_cluster(f"{at}.cluster_id", cluster, error))
        return []
    pool = params.get("pool") or ""
    if pool and not re.fullmatch(POOL_PATTERN, pool):
        accepted = "1-12 lower-case letters and digits, a letter first"
        problems.append(Problem(f"{at}.pool", repr(pool), accepted))
    scopes = [pool_id(home, pool)] if pool else [home]
    if pool and everywhere:
        scopes.append(home)
    machine = "" if principal else machine
    return [Request(scope, role, principal, machine, params["name"]) for scope in scopes for role in roles]


def _guid(text: str, at: str, problems: list[Problem]) -> str:
    try:
        found: str = guid.read(text)
    except Refused as refused:
        problems += refused.under(at)
        return ""
    return found
