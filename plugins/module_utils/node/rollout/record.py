# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rollout record of a cluster: one JSON document in a ConfigMap that all nodes read and write.

Times are those of the API server: the clocks of machines at the edge differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..dataclass import dataclass, field, replace
from ..machine.clock import iso, moment

NAMESPACE, NAME, KEY = "kube-system", "flexnode-rollout", "rollout.json"
SCHEMA = 1
MOST_ROLLOUTS = 10  # that are remembered; the oldest are forgotten, those that were stopped last


class NewerRecord(ValueError):
    """A newer release of this collection wrote the record: it is not damaged, and must not be replaced."""


@dataclass(frozen=True)
class Member:
    """A node that takes part in rollouts."""

    ring: str  # the value of its label; empty: none
    software: str  # digest of what it runs (software.py)
    since: float
    late: bool = False  # it had joined before it was registered: others may still have to register
    earlier: tuple[str, ...] = ()  # digests of what it ran before, the newest first

    @property
    def ran(self) -> tuple[str, ...]:
        """All that it runs or ran, as far as that is remembered."""
        return (self.software, *self.earlier)


@dataclass(frozen=True)
class Holder:
    """A node that may be down now."""

    since: float
    rollout: str  # empty: a repair
    what: str


@dataclass(frozen=True)
class Ring:
    """How far a rollout got in one ring."""

    nodes: int
    last: float  # when the last of these nodes was Ready with the new software


@dataclass(frozen=True)
class RolledBack:
    """A node that returned to its previous software."""

    ring: str
    code: str
    when: float


@dataclass(frozen=True)
class Rollout:
    """One change, on its way through the nodes of a cluster."""

    what: str
    started: float
    done: Mapping[str, Ring] = field(default_factory=dict)  # by ring
    rolled_back: Mapping[str, RolledBack] = field(default_factory=dict)  # by node
    stopped: str = ""  # why
    resumed: float = 0.0  # by an administrator: rollbacks before that time do not stop it again


@dataclass(frozen=True)
class Shared:
    """The whole record."""

    nodes: Mapping[str, Member] = field(default_factory=dict)
    holders: Mapping[str, Holder] = field(default_factory=dict)
    rollouts: Mapping[str, Rollout] = field(default_factory=dict)

    def with_rollout(self, name: str, rollout: Rollout) -> Shared:
        """The same with one rollout changed or added; the oldest ones are forgotten."""
        rollouts = {**self.rollouts, name: rollout}
        busy = {holder.rollout for holder in self.holders.values()} | {name}
        by_age = sorted(rollouts, key=lambda one: (bool(rollouts[one].stopped), rollouts[one].started))
        surplus = [one for one in by_age if one not in busy][: max(0, len(rollouts) - MOST_ROLLOUTS)]
        return replace(self, rollouts={one: rollouts[one] for one in rollouts if one not in surplus})

    def without_holder(self, name: str) -> Shared:
        """The same without one holder."""
        return replace(self, holders={one: held for one, held in self.holders.items() if one != name})

    def without_node(self, name: str) -> Shared:
        """The same without a node: it left, or is gone for good."""
        nodes = {one: member for one, member in self.nodes.items() if one != name}
        return replace(self.without_holder(name), nodes=nodes)


def read(text: str) -> Shared:
    """The record from its JSON; ValueError: it is damaged, NewerRecord: a newer release wrote it."""
    if not text.strip():
        return Shared()
    try:
        raw = json.loads(text)
        schema = raw["schema"]
        if not isinstance(schema, int):
            raise ValueError(f"it is damaged: schema {schema} is not a number")
        if schema > SCHEMA:
            why = f"it has schema {schema}, and this release reads schema {SCHEMA}"
            raise NewerRecord(f"{why}: a newer release of aks.flexnode wrote it")
        return Shared(
            {name: _member(one) for name, one in raw["nodes"].items()},
            {
                name: Holder(_time(one["since"]), str(one["rollout"]), str(one["what"]))
                for name, one in raw["holders"].items()
            },
            {name: _rollout(one) for name, one in raw["rollouts"].items()},
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it is damaged: {type(error).__name__} {error}") from error


def _member(raw: Mapping[str, Any]) -> Member:
    return Member(
        str(raw["ring"]),
        str(raw["software"]),
        _time(raw["since"]),
        bool(raw.get("late")),
        tuple(map(str, raw.get("earlier") or ())),
    )


def _rollout(raw: Mapping[str, Any]) -> Rollout:
    return Rollout(
        str(raw["what"]),
        _time(raw["started"]),
        {ring: Ring(int(one["nodes"]), _time(one["last"])) for ring, one in raw["done"].items()},
        {
            name: RolledBack(str(one["ring"]), str(one["code"]), _time(one["when"]))
            for name, one in raw["rolledBack"].items()
        },
        str(raw.get("stopped") or ""),
        _time(raw["resumed"]) if raw.get("resumed") else 0.0,
    )


def _time(stamp: object) -> float:
    found = moment(str(stamp))
    if not found:
        raise ValueError(f"it is damaged: {stamp} is not a time")
    return found


def written(shared: Shared) -> str:
    """The record as JSON; always the same for the same content."""
    return json.dumps({"schema": SCHEMA, **as_dict(shared)}, sort_keys=True, separators=(",", ":"))


def as_dict(shared: Shared) -> dict[str, Any]:
    """The record as plain data."""
    return {
        "nodes": {
            name: {
                "ring": one.ring,
                "software": one.software,
                "since": iso(one.since),
                **({"late": True} if one.late else {}),
                **({"earlier": list(one.earlier)} if one.earlier else {}),
            }
            for name, one in shared.nodes.items()
        },
        "holders": {
            name: {"since": iso(one.since), "rollout": one.rollout, "what": one.what}
            for name, one in shared.holders.items()
        },
        "rollouts": {
            name: {
                "what": one.what,
                "started": iso(one.started),
                "done": {
                    ring: {"nodes": part.nodes, "last": iso(part.last)} for ring, part in one.done.items()
                },
                "rolledBack": {
                    node: {"ring": back.ring, "code": back.code, "when": iso(back.when)}
                    for node, back in one.rolled_back.items()
                },
                **({"stopped": one.stopped} if one.stopped else {}),
                **({"resumed": iso(one.resumed)} if one.resumed else {}),
            }
            for name, one in shared.rollouts.items()
        },
    }
