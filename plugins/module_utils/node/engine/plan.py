# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan: every item that differs from the configuration, in the order in which it is applied."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..dataclass import dataclass, field, replace
from ..machine.host import Host
from ..machine.layout import AGENT_DIR
from ..resources.base import Change, Item, Ownership, Resource, key_of
from ..resources.paths import Directory, Link
from ..resources.program import Program
from ..resources.tree import Tree
from ..resources.units import Unit
from .orphans import Orphan, find_orphans
from .records.state import Store


@dataclass(frozen=True)
class Step:
    """One item that differs, and how."""

    resource: Item
    change: Change


def step_key(step: Step) -> str:
    """The key of the item that differs; an orphan has that of the item in the journal."""
    return step.resource.key if isinstance(step.resource, Orphan) else key_of(step.resource)


@dataclass(frozen=True)
class Plan:
    """All differences between the machine and its configuration, in the order in which they are applied."""

    steps: tuple[Step, ...]
    restarts: tuple[str, ...] = ()  # whatever the steps are
    why: str = "an earlier run was interrupted"  # the reason for these restarts
    reload: bool = False
    touched: tuple[Resource, ...] = ()  # to be journaled: what differs, and the directories that we will own
    owners: Mapping[str, frozenset[str]] = field(default_factory=dict)
    left: tuple[str, ...] = ()  # what is not touched, and why: changed outside this collection, or newer
    settled: tuple[str, ...] = ()  # keys of items that have their original state again

    @property
    def changed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.steps or self.restarts)

    @property
    def sentences(self) -> list[str]:
        """The plan in words, one line per change."""
        pending = [f"restart {unit} ({self.why})" for unit in self.restarts]
        return [step.change.sentence for step in self.steps] + pending

    def also_restarting(self, *units: str, why: str) -> Plan:
        """The same plan, after which units are restarted in any case."""
        return replace(self, restarts=tuple(dict.fromkeys((*self.restarts, *units))), why=why)

    @property
    def diff(self) -> list[dict[str, str]]:
        """Before and after of every item, as Ansible shows them."""
        return [
            {
                "before_header": key_of(step.resource),
                "after_header": key_of(step.resource),
                "before": step.change.before,
                "after": step.change.after,
            }
            for step in self.steps
        ]

    @property
    def replaces_program(self) -> bool:
        """Whether another release of this program is installed, which may render files differently."""
        return bool(self.next_program) or any(isinstance(step.resource, Program) for step in self.steps)

    @property
    def next_program(self) -> str:
        """The command that replaces the installed one; empty: it stays, or there is none yet.

        The link says so. The files of the new one may be there already, from a run that waited or was killed.
        """
        for step in self.steps:
            if isinstance(step.resource, Link) and step.resource.target.startswith(f"{AGENT_DIR}/"):
                return step.resource.target if f"{AGENT_DIR}/" in step.change.before else ""
        return ""

    def touches(self, components: frozenset[str]) -> bool:
        """Whether an item of one of these components changes."""
        changed = (
            step.resource.entry.of
            if isinstance(step.resource, Orphan)
            else self.owners.get(key_of(step.resource), frozenset())
            for step in self.steps
        )
        return any(components & frozenset(of) for of in changed)

    @property
    def components(self) -> frozenset[str]:
        """The components that were planned."""
        return frozenset().union(*self.owners.values())

    @property
    def versions(self) -> bool:
        """Whether a version of anything is installed."""
        return any(step.resource.content_addressed for step in self.steps)

    def installs(self, name: str) -> bool:
        """Whether an artifact is installed, or replaced."""
        return any(tree.artifact.name == name for tree in self.trees)

    def restarts_unit(self, unit: str) -> bool:
        """Whether a unit restarts, if it runs."""
        return unit in self.restarts or any(unit in step.resource.restarts for step in self.steps)

    @property
    def trees(self) -> list[Tree]:
        """The artifacts that must be fetched first."""
        return [step.resource for step in self.steps if isinstance(step.resource, Tree)]


def make_plan(
    resources: Sequence[Resource], host: Host, store: Store, ownership: Ownership | None = None
) -> Plan:
    """Observe every item and keep those that differ. Changes nothing.

    With an `ownership`, items that its components no longer contain are restored, before anything else.
    """
    ownership = ownership or Ownership()
    listed = with_parents(resources)
    orphans = find_orphans(host, store.journal, listed, ownership.components)
    steps = [Step(orphan, orphan.change) for orphan in orphans.found]
    touched = []
    for resource in listed:
        change = resource.difference(resource.observe(host))
        if change is not None:
            steps.append(Step(resource, change))
        # A directory that exists already is journaled too: unbootstrap removes what is created in it.
        if change is not None or (isinstance(resource, Directory) and resource.ours):
            touched.append(resource)
    unfinished = store.transaction() or {}
    # Units that this plan starts or stops anyway.
    known = {step.resource.name for step in steps if isinstance(step.resource, (Unit, Orphan))}
    known |= {key.partition(":")[2] for key in orphans.settled}
    pending = tuple(unit for unit in unfinished.get("restarts", ()) if unit not in known)
    return Plan(
        tuple(steps),
        pending,
        reload=bool(unfinished.get("reload")),
        touched=tuple(touched),
        owners=_with_parents_owned(ownership.of),
        left=orphans.left,
        settled=orphans.settled,
    )


def _with_parents_owned(owners: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The same with parent directories: they belong to every component that has something below them."""
    owned = dict(owners)
    for key, of in owners.items():
        parent = os.path.dirname(key.partition(":")[2])
        while len(parent) > 1:
            above = f"directory:{parent}"
            owned[above] = owned.get(above, frozenset()) | of
            parent = os.path.dirname(parent)
    return owned


def with_parents(resources: Sequence[Resource]) -> list[Resource]:
    """The same list with every parent directory before its first child, so that it is journaled too."""
    explicit = {resource.name: resource for resource in resources if isinstance(resource, Directory)}
    listed: list[Resource] = []
    placed = {"/"}
    for resource in resources:
        above: list[Resource] = []
        parent = os.path.dirname(resource.name) if resource.name.startswith("/") else "/"
        while parent not in placed:
            placed.add(parent)
            above.append(explicit.get(parent) or Directory(parent))
            parent = os.path.dirname(parent)
        listed += reversed(above)
        if resource.name not in placed or not isinstance(resource, Directory):
            listed.append(resource)
        if isinstance(resource, Directory):
            placed.add(resource.name)
    return listed
