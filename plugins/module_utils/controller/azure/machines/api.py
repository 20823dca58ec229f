# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The FlexNodes pools of one cluster and their machines, by plain requests with any version of the API.

The typed client of each SDK release accepts only its own version of this preview.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ....node.config.types.values import ArmId
from ....node.machine.clock import Clock
from ....node.sources.machines import pool_id
from ..arm import Arm, Json
from ..errors import AzureRefuses, AzureUnavailable, PermissionMissing

T = TypeVar("T")
CLUSTER_API_VERSION = "2025-05-01"  # of the cluster itself; stable
# Of the cluster and its pools: states in which no operation runs.
SETTLED = ("succeeded", "failed", "canceled")
# What Azure answers while another operation runs on the cluster.
BUSY = ("AnotherOperationInProgress", "OperationNotAllowed", "OperationPreempted", "Conflict")


class Pools:
    """The calls of the API for the pools of one cluster."""

    def __init__(self, arm: Arm, cluster: ArmId) -> None:
        self._arm, self.cluster = arm, cluster.canonical()

    def list(self) -> Iterator[Json]:
        """Every pool of the cluster, of whatever type."""
        return self._arm.pages(f"{self.cluster}/agentPools")

    def get(self, pool: str) -> Json | None:
        """One pool, None where there is none."""
        return self._arm.get(pool_id(self.cluster, pool))

    def put(self, pool: str, properties: Mapping[str, Any], etag: str = "") -> Json:
        """Create or replace a pool, and wait until it is there."""
        _first, last = self._arm.change(
            "PUT", pool_id(self.cluster, pool), {"properties": properties}, headers=conditional(etag)
        )
        return last

    def delete(self, pool: str) -> None:
        """Delete a pool, and wait until it is gone."""
        self._arm.change("DELETE", pool_id(self.cluster, pool))

    def bootstrap_data(self, pool: str) -> Json:
        """Fresh bootstrap data: each call has a valid token in it, which is a secret."""
        first, _last = self._arm.change("POST", f"{pool_id(self.cluster, pool)}/listBootstrapData", {})
        return first

    def machines(self, pool: str) -> Iterator[Json]:
        """Every machine of a pool."""
        return self._arm.pages(f"{pool_id(self.cluster, pool)}/machines")

    def machine(self, pool: str, name: str) -> Json | None:
        """One machine, None where there is none."""
        return self._arm.get(f"{pool_id(self.cluster, pool)}/machines/{name}")

    def put_machine(self, pool: str, name: str, body: Mapping[str, Any], etag: str = "") -> Json:
        """Create a machine, or change it if it still has this eTag; another one is ChangedMeanwhile."""
        path = f"{pool_id(self.cluster, pool)}/machines/{name}"
        _first, last = self._arm.change("PUT", path, body, headers=conditional(etag, new=not etag))
        return last

    def delete_machines(self, pool: str, names: Sequence[str]) -> None:
        """Delete machines in one operation, and wait until they are gone."""
        self._arm.change(
            "POST", f"{pool_id(self.cluster, pool)}/deleteMachines", {"machineNames": list(names)}
        )


def conditional(etag: str, *, new: bool = False) -> dict[str, str]:
    """The header that makes a PUT fail if the resource is not what it was, or if it exists already."""
    if etag:
        return {"If-Match": f'"{etag}"'}
    return {"If-None-Match": "*"} if new else {}


class Idle:
    """Waits for the operation that runs on a cluster: a pool can't be changed meanwhile."""

    def __init__(self, arm: Arm, cluster: ArmId, clock: Clock, *, pause: float, seconds: float) -> None:
        self._arm, self._cluster, self._clock = arm, cluster.canonical(), clock
        self._pause, self._seconds = max(pause, 0.1), seconds

    def wait(self) -> None:
        """Wait until no operation runs. A login that may not read the cluster does not wait."""
        deadline = self._clock.monotonic() + self._seconds
        while (state := str(self._properties().get("provisioningState") or "")).lower() not in (*SETTLED, ""):
            if self._clock.monotonic() >= deadline:
                raise self._late(f"the cluster is {state}")
            self._clock.sleep(self._pause)

    def retried(self, change: Callable[[], T]) -> T:
        """Do a change, again if Azure says that another operation runs."""
        deadline = self._clock.monotonic() + self._seconds
        while True:
            self.wait()
            try:
                return change()
            except AzureRefuses as error:
                if not is_busy(error):
                    raise
                if self._clock.monotonic() >= deadline:
                    raise self._late(error.why) from None
            self._clock.sleep(self._pause)

    def control_plane(self) -> str:
        """The version of the control plane; empty if the login may not read the cluster."""
        found = self._properties()
        return str(found.get("currentKubernetesVersion") or found.get("kubernetesVersion") or "")

    def _properties(self) -> Mapping[str, Any]:
        try:
            found = self._arm.get(self._cluster) or {}
        except PermissionMissing:
            return {}
        return found.get("properties") or {}

    def _late(self, why: str) -> AzureUnavailable:
        return AzureUnavailable(
            "another operation on the cluster does not finish",
            where=self._cluster,
            why=f"{why}, after {self._seconds:.0f} s",
            fix="wait until it has finished (az aks operation show-latest), then run this again; "
            "operation_timeout waits longer",
        )


def is_busy(error: AzureRefuses) -> bool:
    """Whether Azure refused a change because another operation runs on the cluster."""
    return "HTTP 409" in error.what and any(code in error.why for code in BUSY)
