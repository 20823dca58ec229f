# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which machines of a pool have to be created or changed, from the settings of hosts. All pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ....node.config.types.labels import labels as label_kind
from ....node.config.types.setting import Refused
from ....node.dataclass import replace
from ....node.errors import ConfigInvalid, Problem
from ....node.sources.errors import MaxPodsFixed
from ....node.sources.machines import (
    Goal,
    changes,
    full_version,
    machine_name,
    own_labels,
    own_taints,
)
from ..errors import AzureRefuses

Json = dict[str, Any]
Kind = Literal["created", "updated", "unchanged", "deleted", "absent"]
FAILED = "failed"
CORRECT = "correct these options, then run this again"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The explicit settings of one machine; None: the machine's own stay, a new machine has the pool's."""

    name: str
    version: str | None = None
    max_pods: int | None = None
    labels: Mapping[str, str] | None = None
    taints: tuple[str, ...] | None = None

    def needs_pool(self, machine: Machine | None) -> bool:
        """Whether the values of the pool decide about its goal."""
        return machine is None or self.labels is not None

    def goal(self, pool: Goal, machine: Goal | None) -> Goal:
        """The whole goal. Explicit labels are set over those of the pool; explicit taints replace them."""
        base = machine or pool
        return Goal(
            # 1.36 is any release of it: a write because of a label must not ask for another one.
            full_version(self.version or base.version, base.version),
            base.max_pods if self.max_pods is None else self.max_pods,
            base.labels if self.labels is None else {**pool.labels, **self.labels},
            base.taints if self.taints is None else self.taints,
            machine.etag if machine else "",
        )


def wanted_of(document: Mapping[str, Any], name: str) -> Json:
    """The settings of a host's document that belong to its machine, as flexnode_machine takes them."""
    kubernetes, node = _below(document, "kubernetes"), _below(document, "node")
    labels, taints = node.get("labels"), node.get("taints")
    settings = {
        "version": kubernetes.get("version"),
        "max_pods": node.get("maxPods"),
        "labels": None if labels is None else own_labels(labels),
        "taints": None if taints is None else list(own_taints(taints)),
    }
    return {"name": name, **{key: value for key, value in settings.items() if value is not None}}


def users_labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    """Labels of a module's options, by the rules of documents: YAML makes booleans and numbers of some."""
    try:
        return label_kind.read(own_labels(raw))
    except Refused as refused:
        raise ConfigInvalid(refused.under("labels"), fix=CORRECT) from None


def wanted_machines(options: Iterable[Mapping[str, Any]]) -> list[Wanted]:
    """Read the `machines` of a module; all problems are reported at once."""
    found: list[Wanted] = []
    problems: list[Problem] = []
    for index, one in enumerate(options):
        at = f"machines[{index}]"
        try:
            name = machine_name(one["name"])
            labels, taints = one.get("labels"), one.get("taints")
            wanted = Wanted(
                name,
                str(one["version"]).removeprefix("v") if one.get("version") else None,
                one.get("max_pods"),
                None if labels is None else users_labels(labels),
                None if taints is None else own_taints(taints),
            )
        except ConfigInvalid as invalid:
            problems += [problem.under(at) for problem in invalid.problems]
            continue
        if any(other.name == name for other in found):
            problems.append(Problem(f"{at}.name", name, "each machine once", "another one has this name"))
        found.append(wanted)
    if problems:
        raise ConfigInvalid(problems, fix=CORRECT)
    return found


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as Azure returns it."""

    name: str
    node_name: str
    state: str = ""
    etag: str = ""
    resource: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> Machine:
        """Read an entry of a list, or one resource."""
        properties = _below(resource, "properties")
        name = str(resource.get("name") or "").rpartition("/")[2]
        node = _below(properties, "kubernetes").get("nodeName")
        return cls(
            name,
            str(node or name).lower(),
            str(properties.get("provisioningState") or ""),
            str(properties.get("eTag") or ""),
            resource,
        )

    @property
    def failed(self) -> bool:
        """Whether its last change failed: it has to be written again."""
        return self.state.lower() == FAILED

    def goal(self) -> Goal:
        """Its goal; an error if it can't be used, or not yet. The goal of a failed change counts."""
        if not self.failed:
            return Goal.of(self.resource)
        properties = {**_below(self.resource, "properties"), "provisioningState": "Succeeded"}
        return Goal.of({**self.resource, "properties": properties})

    def as_dict(self) -> Json:
        """As modules return it."""
        kubernetes = _below(_below(self.resource, "properties"), "kubernetes")
        return {
            "name": self.name,
            "node_name": self.node_name,
            "version": str(kubernetes.get("orchestratorVersion") or ""),
            "max_pods": kubernetes.get("maxPods"),
            "labels": own_labels(kubernetes.get("nodeLabels")),
            "taints": list(kubernetes.get("nodeTaints") or ()),
            "etag": self.etag,
            "provisioning_state": self.state,
        }


def by_node(resources: Iterable[Mapping[str, Any]]) -> dict[str, Machine]:
    """Machines by the name of their Node: a machine is found by that, and created with it."""
    found: dict[str, Machine] = {}
    for resource in resources:
        machine = Machine.of(resource)
        found[machine.node_name] = machine
    return found


def pool_goal(pool: Mapping[str, Any]) -> Goal:
    """The defaults that a pool has for new machines."""
    properties = _below(pool, "properties")
    version = str(properties.get("orchestratorVersion") or properties.get("currentOrchestratorVersion") or "")
    full = str(properties.get("currentOrchestratorVersion") or "")
    max_pods = properties.get("maxPods")
    return Goal(
        full_version(version, full),
        max_pods if isinstance(max_pods, int) else None,
        own_labels(properties.get("nodeLabels") or {}),
        own_taints(properties.get("nodeTaints") or ()),
    )


def defaults_of(options: Mapping[str, Any] | None) -> Goal | None:
    """The option `defaults` of a module, for a login that may not read the pool."""
    if not options:
        return None
    return Goal(
        str(options.get("version") or "").removeprefix("v"),
        options.get("max_pods"),
        own_labels(options.get("labels") or {}),
        own_taints(options.get("taints") or ()),
    )


@dataclass(frozen=True, slots=True)
class Action:
    """What to do for one machine, and why."""

    kind: Kind
    goal: Goal
    reasons: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether Azure is asked for a change."""
        return self.kind in ("created", "updated", "deleted")


def decide(wanted: Wanted, pool: Goal, machine: Machine | None, where: str = "") -> Action:
    """What `present` does for one machine. where: the id of its pool, for errors."""
    if machine is None:
        return Action("created", wanted.goal(pool, None), ("it does not exist",))
    current = machine.goal()
    goal = wanted.goal(pool, current)
    reasons = _changes(current, goal, f"{where}/machines/{machine.name}" if where else machine.name)
    if machine.failed:
        reasons.append("its last change failed")
    return Action("updated", goal, tuple(reasons)) if reasons else Action("unchanged", goal)


def not_taken(wanted: Wanted, asked: Goal, answer: Goal, where: str) -> list[str]:
    """What of a write Azure did not take, in words; another version or maxPods than asked for is an error.

    Where nothing is set explicitly, Azure may add to what was sent. where: the id of the machine.
    """
    version = changes(answer, replace(answer, version=asked.version))
    if version and wanted.version is not None:
        raise AzureRefuses(
            f"Azure accepted the write of this machine, but not {version[0]}",
            where=where,
            fix="look at it (az aks machine show), set kubernetes.version to a version that Azure takes, "
            "then run this again",
        )
    labels = {**answer.labels, **asked.labels} if wanted.labels is None else asked.labels
    taints = (*answer.taints, *asked.taints) if wanted.taints is None else asked.taints
    found = _changes(answer, replace(asked, max_pods=wanted.max_pods, labels=labels, taints=taints), where)
    if wanted.max_pods is None and asked.max_pods not in (None, answer.max_pods):
        found.append(f"maxPods {asked.max_pods}")
    return found


def _changes(current: Goal, goal: Goal, where: str) -> list[str]:
    try:
        return changes(current, goal)
    except MaxPodsFixed as error:
        raise MaxPodsFixed(error.what, where=where, why=error.why) from error


def shown(goal: Goal) -> Json:
    """A goal as a diff shows it."""
    return {
        "version": goal.version,
        "maxPods": goal.max_pods,
        "labels": dict(goal.labels),
        "taints": list(goal.taints),
    }


def _below(parent: object, key: str) -> Mapping[str, Any]:
    found = parent.get(key) if isinstance(parent, Mapping) else None
    return found if isinstance(found, Mapping) else {}
