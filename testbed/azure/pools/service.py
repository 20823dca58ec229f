# SPDX-License-Identifier: GPL-3.0-or-later
"""AKS behind the pools: it keeps them, and acts on the cluster after a request was answered."""

from __future__ import annotations

import datetime
import logging
import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import requests

from testbed.azure.arm.throttle import Throttle
from testbed.azure.database import Database
from testbed.azure.pools import acts, bootstrap
from testbed.azure.pools.acts import Act
from testbed.azure.pools.budget import at_once, one_by_one
from testbed.azure.pools.nodes import Nodes
from testbed.azure.pools.rules import full_version
from testbed.azure.pools.store import Machine, Machines, Pool, Pools, end_operation
from testbed.azure.provider.cluster import Cluster
from testbed.azure.serving.place import Place
from testbed.basics.errors import TestbedError

LOG = logging.getLogger("testbed.azure")
JOIN_SECONDS = 5
MAX_UNAVAILABLE = "1"


class Service:
    """Pools, machines, and the threads that act for them."""

    def __init__(
        self, place: Place, database: Database, cluster: Cluster, nodes: Callable[[], Nodes]
    ) -> None:
        self._place = place
        self._database = database
        self._cluster = cluster
        self._nodes = nodes
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []
        self.pools = Pools(database)
        self.machines = Machines(database)
        self.throttle = Throttle()
        self.writing = threading.RLock()
        """Held while a request reads and writes."""

    @property
    def control_plane_version(self) -> str:
        """What Azure takes for the version of the control plane."""
        return self._database.settings.control_plane_version or self._place.kubernetes.version

    def full_version(self, version: str) -> str:
        """The patch version of a version that a pool or machine may have."""
        return full_version(version, self.control_plane_version)

    def bootstrap_data(self, pool: Pool) -> dict[str, Any]:
        """Fresh data with a token of its own."""
        settings = self._database.settings
        lifetime = datetime.timedelta(seconds=settings.pool_token_seconds)
        token = self._cluster.create_pool_token(
            pool.name, datetime.datetime.now(datetime.timezone.utc) + lifetime
        )
        version = self.full_version(pool.properties["orchestratorVersion"])
        return bootstrap.data(self._place, pool, version, token, settings.bootstrap_data_patch)

    def patch(self, before: Machine, after: Machine) -> None:
        """Put changed labels and taints of a machine onto its Node."""
        if (before.labels, before.taints) != (after.labels, after.taints):
            act = self._act("patch", after.pool)
            self._start(act, lambda: acts.patch(act, self._nodes(), before, after))

    def upgrade(self, pool: Pool, operation: str) -> None:
        """Take the machines of a pool to its version, as many at a time as it allows."""
        act = self._act("upgrade", pool.name)
        wanted = pool.properties["orchestratorVersion"]
        full = self.full_version(wanted)

        def one(found: Machine) -> None:
            with self.writing:
                now = self.machines.find(pool.name, found.name)
                if now is None:  # deleted in the meantime
                    return
                machine = self.machines.write(now.with_goal(version=wanted, full_version=full))
            acts.upgrade(act, self._nodes(), machine)

        def work() -> None:
            machines = self.machines.all(pool.name)
            budget = pool.properties.get("upgradeSettings", {}).get("maxUnavailable", MAX_UNAVAILABLE)
            behind = [machine for machine in machines if machine.full_version != full]
            one_by_one(behind, at_once(budget, len(machines)), one)
            act.reached("", "upgraded", full)

        def finish(error: tuple[str, str, str] | None) -> None:
            with self.writing:
                if now := self.pools.find(pool.name):
                    version = now.current_version if error else full
                    shown = {"code": error[1], "message": error[2]} if error else None
                    state = error[0] if error else "Succeeded"
                    self.pools.write(replace(now, current_version=version, state=state, error=shown))
            end_operation(self._database, operation, error)

        self._start(act, work, finish)

    def delete(self, pool: str, machines: list[Machine], operation: str) -> None:
        """Make the nodes of deleted machines leave; the operation ends when all have the taint for it."""
        waiting, lock = {machine.name for machine in machines}, threading.Lock()

        def through(name: str) -> None:
            with lock:
                waiting.discard(name)
                if not waiting:
                    end_operation(self._database, operation)

        def begin(machine: Machine) -> None:
            act = self._act("delete", pool)

            def finish(error: tuple[str, str, str] | None) -> None:
                if error and machine.name in waiting:
                    end_operation(self._database, operation, error)

            def work() -> None:
                acts.delete(act, self._nodes(), machine, lambda: through(machine.name))

            self._start(act, work, finish)

        for machine in machines:
            begin(machine)

    def restart(self) -> None:
        """End what another process of this server began: its threads are gone."""
        error = ("Failed", "InternalServerError", "The service was restarted.")
        for pool in self.pools.all():
            if pool.busy and pool.settled == math.inf:
                shown = {"code": error[1], "message": error[2]}
                self.pools.write(replace(pool, state="Failed", error=shown))
        for row in self._database.rows("SELECT id FROM operations WHERE ends > 1e300"):  # the infinite ones
            end_operation(self._database, row["id"], error)

    def stop(self) -> None:
        """End all acts, wherever they are; the next ones are not affected."""
        with self.writing:
            ended, threads = self._ended, self._threads
            self._ended, self._threads = threading.Event(), []
        ended.set()
        for thread in threads:
            thread.join(JOIN_SECONDS)

    def _act(self, kind: str, pool: str) -> Act:
        return Act(kind, pool, self._database, self._ended)

    def _start(
        self,
        act: Act,
        work: Callable[[], None],
        finish: Callable[[tuple[str, str, str] | None], None] = lambda _: None,
    ) -> None:
        def run() -> None:
            error: tuple[str, str, str] | None = ("Failed", "InternalServerError", "See the log of azure.")
            try:
                work()
                error = None
            except acts.Stopped:
                error = ("Canceled", "OperationCanceled", "The operation was ended before it was through.")
            except acts.Failed as failure:
                error = ("Failed", "UpgradeFailed", str(failure))
            except (TestbedError, requests.RequestException) as failure:
                LOG.warning("%s of pool %s: %s", act.kind, act.pool, failure)
                error = ("Failed", "InternalServerError", f"The cluster does not answer: {failure}")
            finally:
                finish(error)

        thread = threading.Thread(target=run, name=f"{act.kind} {act.pool}", daemon=True)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()
