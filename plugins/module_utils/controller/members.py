# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes of a module's options: names and clusters, checked. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..node.config.types.formats import dns_name
from ..node.config.types.setting import Refused
from ..node.config.types.values import ArmId
from ..node.errors import NOT_SET, ConfigInvalid, Problem

IN_OPTIONS = "correct these options (in an inventory: flexnode_cluster_id, agent.nodeName), then run again"
TWICE = "another one has this name"


@dataclass(frozen=True, slots=True)
class Member:
    """One node of the fleet, and its part of the options."""

    name: str
    cluster: ArmId
    document: Mapping[str, Any] = field(default_factory=dict)
    joined: bool | None = None  # what the machine says of itself; None: it was not asked

    @property
    def key(self) -> tuple[str, ArmId]:
        """What identifies it: two clusters may have nodes of one name."""
        return self.name, self.cluster


def not_a_cluster(path: str, value: str, error: ValueError) -> Problem:
    """The problem of an option that must be the id of a cluster."""
    accepted = "the resource id of an AKS cluster"
    return Problem(path, repr(value), accepted, str(error)) if value else Problem(path, NOT_SET, accepted)


def node_names(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names alone, checked; all problems are reported at once."""
    names: list[str] = []
    problems: list[Problem] = []
    for index, node in enumerate(nodes):
        try:
            names.append(dns_name.read(node["name"]))
        except Refused as refused:
            problems += refused.under(f"nodes[{index}].name")
            continue
        if names[-1] in names[:-1]:
            problems.append(Problem(f"nodes[{index}].name", names[-1], "each node once", TWICE))
    if problems:
        raise ConfigInvalid(problems, fix=IN_OPTIONS)
    return names


def members_of(nodes: Sequence[Mapping[str, Any]], default_cluster: str = "") -> list[Member]:
    """Read the `nodes` of a module; all problems are reported at once."""
    members: list[Member] = []
    problems: list[Problem] = []
    for index, node in enumerate(nodes):
        at, cluster = f"nodes[{index}]", node.get("cluster_id") or default_cluster
        try:
            name = dns_name.read(node["name"])
        except Refused as refused:
            problems += refused.under(f"{at}.name")
            continue
        try:
            member = Member(name, ArmId.parse(cluster), node.get("document") or {}, node.get("joined"))
        except ValueError as error:
            problems.append(not_a_cluster(f"{at}.cluster_id", cluster, error))
            continue
        if any(one.key == member.key for one in members):
            problems.append(Problem(f"{at}.name", name, "each node once", TWICE))
        members.append(member)
    if problems:
        raise ConfigInvalid(problems, fix=IN_OPTIONS)
    return members


def by_cluster(members: Iterable[Member]) -> dict[ArmId, list[Member]]:
    """The members per cluster."""
    found: dict[ArmId, list[Member]] = {}
    for member in members:
        found.setdefault(member.cluster, []).append(member)
    return found


@dataclass(frozen=True, slots=True)
class ClusterTokens:
    """Nodes and tokens of one cluster; without an id, of the cluster that Kubernetes options name."""

    cluster: ArmId | None
    names: tuple[str, ...] = ()
    token_ids: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()  # names that need no token
    rollouts: bool = False  # some node takes part in rollouts


def tokens_by_cluster(options: Mapping[str, Any], *, kubernetes: bool) -> list[ClusterTokens]:
    """Read the nodes and token ids; with `kubernetes` all of them belong to one cluster without an id."""
    token_ids, nodes = tuple(options["token_ids"]), options["nodes"]
    if kubernetes:
        names = node_names(nodes)
        without = (name for name, node in zip(names, nodes, strict=True) if not node.get("token", True))
        rollouts = any(node.get("rollout") for node in nodes)
        return [ClusterTokens(None, tuple(names), token_ids, frozenset(without), rollouts)]
    default = options["cluster_id"] or ""
    members = members_of(nodes, default)
    no_token = {
        member.key for member, node in zip(members, nodes, strict=True) if not node.get("token", True)
    }
    taking_turns = {member.key for member, node in zip(members, nodes, strict=True) if node.get("rollout")}
    found = {
        cluster: ClusterTokens(
            cluster,
            tuple(member.name for member in group),
            without=frozenset(member.name for member in group if member.key in no_token),
            rollouts=any(member.key in taking_turns for member in group),
        )
        for cluster, group in by_cluster(members).items()
    }
    if token_ids:
        (home,) = {member.cluster for member in members_of([{"name": "any"}], default)}
        found[home] = replace(found.get(home, ClusterTokens(home)), token_ids=token_ids)
    return list(found.values())
