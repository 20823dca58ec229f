# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""flexNodeConfig resources of many nodes: one list per cluster, then a few requests at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ....node.config.choices import choices_of
from ....node.config.document import redact
from ....node.config.types.values import ArmId
from ....node.secret import REDACTED
from ...members import Member, by_cluster
from ...parallel import in_parallel
from ..arm import Json
from ..errors import NotInAzure
from .api import Issued
from .plan import Action, FlexNode, decide, decide_absent, shown


class Nodes(Protocol):
    """The requests for the nodes of a cluster."""

    def list(self) -> Iterable[Json]: ...

    def get(self, name: str) -> Json | None: ...

    def put(self, name: str, properties: Mapping[str, Any], *, need_url: bool) -> Issued: ...

    def regenerate(self, name: str) -> Issued: ...

    def delete(self, name: str) -> Json: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one node."""

    member: Member
    action: Action
    issued: Issued = field(default_factory=Issued)
    joined: bool = False
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> Json:
        """The node as a module returns it; the URL in it is a secret."""
        issued = self.issued
        return {
            "name": self.member.name,
            "cluster_id": self.member.cluster.canonical(),
            "action": self.action.kind,
            "reasons": list(self.action.reasons),
            "joined": self.joined,
            "config_version": issued.config_version,
            "provisioning_state": issued.provisioning_state,
            **({"config_url": issued.config_url} if issued.config_url else {}),
            **({"config_url_expires": issued.expires} if issued.expires else {}),
        }

    def sentence(self) -> str:
        """What was done, in words."""
        verb = {
            "created": "create",
            "updated": "update",
            "regenerated": "issue a new configuration URL for",
            "deleted": "delete",
        }[self.action.kind]
        return f"{verb} flexNodeConfig {self.member.name} ({', '.join(self.action.reasons)})"

    def diff(self) -> Json:
        """Before and after, without secrets."""
        title = f"flexNodeConfig {self.member.name}"
        return {
            "before_header": title,
            "after_header": title,
            "before": dict(self.before),
            "after": dict(self.after),
        }


def existing_of(nodes: Nodes, names: Iterable[str], *, details: bool) -> dict[str, FlexNode]:
    """What Azure has of some nodes: one list, and a request per node whose configuration is not in it."""
    wanted = set(names)
    found = {node.name: node for node in map(FlexNode.of, nodes.list()) if node.name in wanted}
    if details:
        unclear = [name for name, node in found.items() if node.known is None]
        for name, resource in in_parallel(lambda name: (name, nodes.get(name)), unclear, str):
            if resource is None:
                del found[name]
            else:
                seen = FlexNode.of(resource)
                found[name] = FlexNode(
                    name,
                    seen.config_version or found[name].config_version,
                    seen.provisioning_state or found[name].provisioning_state,
                    seen.joined or found[name].joined,
                    seen.known,
                    seen.ready or found[name].ready,
                )
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """What to do for one node."""

    nodes: Nodes
    member: Member
    action: Action
    existing: FlexNode | None
    wanted: Mapping[str, Any]


def keep_present(
    connect: Callable[[ArmId], Nodes],
    members: Sequence[Member],
    properties: Callable[[Member], Mapping[str, Any]],
    *,
    secret_anyway: bool,
    need_url: bool,
    check: bool,
) -> list[Outcome]:
    """Create or update the flexNodeConfig of each node; an unchanged node costs no write and no token."""
    plans: dict[tuple[str, ArmId], _Plan] = {}
    for cluster, belonging in by_cluster(members).items():
        nodes = connect(cluster)
        existing = existing_of(nodes, (member.name for member in belonging), details=True)
        for member in belonging:
            wanted, found = properties(member), existing.get(member.name)
            action = decide(
                wanted,
                found,
                secret_anyway=secret_anyway,
                need_url=need_url,
                joined=member.joined,
                by_token=choices_of(member.document).wants_token,
            )
            plans[member.key] = _Plan(nodes, member, action, found, wanted)

    def act(plan: _Plan) -> Outcome:
        member, kind = plan.member, plan.action.kind
        if not plan.action.changes or check:
            issued = _predicted(plan, need_url)
        elif kind == "regenerated":
            issued = _with_state(plan.nodes.regenerate(member.name), plan.existing)
        else:
            issued = plan.nodes.put(member.name, plan.wanted, need_url=need_url)
        found = plan.existing
        return Outcome(
            member,
            plan.action,
            issued,
            joined=bool(found and found.joined) and member.joined is not False,
            before=shown(found.known or {}) if found and kind == "updated" else {},
            after=shown(plan.wanted) if kind in ("created", "updated") else {},
        )

    return in_parallel(act, [plans[member.key] for member in members], lambda plan: plan.member.name)


def _with_state(issued: Issued, existing: FlexNode | None) -> Issued:
    """The answer to an action has no provisioning state; it did not change."""
    state = issued.provisioning_state or (existing.provisioning_state if existing else "")
    return replace(issued, provisioning_state=state)


def _predicted(plan: _Plan, need_url: bool) -> Issued:
    """The result without a change; what would be issued is marked."""
    found = plan.existing or FlexNode(plan.member.name)
    issues = plan.action.changes and need_url
    return Issued(
        config_version=found.config_version,
        config_url=REDACTED if issues else "",
        provisioning_state=found.provisioning_state,
    )


def keep_absent(
    connect: Callable[[ArmId], Nodes], members: Sequence[Member], *, check: bool
) -> list[Outcome]:
    """Delete the flexNodeConfig of each node; its machine leaves by itself."""
    outcomes: list[Outcome] = []
    for cluster, belonging in by_cluster(members).items():
        nodes = connect(cluster)
        existing = existing_of(nodes, (member.name for member in belonging), details=False)

        def act(member: Member, nodes: Nodes = nodes, existing: Mapping[str, FlexNode] = existing) -> Outcome:
            found = existing.get(member.name)
            action = decide_absent(found)
            if action.changes and not check:
                nodes.delete(member.name)
            before = {"configVersion": found.config_version} if found else {}
            return Outcome(member, action, joined=bool(found and found.joined), before=before)

        outcomes += in_parallel(act, belonging, lambda member: member.name)
    return outcomes


def regenerate(connect: Callable[[ArmId], Nodes], members: Sequence[Member], *, check: bool) -> list[Outcome]:
    """Issue a new token and URL for each node, whatever its state."""
    action = Action("regenerated", ("requested",))
    found: dict[tuple[str, ArmId], tuple[Nodes, FlexNode]] = {}
    missing: list[Member] = []
    for cluster, belonging in by_cluster(members).items():
        nodes = connect(cluster)
        existing = existing_of(nodes, (member.name for member in belonging), details=False)
        for member in belonging:
            if member.name in existing:
                found[member.key] = nodes, existing[member.name]
            else:
                missing.append(member)
    if missing:  # all are reported, before any token is issued
        raise NotInAzure(
            f"there is no flexNodeConfig {', '.join(sorted(member.name for member in missing))}",
            where=", ".join(sorted({member.cluster.canonical() for member in missing})),
            fix="create it first: ansible-playbook -i INVENTORY aks.flexnode.config_put",
        )

    def act(member: Member) -> Outcome:
        nodes, known = found[member.key]
        issued = Issued(known.config_version, REDACTED) if check else nodes.regenerate(member.name)
        return Outcome(member, action, _with_state(issued, known), joined=known.joined)

    return in_parallel(act, members, lambda member: member.name)


JOINED = "NodeJoined"  # nothing is wrong


def described(resource: Mapping[str, Any], cluster: ArmId) -> Json:
    """A resource as it may be shown: status and configuration, without secrets."""
    node, properties = FlexNode.of(resource), resource.get("properties") or {}
    status = properties.get("status") or {}
    config = properties.get("config")
    conditions = {one.get("type"): one for one in status.get("conditions") or ()}
    phase = str(status.get("phase") or "")
    # What the node says of itself, unless it has not been heard since; or the API does not pass that on.
    silent = status.get("reason") == JOINED and not node.ready
    own = conditions.get("Ready", {}) if silent or not status.get("reason") else status
    return {
        "name": node.name,
        "cluster_id": cluster.canonical(),
        "config_version": node.config_version,
        "applied_config_version": str(status.get("appliedConfigVersion") or ""),
        "provisioning_state": node.provisioning_state,
        "ready": node.ready,
        "phase": phase,
        "reason": str(own.get("reason") or ""),
        "message": str(own.get("message") or ""),
        "drift": int(status.get("drift") or 0),
        # A machine that leaves deletes its Node last: one that is still there could not be deleted.
        "leftovers": [f"Node {node.name}"] if phase == "Resetting" and not node.ready else [],
        "last_seen": str(status.get("lastSeen") or ""),
        "status": status,
        **({"config": redact(config)} if isinstance(config, Mapping) else {}),
    }
