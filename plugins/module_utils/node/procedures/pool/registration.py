# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine registers itself in a FlexNodes pool: bootstrap data, its machine, and the document of both."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...config.document import merge
from ...dataclass import dataclass, field, replace
from ...errors import ConfigInvalid
from ...sources.bootstrap_data import document_from
from ...sources.errors import MachineChanged, MachineUnusable
from ...sources.flexnode_config import Reply
from ...sources.machines import SETTLED, Goal, body_of, changes, cluster_and_pool, goal_of_document
from ...sources.pool_versions import usable_versions
from ...sources.source import Fetched
from .client import PoolClient

FAILED = "failed"
BUSY = ("accepted", "creating", "updating", "running", "inprogress", "scaling", "upgrading")
BUSY_SECONDS, PAUSE = 300.0, 5.0  # Azure answers a PUT of a flex machine at once; the API allows it to wait


@dataclass(frozen=True)
class Pool:
    """A FlexNodes pool as the source of a configuration. Fetching it creates or updates the machine."""

    client: PoolClient
    name: str  # of the machine: the Node's name
    over: Mapping[str, Any] = field(default_factory=dict)  # explicit settings; those of a goal go to Azure
    notes: list[str] = field(default_factory=list)  # for the user
    dry: bool = False  # only look: nothing is created or changed in Azure

    def fetch(self) -> Fetched:
        """The document of this machine, and the eTag of its goal as its version."""
        cluster, pool = cluster_and_pool(self.client.pool)
        self.client.say(f"fetch the bootstrap data of pool {pool}")
        named, notes = document_from(self.client.bootstrap_data(), cluster=cluster, pool=pool)
        document, unknown = usable_versions(named, self.over)
        self.notes[:] = [*unknown, *notes]
        goal = self.registered(document)
        return Fetched(goal.over(document), goal.etag or None)

    def registered(self, document: Mapping[str, Any]) -> Goal:
        """The goal of this machine, which exists now and agrees with the explicit settings.

        An existing machine is taken over with its goal. If someone else changes it meanwhile, it is read once
        more.
        """
        for _attempt in (1, 2):
            found = self.client.machine(self.name)
            if found.status == 404 and self.dry:
                return goal_of_document(merge(document, self.over))
            if found.status == 404:
                wanted = goal_of_document(merge(document, self.over))
                self.client.say(f"create machine {self.name}")
                answer = self.client.put_machine(self.name, body_of(wanted), {"If-None-Match": "*"})
            else:
                goal, failed = self.known(found)
                wanted = goal_of_document(merge(self.base(goal, document), self.over))
                differs = changes(goal, wanted) + (["its last change failed"] if failed else [])
                if self.dry or not differs:
                    return goal
                self.client.say(f"update machine {self.name}: {', '.join(differs)}")
                answer = self.client.put_machine(self.name, body_of(wanted), {"If-Match": f'"{goal.etag}"'})
            if answer is not None:
                return self.settled(answer)
        raise MachineChanged(
            "someone else changes the machine of this node at the same time",
            where=f"{self.client.pool}/machines/{self.name}",
            why="it differed from what was read, twice",
        )

    def base(self, goal: Goal, document: Mapping[str, Any]) -> dict[str, Any]:
        """What explicit settings are laid over: the goal of the machine; but labels over those of the pool.

        So a label that is removed from the settings is removed from the machine, too.
        """
        labels = (self.over.get("node") or {}).get("labels")
        own = goal if labels is None else replace(goal, labels=goal_of_document(document).labels)
        return own.over(document)

    def known(self, found: Reply) -> tuple[Goal, bool]:
        """The goal of a machine that exists, and whether Azure failed to write it: that is done again."""
        found = self.waited(found)
        if state_of(found) != FAILED:
            return self.settled(found), False
        properties = {**found.document["properties"], "provisioningState": SETTLED}
        return self.settled(
            Reply(200, json.dumps({**found.document, "properties": properties}).encode())
        ), True

    def waited(self, found: Reply) -> Reply:
        """The machine, after Azure has written it; or still the same, after a long time."""
        clock = self.client.clock
        deadline = clock.monotonic() + BUSY_SECONDS
        while state_of(found) in BUSY and clock.monotonic() < deadline:
            clock.sleep(PAUSE)
            found = self.client.machine(self.name)
        return found

    def settled(self, found: Reply) -> Goal:
        """The goal of a machine; waits while Azure is still writing it."""
        found = self.waited(found)
        if found.status == 404 or not found.document:
            raise MachineUnusable(
                "the answer is not the machine of this node",
                where=f"{self.client.pool}/machines/{self.name}",
                why=f"HTTP {found.status}",
            )
        try:
            return Goal.of(found.document)
        except ConfigInvalid as error:
            raise MachineUnusable(
                "the machine of this node has taints that a kubelet does not accept",
                where=f"{self.client.pool}/machines/{self.name}",
                why="; ".join(str(problem) for problem in error.problems),
            ) from error


def state_of(reply: Reply) -> str:
    """How far Azure is with writing a machine."""
    properties = reply.document.get("properties")
    state = properties.get("provisioningState") if isinstance(properties, Mapping) else ""
    return str(state).lower()
