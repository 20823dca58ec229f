# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools and machines, as the database keeps them."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, replace
from typing import Any

from testbed.azure.database import Database
from testbed.azure.pools.rules import MANAGED

SETTLED = ("Succeeded", "Failed", "Canceled")


@dataclass(frozen=True)
class Pool:
    """An agent pool."""

    name: str
    properties: dict[str, Any]
    """As they were PUT, with defaults."""
    current_version: str
    """The full version of the last upgrade that worked."""
    etag: str
    state: str = "Succeeded"
    settled: float = 0
    """When the state turns into Succeeded by itself; infinite where the service decides."""
    error: dict[str, str] | None = None

    @property
    def provisioning_state(self) -> str:
        """Where the last write is."""
        return self.state if self.state in SETTLED or self.settled > time.time() else "Succeeded"

    @property
    def busy(self) -> bool:
        """Whether an operation runs on it."""
        return self.provisioning_state not in SETTLED

    def shown(self) -> dict[str, Any]:
        """Its properties as AKS answers them."""
        status = {"status": {"provisioningError": self.error}} if self.error else {}
        return {
            **self.properties,
            "currentOrchestratorVersion": self.current_version,
            "eTag": self.etag,
            "provisioningState": self.provisioning_state,
            **status,
        }


@dataclass(frozen=True)
class Machine:
    """A machine of a pool: the goal of one node."""

    pool: str
    name: str
    version: str
    """As it was PUT: major.minor is allowed."""
    full_version: str
    max_pods: int
    labels: dict[str, str]
    taints: list[str]
    etag: str
    state: str = "Succeeded"
    settled: float = 0

    @property
    def node_name(self) -> str:
        """The name of its Node."""
        return self.name.lower()

    @property
    def provisioning_state(self) -> str:
        """Where the last write is."""
        return self.state if self.settled > time.time() else "Succeeded"

    def shown(self) -> dict[str, Any]:
        """Its properties as AKS answers them."""
        kubernetes: dict[str, Any] = {
            "orchestratorVersion": self.version,
            "currentOrchestratorVersion": self.full_version,  # the goal's, before any kubelet runs it
            "maxPods": self.max_pods,
            "nodeLabels": {**self.labels, MANAGED: "false"},
            "nodeName": self.node_name,
        }
        if self.taints:
            kubernetes["nodeTaints"] = self.taints
        return {
            "eTag": self.etag,
            "provisioningState": self.provisioning_state,
            "kubernetes": kubernetes,
        }

    def goal(self) -> tuple[Any, ...]:
        """What a node acts on: the eTag changes with it and with nothing else."""
        return self.version, self.full_version, self.max_pods, self.labels, self.taints

    def with_goal(self, **changes: Any) -> Machine:
        """The machine with another goal; the same machine where nothing changes."""
        changed = replace(self, **changes)
        return self if changed.goal() == self.goal() else replace(changed, etag=new_etag())


def new_etag() -> str:
    """One that was never used."""
    return str(uuid.uuid4())


class Pools:
    """The pools of the cluster."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Pool]:
        """Every pool, by name."""
        rows = self._database.rows("SELECT document FROM agent_pools ORDER BY name")
        return [Pool(**json.loads(row["document"])) for row in rows]

    def find(self, name: str) -> Pool | None:
        """The pool of that name."""
        row = self._database.row("SELECT document FROM agent_pools WHERE name = ?", name.lower())
        return Pool(**json.loads(row["document"])) if row else None

    def write(self, pool: Pool) -> Pool:
        """Create or replace a pool."""
        self._database.change(
            "REPLACE INTO agent_pools VALUES (?, ?)", pool.name.lower(), json.dumps(asdict(pool))
        )
        return pool

    def delete(self, name: str) -> None:
        """Forget a pool."""
        self._database.change("DELETE FROM agent_pools WHERE name = ?", name.lower())


class Machines:
    """The machines of all pools."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self, pool: str) -> list[Machine]:
        """Every machine of a pool, by name."""
        rows = self._database.rows(
            "SELECT document FROM pool_machines WHERE pool = ? ORDER BY name", pool.lower()
        )
        return [Machine(**json.loads(row["document"])) for row in rows]

    def find(self, pool: str, name: str) -> Machine | None:
        """The machine of that name."""
        row = self._database.row(
            "SELECT document FROM pool_machines WHERE pool = ? AND name = ?", pool.lower(), name.lower()
        )
        return Machine(**json.loads(row["document"])) if row else None

    def write(self, machine: Machine) -> Machine:
        """Create or replace a machine."""
        self._database.change(
            "REPLACE INTO pool_machines VALUES (?, ?, ?)",
            *(machine.pool.lower(), machine.name.lower(), json.dumps(asdict(machine))),
        )
        return machine

    def delete(self, pool: str, name: str) -> None:
        """Forget a machine."""
        self._database.change(
            "DELETE FROM pool_machines WHERE pool = ? AND name = ?", pool.lower(), name.lower()
        )


def end_operation(database: Database, operation: str, error: tuple[str, str, str] | None = None) -> None:
    """End an operation well, or with (status, code, message); status is Failed or Canceled."""
    with database.together():
        if error:
            database.change("REPLACE INTO operation_errors VALUES (?, ?, ?, ?)", operation, *error)
        database.change("UPDATE operations SET ends = ? WHERE id = ?", time.time(), operation)
