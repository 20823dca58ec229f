# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Azure for tests of a node of a FlexNodes pool, behind real TLS: tokens, bootstrap data, machines."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from tests.contract.recorded import aks
from tests.unit.node.config.test_samples import CLIENT, CLUSTER, TENANT
from tests.unit.node.fake_arm import ASSIGNMENTS, NODE, FakeArm, arm_error
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving
from tests.unit.node.sites import TOKEN, Site, a_site
from tests.unit.node.sources.test_bootstrap_data import laid_over

POOL = f"{CLUSTER}/agentPools/edge"
MACHINES = f"{POOL}/machines"
OWN = f"{MACHINES}/{NODE}"
LIST_DATA = f"POST {POOL}/listBootstrapData"
GET, PUT = f"GET {OWN}", f"PUT {OWN}"
SECRET = "first~secret"
MANAGED = {"kubernetes.azure.com/managed": "false"}


def gone(name: str = NODE) -> Answer:
    """A machine that does not exist, as AKS answers: without its name, which the path has."""
    found: Answer = aks.MACHINE_MISSING.at(machine=name).sent(Answer)
    return found


@dataclass
class FakePool(FakeArm):
    """One pool. `answers` replaces answers for good, `next` each for one request."""

    data: dict[str, Any] = field(default_factory=dict)
    machines: dict[str, dict[str, Any]] = field(default_factory=dict)  # by name
    number: int = 0
    next: dict[str, list[Answer]] = field(default_factory=dict)
    meanwhile: list[dict[str, Any]] = field(default_factory=list)  # goals by others, one before each PUT
    long_running: bool = False
    state: str = "Succeeded"
    page: int = 2  # machines on a page of the list; each that has some leads to a next one
    reads_pool: bool = True  # whether the identity may read the pool itself

    def __call__(self, request: Request) -> Answer:
        """One request."""
        path = urllib.parse.urlsplit(request.path).path
        if waiting := self.next.get(f"{request.method} {path}"):
            return waiting.pop(0)
        of_pool = path.startswith(POOL) and ASSIGNMENTS not in path
        if f"{request.method} {path}" in self.answers or not of_pool:
            return super().__call__(request)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token.startswith("head.") or token in self.revoked:
            return arm_error(401, "ExpiredAuthenticationToken")
        if path == f"{POOL}/listBootstrapData":
            assert request.json == {}
            return answer_json(self.data)
        if path == MACHINES:
            return self._list(urllib.parse.parse_qs(urllib.parse.urlsplit(request.path).query))
        if path == POOL:
            properties = {"type": "FlexNodes", "provisioningState": "Succeeded"}
            there = answer_json({"id": POOL, "name": "edge", "properties": properties})
            return there if self.reads_pool else arm_error(403, "AuthorizationFailed")
        name = path.removeprefix(f"{MACHINES}/")
        return self._put(request, name) if request.method == "PUT" else self._get(name)

    def _list(self, query: dict[str, list[str]]) -> Answer:
        """A page; the last one is empty, as AKS answers it."""
        start = int(query.get("$skipToken", ["0"])[0])
        names = list(self.machines)[start : start + self.page]
        found: dict[str, Any] = {"value": [self.shown(name) for name in names]}
        if names:
            version = "api-version=2026-05-02-preview"
            found["nextLink"] = f"{self.server.url}{MACHINES}?$skipToken={start + self.page}&{version}"
        return answer_json(found)

    def _get(self, name: str) -> Answer:
        return answer_json(self.shown(name)) if name in self.machines else gone(name)

    def _put(self, request: Request, name: str) -> Answer:
        if self.meanwhile:
            self.goal(name=name, **self.meanwhile.pop(0))
        known = self.machines.get(name)
        wanted = request.headers.get("If-Match", "").strip('"')
        exists = request.headers.get("If-None-Match") == "*" and known is not None
        if exists or (wanted and (known is None or known["eTag"] != wanted)):
            return arm_error(412, "PreconditionFailed")
        kubernetes = request.json["properties"]["kubernetes"]
        assert kubernetes.get("nodeTaints", ["any"]) != []
        self.goal(name=name, replace=True, **kubernetes)
        if self.long_running:
            self.state, self.long_running = "Creating", False
            answer = answer_json(self.shown(name), 201)
            self.state = "Succeeded"
            return answer
        return answer_json(self.shown(name), 200 if known else 201)

    def goal(self, *, name: str = NODE, replace: bool = False, **kubernetes: Any) -> str:
        """A new goal; returns its eTag."""
        self.number += 1
        known = {} if replace else self.machines.get(name, {})
        etag = f"7b6f2f0c-{self.number:04}"
        self.machines[name] = {**known, **kubernetes, "eTag": etag}
        return etag

    def shown(self, name: str) -> dict[str, Any]:
        """A machine as Azure shows it."""
        known = {**self.machines[name]}
        etag = known.pop("eTag")
        version = known.get("orchestratorVersion")
        labels = {**known.get("nodeLabels", {}), **MANAGED}
        kubernetes = {**known, "nodeName": name, "currentOrchestratorVersion": version, "nodeLabels": labels}
        properties = {"provisioningState": self.state, "eTag": etag, "kubernetes": kubernetes}
        return {"id": f"{MACHINES}/{name}", "name": name, "properties": properties}

    def bodies(self, start: str) -> list[Any]:
        """What was sent in requests with this beginning."""
        return [
            json.loads(one.body)
            for one in self.server.requests
            if f"{one.method} {one.path}".startswith(start)
        ]


@dataclass
class Edge:
    """A machine that joins a pool by itself, with a service principal."""

    site: Site
    arm: FakePool
    config: Path  # the site's own settings
    secret: Path

    @property
    def machine(self) -> Machine:
        return self.site.machine

    @property
    def node(self) -> dict[str, Any]:
        return self.site.api.nodes[NODE]

    def arguments(self) -> list[str]:
        return [
            *("--cluster", CLUSTER, "--pool", "edge", "--identity", "servicePrincipal"),
            *("--client-id", CLIENT, "--tenant-id", TENANT, "--client-secret-file", str(self.secret)),
            *("--config", str(self.config)),
        ]

    def join(self, *more: str) -> int:
        return main(["join", *self.arguments(), *more], self.machine.host)

    def settings(self, *changes: dict[str, Any]) -> None:
        """Change the settings of the site."""
        document = json.loads(self.config.read_text())
        for change in changes:
            document = laid_over(document, change)
        self.config.write_text(json.dumps(document))

    def poll(self, *arguments: str) -> int:
        return main(["poll", *arguments], self.machine.host)

    def later(self, seconds: float = 601) -> int:
        self.machine.clock.time += seconds
        return self.poll()

    def source(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.text(f"{DATA_DIR}/source.json"))
        return found

    def trouble(self) -> dict[str, Any]:
        return self.machine.store.monitoring()

    def current(self) -> dict[str, Any]:
        return self.machine.store.current_config() or {}

    @property
    def is_node(self) -> bool:
        return self.machine.path("/etc/kubernetes").exists()


def data_of(site: Site) -> dict[str, Any]:
    """The bootstrap data of a pool of this site's cluster."""
    kubelet = site.document["node"]["kubelet"]
    return {
        "azure": {
            "targetCluster": {"resourceId": CLUSTER},
            "targetAgentPoolName": "edge",
            "bootstrapToken": {"token": TOKEN},
        },
        "components": {"kubernetes": "1.34.4", "containerd": "2.3.4", "runc": "1.4.3"},
        "networking": {"dnsServiceIP": "10.0.0.10", "cniVersion": "1.9.1"},
        "node": {
            "maxPods": 75,
            "labels": {"site": "lab-1", **MANAGED},
            "taints": [],
            "kubelet": {
                "clusterFQDN": kubelet["serverURL"].removeprefix("https://"),
                "caCertData": kubelet["caCertData"],
            },
        },
    }


@contextmanager
def an_edge(machine: Machine, pki: Pki, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    """A site with a pool."""
    (directory / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(directory / "ca.pem"))
    secret = machine.put("/etc/flexnode-secret", SECRET, 0o600)
    for place in ("/var/lib", "/var/log", "/opt"):
        machine.path(place).mkdir(parents=True)
    machine.commands.processes = True
    with a_site(machine, pki) as site:
        arm = FakePool(site.document, secrets={SECRET}, data=data_of(site))
        with serving(arm, pki.server_context()) as server:
            arm.server = server
            arm.data["azure"]["resourceManagerEndpoint"] = server.url
            endpoints = {"resourceManagerEndpoint": server.url, "activeDirectoryEndpoint": server.url}
            config = directory / "site.json"
            config.write_text(json.dumps({"mirror": site.document["mirror"], "azure": endpoints}))
            secret_path = Path("/") / secret.relative_to(machine.root)
            yield Edge(site, arm, config, secret_path)
