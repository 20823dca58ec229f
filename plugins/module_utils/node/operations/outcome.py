# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run did, or would do, in the words of its result line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from ..config.document import secrets_of
from ..config.model import NodeConfig
from ..config.types.setting import table
from ..dataclass import dataclass, field
from ..engine.plan import Plan
from ..engine.restarts import Progress, silent
from ..engine.run_log import RunLog
from ..errors import counted
from ..machine.host import Host

# Settings that a joined node does not use any more: a new value is no change of the node.
OF_THE_JOIN = ("azure.bootstrapToken",)


@dataclass(frozen=True)
class Outcome:
    """joined, updated, repaired or unchanged; and which settings changed."""

    kind: str = "unchanged"
    settings: tuple[str, ...] = ()
    items: int = 0  # that were repaired

    @property
    def summary(self) -> str:
        """In words, for the result line."""
        detail = ", ".join(self.settings) or (counted(self.items, "item") if self.items else "")
        return f"{self.kind} ({detail})" if detail and self.kind != "joined" else self.kind


@dataclass()
class Reconciled:
    """What a run did, or would do."""

    plan: Plan
    actions: list[str]
    timings: dict[str, float]
    node: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    outcome: Outcome = field(default_factory=Outcome)
    drains: bool = False
    made: frozenset[str] = frozenset()  # keys of the items that it changed
    taints: dict[str, list[dict[str, str]]] = field(default_factory=dict)
    pool: str = ""  # of FlexNodes: there AKS sets the taints of a Node

    @property
    def changed(self) -> bool:
        """Whether anything was, or would be, changed."""
        return bool(self.actions)

    @property
    def summary(self) -> str:
        """The result in words; a document that changed nothing on the machine is no update."""
        return self.outcome.summary if self.changed or self.outcome.kind == "joined" else "unchanged"


def run_log_of(
    host: Host, config: NodeConfig, document: Mapping[str, Any], progress: Progress = silent
) -> RunLog:
    """The log of a run with this configuration; a run that has one already keeps it."""
    if isinstance(progress, RunLog):
        return progress
    return RunLog(host, config.log_file, config.agent.log_level, secrets_of(document), progress)


def taint_warnings(run: Reconciled) -> list[str]:
    """A node may not change its own taints: the commands for someone who may, one line per taint."""
    pairs = [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in run.taints.get("set", ())]
    pairs += [f"{taint['key']}:{taint['effect']}-" for taint in run.taints.get("remove", ())]
    why = "a node may not change its own taints; run this with the cluster's credentials"
    if run.pool:
        why = (
            f"AKS sets the taints of pool {run.pool}, and this one is not as it should be yet; if it stays so"
        )
    return [f"{why}: kubectl taint nodes {run.node['name']} --overwrite {pair}" for pair in pairs]


def outcome_of(
    plan: Plan, applied: Mapping[str, Any] | None, document: Mapping[str, Any], *, before: int = 0
) -> Outcome:
    """Compare the document with the one that was applied last. before: items that were repaired before it."""
    if applied is None:
        return Outcome("joined")
    changed = tuple(dict.fromkeys(changed_settings(applied, document)))
    if changed:
        return Outcome("updated", changed)
    items = before + len(plan.steps)
    return Outcome("repaired", items=items) if plan.changed or before else Outcome()


def changed_settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Names of settings that differ; versions with their values, other values may be secrets."""
    for path, before, after in _changes(old, new):
        section, _dot, key = path.rpartition(".")
        if key == "version":
            yield f"{section.rpartition('.')[2]} {before or 'default'} -> {after or 'default'}"
        else:
            yield key


def changed_keys(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Full names of what differs, without values; of a setting that is a mapping, its keys that differ."""
    found = []
    for path, before, after in _changes(old, new):
        inner = _differing(before, after) if _are_mappings(before, after) else []
        found += [f"{path}.{key}" for key in inner] or [path]
    return found


def _changes(
    old: Mapping[str, Any], new: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """Settings that differ: path, value before, value after."""
    for key in _differing(old, new):
        here = f"{path}.{key}" if path else key
        before, after = old.get(key), new.get(key)
        if here in OF_THE_JOIN:
            continue
        if _are_mappings(before, after) and here not in _settings():
            yield from _changes(before or {}, after or {}, here)
        else:
            yield here, before, after


def _differing(old: Any, new: Any) -> list[str]:
    old, new = old or {}, new or {}
    return [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


def _are_mappings(before: Any, after: Any) -> bool:
    return isinstance(before or {}, Mapping) and isinstance(after or {}, Mapping)


@lru_cache(maxsize=1)
def _settings() -> frozenset[str]:
    """The paths of all settings: labels are one setting, whatever they contain."""
    return frozenset(row.path for row in table(NodeConfig))
