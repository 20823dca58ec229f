# SPDX-License-Identifier: GPL-3.0-or-later
"""The nodes that were configured, as the database keeps them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from testbed.azure.database import Database


@dataclass(frozen=True)
class Node:
    """A flexNodeConfig."""

    name: str
    properties: dict[str, Any]
    """As they were PUT, secrets included."""
    config_version: int
    created: float
    changed: float
    settled: float
    """When the last write is through."""

    @property
    def provisioning_state(self) -> str:
        """Where the last write is."""
        if self.settled <= time.time():
            return "Succeeded"
        return "Creating" if self.created == self.changed else "Updating"


class Nodes:
    """All of them, by their names in small letters."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Node]:
        """Every node, by name."""
        return [
            _node(row["document"]) for row in self._database.rows("SELECT document FROM nodes ORDER BY name")
        ]

    def find(self, name: str) -> Node | None:
        """The node of that name."""
        row = self._database.row("SELECT document FROM nodes WHERE name = ?", name.lower())
        return _node(row["document"]) if row else None

    def previous(self, name: str) -> Node | None:
        """What was there before the last write."""
        row = self._database.row("SELECT document FROM previous_nodes WHERE name = ?", name.lower())
        return _node(row["document"]) if row else None

    def put(self, name: str, properties: dict[str, Any] | None = None) -> Node:
        """Write a node with a new version; without properties they stay as they are."""
        now, before = time.time(), self.find(name)
        version = int(now)
        if before:
            version = max(version, before.config_version + 1)
        node = Node(
            name=name.lower(),
            properties=properties if properties is not None else before.properties if before else {},
            config_version=version,
            created=before.created if before else now,
            changed=now,
            settled=now + self._database.settings.operation_seconds,
        )
        with self._database.together():
            self._keep(name)
            self._database.change(
                "REPLACE INTO nodes (name, document) VALUES (?, ?)", node.name, json.dumps(node.__dict__)
            )
        return node

    def delete(self, name: str) -> None:
        """Forget a node."""
        with self._database.together():
            self._keep(name)
            self._database.change("DELETE FROM nodes WHERE name = ?", name.lower())

    def _keep(self, name: str) -> None:
        self._database.change("DELETE FROM previous_nodes WHERE name = ?", name.lower())
        self._database.change(
            "INSERT INTO previous_nodes SELECT name, document FROM nodes WHERE name = ?", name.lower()
        )


def _node(text: str) -> Node:
    return Node(**json.loads(text))
