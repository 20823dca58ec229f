# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The FlexNodes pools of one cluster and their machines, by plain requests with any version of the API.

The typed client of each SDK release accepts only its own version of this preview.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ....node.config.types.values import ArmId
from ....node.sources.machines import pool_id
from ..arm import Arm, Json

CLUSTER_API_VERSION = "2025-05-01"  # of the cluster itself; stable


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
