# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A small app to plan, apply and restore: a tree, a link, a file and a unit; and gates for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import (
    Plan,
    make_plan,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import (
    Around,
    Gate,
    Timings,
    execute,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    FlexNodeError,
    NodeNotReady,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import (
    Manifest,
    Tree,
    place_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from tests.unit.node.fakes import Machine

APP, SIDE = "app.service", "side.service"
UNIT_FILE = "/etc/systemd/system/app.service"


class Killed(BaseException):
    """kill -9, as near as a test can get: nothing catches it."""


@dataclass
class Stager:
    """Stands in for the fetcher; `fails` is what it raises."""

    machine: Machine
    fails: FlexNodeError | None = None
    calls_before: list[tuple[str, ...]] = field(default_factory=list)

    def stage(self, trees: Iterable[Tree]) -> None:
        self.calls_before = self.machine.commands.changing()
        if self.fails:
            raise self.fails
        for tree in trees:
            for _, name in tree.members:
                self.machine.put(f"{tree.staging}/{name}", name, 0o755)
            digests = {name: self.machine.host.sha256(f"{tree.staging}/{name}") for _, name in tree.members}
            Manifest.write(self.machine.host, tree.staging, tree.artifact.sha256, digests)


@dataclass
class Watching:
    """A gate that does what it is told."""

    act: Callable[[], None]

    condition: str = "a test"

    def pass_(self, host: Host) -> None:
        self.act()


def refuse() -> None:
    raise NodeNotReady("not Ready")


RETURNS = Around(returns=True)  # there is a generation that worked


def run(
    machine: Machine, resources: Sequence[Resource], gates: Sequence[Gate] = (), **options: Any
) -> tuple[Plan, list[str]]:
    """Plan and execute."""
    told: list[str] = []
    plan = make_plan(resources, machine.host, machine.store)
    if plan.changed:
        stager = options.pop("stager", None) or Stager(machine)
        timings = Timings(machine.host)
        execute(
            plan, machine.host, machine.store, stager, gates, timings=timings, progress=told.append, **options
        )
        machine.store.finish()
    return plan, told


def a_tree(name: str = "tool") -> Tree:
    artifact = Artifact(name, "1.0.0", "amd64", f"https://x.example/{name}", name[0] * 64, "binary")
    return Tree(place_of(artifact), artifact, (("", name),))


def an_app(content: str = "one") -> list[Resource]:
    """A program with its link, its file, its unit, and something beside it."""
    return [
        Directory("/opt", 0o755, ours=True),
        a_tree(),
        Link("/usr/bin/tool", f"{a_tree().path}/tool", (APP,)),
        File("/etc/app/config", content, restarts=(APP,)),
        File("/etc/app/second", content, restarts=(APP,)),
        File(UNIT_FILE, "[Service]\nExecStart=/usr/bin/tool\n", restarts=(APP,)),
        Unit(APP),
    ]
