# SPDX-License-Identifier: GPL-3.0-or-later
"""FlexNodes pools as tests use them: an administrator who works in Azure besides the collection."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import requests

from testbed.basics.errors import TestbedError

if TYPE_CHECKING:
    from testbed.azure.azure import Azure

API_VERSION = "2026-08-02-preview"
PRINCIPAL = "pool administrator"
"""The name of its requests in the record: a test that counts the collection's calls leaves them out."""
POOL = "aksflexnodes"
SECONDS = 30
INTERVAL = 0.3
MANAGEMENT = "https://management.azure.com"


@dataclass(frozen=True)
class Act:
    """A step that AKS took by itself."""

    time: float
    kind: str
    """patch, upgrade or delete"""
    pool: str
    machine: str
    """Empty for a step that is about the whole pool."""
    step: str
    """goal, patch, cordon, drain, delete (of the Node), taint, done; upgraded for a whole pool"""
    detail: str


ACT = tuple(field.name for field in fields(Act))


class Refused(TestbedError):
    """Resource Manager said no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        super().__init__(f"{status} {code}: {message}")


class PoolOperator:
    """Calls of Resource Manager with all rights; each waits until its operation is through."""

    def __init__(self, azure: Azure, ca_file: str) -> None:
        self._azure = azure
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = ca_file

    def pool_id(self, pool: str = POOL) -> str:
        """The resource id of a pool: the scope of role assignments."""
        return f"{self._azure.cluster_id}/agentPools/{pool}"

    def machine_id(self, name: str, pool: str = POOL) -> str:
        """The resource id of a machine."""
        return f"{self.pool_id(pool)}/machines/{name}"

    def ensure(self, pool: str = POOL, **properties: Any) -> dict[str, Any]:
        """The pool; created if there is none."""
        return self.find(pool) or self.put(pool, **properties)

    def put(self, pool: str = POOL, wait: bool = True, **properties: Any) -> dict[str, Any]:
        """Create or replace a FlexNodes pool, by the names that Azure has for its properties."""
        body = {"properties": {"type": "FlexNodes", "mode": "User", **properties}}
        self._finish(self.request("PUT", self.pool_id(pool), body), wait)
        return self.get(pool)

    def upgrade(self, version: str, pool: str = POOL, wait: bool = True) -> dict[str, Any]:
        """Take a pool and its machines to a version; what else it has stays."""
        there = self.get(pool)["properties"]
        kept = ("type", "mode", "maxPods", "nodeLabels", "nodeTaints", "upgradeSettings")
        properties = {name: there[name] for name in kept if name in there}
        return self.put(pool, wait, **{**properties, "orchestratorVersion": version})

    def get(self, pool: str = POOL) -> dict[str, Any]:
        """A pool."""
        found: dict[str, Any] = self.request("GET", self.pool_id(pool)).json()
        return found

    def find(self, pool: str = POOL) -> dict[str, Any] | None:
        """A pool; None if there is none."""
        return self._found(self.pool_id(pool))

    def delete(self, pool: str = POOL, wait: bool = True) -> None:
        """Delete a pool without machines."""
        self._finish(self.request("DELETE", self.pool_id(pool)), wait)

    def machine(self, name: str, pool: str = POOL) -> dict[str, Any] | None:
        """A machine; None if there is none."""
        return self._found(self.machine_id(name, pool))

    def machines(self, pool: str = POOL) -> dict[str, dict[str, Any]]:
        """Every machine of a pool, by name."""
        url, found = f"{self.pool_id(pool)}/machines", {}
        while url:
            answer = self.request("GET", url).json()
            found.update({one["name"]: one for one in answer["value"]})
            url = answer.get("nextLink", "")
        return found

    def set_goal(self, name: str, pool: str = POOL, etag: str = "", **goal: Any) -> dict[str, Any]:
        """Create a machine, or change some of its goal: orchestratorVersion, maxPods, nodeLabels, nodeTaints.

        A field that is None is left out. With an eTag only if the machine has that one.
        """
        there = self.machine(name, pool)
        now = there["properties"]["kubernetes"] if there else {}
        names = ("orchestratorVersion", "maxPods", "nodeLabels", "nodeTaints")
        wanted = {**{key: now[key] for key in names if key in now}, **goal}
        body = {"properties": {"kubernetes": {key: one for key, one in wanted.items() if one is not None}}}
        headers = {"If-Match": etag} if etag else {}
        self._finish(self.request("PUT", self.machine_id(name, pool), body, headers), True)
        found: dict[str, Any] = self.request("GET", self.machine_id(name, pool)).json()
        return found

    def delete_machines(self, *names: str, pool: str = POOL, wait: bool = True) -> None:
        """Delete machines; their nodes are made to leave."""
        path = f"{self.pool_id(pool)}/deleteMachines"
        self._finish(self.request("POST", path, {"machineNames": list(names)}), wait)

    def bootstrap_data(self, pool: str = POOL) -> dict[str, Any]:
        """What machines of a pool join with; it holds a token."""
        found: dict[str, Any] = self.request("POST", f"{self.pool_id(pool)}/listBootstrapData", {}).json()
        return found

    def settle(self, pool: str = POOL, seconds: float = 900) -> dict[str, Any]:
        """Wait until no operation runs on a pool; the pool, whose provisioningState says how it ended."""
        limit = time.monotonic() + seconds
        while True:
            found = self.get(pool)
            if found["properties"]["provisioningState"] in ("Succeeded", "Failed", "Canceled"):
                return found
            if time.monotonic() > limit:
                raise TestbedError(f"pool {pool} is still {found['properties']['provisioningState']}")
            time.sleep(INTERVAL)

    def request(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> requests.Response:
        """A request to Resource Manager; an error answer is raised."""
        principal = self._azure.app_registration(PRINCIPAL)
        self._azure.grant(principal, "Owner", f"/subscriptions/{self._azure.subscription_id}")
        token = self._azure.token(principal, MANAGEMENT)
        answer = self._session.request(
            method,
            path if path.startswith("https://") else f"{self._azure.url}{path}",
            params={} if "api-version=" in path else {"api-version": API_VERSION},
            json=body,
            headers={"Authorization": f"Bearer {token}", **(headers or {})},
            timeout=SECONDS,
        )
        if not answer.ok:
            content = answer.json()
            error = content.get("error", content)
            raise Refused(answer.status_code, str(error.get("code")), str(error.get("message")))
        return answer

    def _found(self, path: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.request("GET", path).json()
        except Refused as error:
            if error.status == requests.codes.not_found:
                return None
            raise
        return found

    def _finish(self, answer: requests.Response, wait: bool, seconds: float = 900) -> None:
        """Wait for a long-running operation; one that fails is raised."""
        link = answer.headers.get("Azure-AsyncOperation", "")
        limit = time.monotonic() + seconds
        while link and wait:
            status = self.request("GET", link).json()
            if status["status"] == "Succeeded":
                return
            if status["status"] in ("Failed", "Canceled"):
                raise Refused(200, status["error"]["code"], status["error"]["message"])
            if time.monotonic() > limit:
                raise TestbedError(f"operation {link} is still {status['status']}")
            time.sleep(INTERVAL)
