# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The FlexNodes pools of the cluster in memory: pools, machines, bootstrap data, deleteMachines."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.contract.recorded import Recorded, aks
from tests.unit.node.servers import Answer, Request, answer_json

POOL = {"type", "mode", "orchestratorVersion", "maxPods", "nodeLabels", "nodeTaints", "upgradeSettings"}
MACHINE = {"orchestratorVersion", "maxPods", "nodeLabels", "nodeTaints"}
CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n").decode()
TOKEN = "fedcba.0123456789abcdef"


@dataclass
class FakePools:
    """What Azure knows of the pools of the cluster, and how it behaves."""

    cluster: str
    pools: dict[str, dict[str, Any]] = field(default_factory=dict)
    machines: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    page: int = 100
    slow: bool = False  # answers by long-running operations
    keeps_deleted: bool = False  # deleteMachines succeeds and deletes nothing
    keeps: dict[str, Any] = field(default_factory=dict)  # of a pool or a machine, whatever a PUT says
    before_put: Callable[[], None] | None = None  # what someone else does between our GET and our PUT
    data: dict[str, Any] = field(default_factory=dict)  # over the bootstrap data
    etags: int = 0
    bodies: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def add(self, name: str, **properties: Any) -> None:
        """A pool that exists."""
        base = {"type": "FlexNodes", "mode": "User", "orchestratorVersion": "1.34.4", "maxPods": 75}
        state = {"provisioningState": "Succeeded", "eTag": self.etag()}
        self.pools[name] = {**base, **state, **properties}
        self.machines.setdefault(name, {})

    def add_machine(self, pool: str, name: str, state: str = "Succeeded", **kubernetes: Any) -> str:
        """A machine that exists; returns its eTag."""
        goal = {"orchestratorVersion": "1.34.4", "maxPods": 75, "nodeLabels": {}, **kubernetes}
        goal["nodeLabels"] = {**goal["nodeLabels"], "kubernetes.azure.com/managed": "false"}
        etag = self.etag()
        self.machines[pool][name] = {"kubernetes": goal, "eTag": etag, "provisioningState": state}
        return etag

    def etag(self) -> str:
        """A new one."""
        self.etags += 1
        return f"e7a6-{self.etags:04}"

    def answer(self, request: Request, rest: str, query: Mapping[str, list[str]], url: str) -> Answer:
        """A request below agentPools."""
        version = query.get("api-version", ["2026-05-02-preview"])[0]
        if not re.fullmatch(r"2026-0[5-8]-02-preview", version):
            return _refusal(400, "InvalidApiVersionParameter", f"The api-version '{version}' is invalid.")
        pool, _slash, below = rest.partition("/")
        if not pool:
            return answer_json({"value": [self._pool(name) for name in sorted(self.pools)]})
        if not below:
            return self._on_pool(request, pool, url)
        if pool not in self.pools:
            return _recorded(aks.POOL_MISSING, pool=pool)
        if below == "listBootstrapData":
            return answer_json(self._bootstrap(pool))
        if below == "deleteMachines":
            return self._delete_machines(request, pool, url)
        name = below.removeprefix("machines").strip("/")
        return self._on_machine(request, pool, name, url) if name else self._list(pool, query, url)

    def _on_pool(self, request: Request, pool: str, url: str) -> Answer:
        if request.method == "PUT":
            if wrong := self._mismatch(request, self.pools.get(pool)):
                return wrong
            properties = request.json["properties"]
            self.bodies.append((pool, properties))
            if set(properties) - POOL or properties.get("nodeTaints") == []:
                return _refusal(400, "InvalidParameter", f"not for FlexNodes: {sorted(properties)}")
            known = pool in self.pools
            self.add(pool, **{**properties, **self.keeps})
            return self._slow(answer_json(self._pool(pool), 200 if known else 201), url)
        if pool not in self.pools:
            return _recorded(aks.POOL_MISSING, pool=pool)
        if request.method == "DELETE":
            del self.pools[pool]
            return self._slow(Answer(status=202), url, location=True)
        return answer_json(self._pool(pool))

    def _on_machine(self, request: Request, pool: str, name: str, url: str) -> Answer:
        if request.method == "PUT":
            if self.before_put:
                self.before_put()
            known = self.machines[pool].get(name)
            if wrong := self._mismatch(request, known):
                return wrong
            goal = request.json["properties"]["kubernetes"]
            self.bodies.append((name, request.json))
            if set(request.json["properties"]) - {"kubernetes"} or set(goal) - MACHINE:
                return _refusal(400, "InvalidParameter", f"not for FlexNodes: {sorted(goal)}")
            goal = {"maxPods": 75, "nodeLabels": {}, **goal, **self.keeps}
            labels = {**goal["nodeLabels"], "kubernetes.azure.com/managed": "false"}
            if known is None or known["kubernetes"] != {**goal, "nodeLabels": labels}:
                self.add_machine(pool, name, **goal)  # only a changed goal gets a new eTag
            return self._slow(answer_json(self._machine(pool, name), 200 if known else 201), url)
        if name not in self.machines[pool]:
            return _recorded(aks.MACHINE_MISSING)
        return answer_json(self._machine(pool, name))

    def _delete_machines(self, request: Request, pool: str, url: str) -> Answer:
        names = request.json["machineNames"]
        self.bodies.append((pool, request.json))
        if not self.keeps_deleted:
            for name in names:
                self.machines[pool].pop(name, None)
        return self._slow(Answer(status=202), url, location=True, always=True)

    def _mismatch(self, request: Request, known: Mapping[str, Any] | None) -> Answer | None:
        match = request.headers.get("If-Match", "").strip('"')
        if match and match != (known or {}).get("eTag"):
            return _refusal(412, "PreconditionFailed", "The eTag does not match.")
        if request.headers.get("If-None-Match") == "*" and known is not None:
            return _refusal(412, "PreconditionFailed", "The resource exists.")
        return None

    def _slow(self, answer: Answer, url: str, *, location: bool = False, always: bool = False) -> Answer:
        if not self.slow and not always:
            return answer
        headers = {"Azure-AsyncOperation": f"{url}/operations/1?api-version=2026-05-02-preview"}
        if location:
            headers["Location"] = f"{url}/operations/1/result?api-version=2026-05-02-preview"
        return Answer(
            answer.body, 201 if answer.status == 200 else answer.status, {**answer.headers, **headers}
        )

    def _list(self, pool: str, query: Mapping[str, list[str]], url: str) -> Answer:
        names, start = sorted(self.machines[pool]), int(query.get("$skiptoken", ["0"])[0])
        found: dict[str, Any] = {
            "value": [self._machine(pool, name) for name in names[start : start + self.page]]
        }
        if start + self.page < len(names):
            place = f"{url}{self.cluster}/agentPools/{pool}/machines"
            found["nextLink"] = f"{place}?$skiptoken={start + self.page}"
        return answer_json(found)

    def _pool(self, name: str) -> dict[str, Any]:
        return {
            "id": f"{self.cluster}/agentPools/{name}",
            "name": name,
            "properties": {**self.pools[name], "provisioningState": self.pools[name]["provisioningState"]},
        }

    def _machine(self, pool: str, name: str) -> dict[str, Any]:
        known = self.machines[pool][name]
        kubernetes = {**known["kubernetes"], "nodeName": name}
        return {
            "id": f"{self.cluster}/agentPools/{pool}/machines/{name}",
            "name": name,
            "properties": {**known, "kubernetes": kubernetes},
        }

    def _bootstrap(self, pool: str) -> dict[str, Any]:
        known = self.pools[pool]
        return {
            "azure": {
                "resourceManagerEndpoint": "https://management.azure.com",
                "targetCluster": {"resourceId": self.cluster},
                "targetAgentPoolName": pool,
                "bootstrapToken": {"token": TOKEN},
            },
            "components": {
                "kubernetes": known["orchestratorVersion"],
                "containerd": "9.9.9",
                "runc": "9.9.9",
            },
            "networking": {"dnsServiceIP": "10.0.0.10", "cniVersion": "9.9.9"},
            "node": {
                "maxPods": known["maxPods"],
                "labels": known.get("nodeLabels", {}),
                "taints": known.get("nodeTaints", []),
                "kubelet": {"clusterFQDN": "plant.hcp.example", "caCertData": CA},
            },
            **self.data,
        }


def _refusal(status: int, code: str, message: str) -> Answer:
    return answer_json({"error": {"code": code, "message": message}}, status)


def _recorded(answer: Recorded, **places: str) -> Answer:
    found: Answer = answer.at(**places).sent(Answer)
    return found
