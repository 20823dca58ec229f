# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Entra and Resource Manager in memory, behind real TLS: what the real SDK is pointed at in these tests."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.controller.fake_pools import FakePools
from tests.unit.node.servers import Answer, Pki, Request, Server, answer_json, one_at_a_time, serving

SUBSCRIPTION = "12345678-1234-1234-1234-123456789abc"
TENANT = "87654321-4321-4321-4321-cba987654321"
CLIENT, OBJECT = "11111111-2222-3333-4444-555555555555", "99999999-8888-7777-6666-555555555555"
SECRET = "Pl4nted-client-s3cret"
CLUSTER = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
    "/providers/Microsoft.ContainerService/managedClusters/plant"
)
VERSION = "2026-05-01-preview"


def jwt(**claims: Any) -> str:
    """A token that says who it is for; nobody checks its signature here."""

    def part(document: Any) -> str:
        return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part(claims)}.signature"


@dataclass
class Fault:
    """What happens to the next requests that match, instead of an answer."""

    pattern: str
    answer: Answer
    times: int = 1


@dataclass
class FakeAzure:
    """What Azure knows, and how it behaves."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    cluster: dict[str, Any] = field(default_factory=dict)
    kubeconfigs: dict[str, str] = field(default_factory=dict)  # listCluster...Credential -> YAML
    forbidden: str = ""  # a regular expression of requests
    page: int = 100
    list_tells_all: bool = False
    slow_put: bool = False  # a long-running operation
    faults: list[Fault] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    server: Server = field(default_factory=lambda: Server(""))
    version: int = 1_700_000_000
    polls: int = 0
    pools: FakePools = field(default_factory=lambda: FakePools(CLUSTER))
    features: dict[str, str] = field(default_factory=dict)
    permissions: list[dict[str, Any]] = field(default_factory=lambda: [{"actions": ["*"]}])

    # -- what tests look at ---------------------------------------------------------------------------------

    def asked(self, pattern: str) -> int:
        """How often something was asked for."""
        return sum(bool(re.search(pattern, line)) for line in self.server.asked)

    @property
    def environment(self) -> dict[str, str]:
        """What a user would export."""
        return {
            "AZURE_SUBSCRIPTION_ID": SUBSCRIPTION,
            "AZURE_TENANT": TENANT,
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_SECRET": SECRET,
            "AZURE_AUTHORITY_HOST": self.server.url,
            "AZURE_RESOURCE_MANAGER_ENDPOINT": self.server.url,
            "REQUESTS_CA_BUNDLE": self.ca,
        }

    ca: str = ""

    @contextmanager
    def running(self, pki: Pki, directory: Path) -> Iterator[FakeAzure]:
        """Listen for as long as the block lasts."""
        bundle = directory / "ca.pem"
        bundle.write_text(pki.ca_pem)
        self.ca = str(bundle)
        with serving(one_at_a_time(self.answer), pki.server_context()) as server:
            self.server = server
            yield self

    # -- requests -------------------------------------------------------------------------------------------

    def answer(self, request: Request) -> Answer:
        """One request."""
        self.times.append(time.monotonic())
        line = f"{request.method} {request.path}"
        for fault in self.faults:
            if fault.times > 0 and re.search(fault.pattern, line):
                fault.times -= 1
                return fault.answer
        path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
        if "oauth2" in path or "openid-configuration" in path:
            return self._entra(request, path)
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return refusal(401, "AuthenticationFailed", "Authentication failed.")
        if self.forbidden and re.search(self.forbidden, line):
            return refusal(
                403,
                "AuthorizationFailed",
                f"The client '{CLIENT}' with object id '{OBJECT}' does not have authorization to perform "
                "action 'Microsoft.ContainerService/managedClusters/flexNodeConfig/write' over scope "
                f"'{path}' or the scope is invalid. If access was recently granted, please refresh your "
                "credentials.",
            )
        if path.startswith("/operations/"):
            return Answer(status=204) if path.endswith("/result") else self._operation()
        if path.endswith("Microsoft.Authorization/permissions"):
            return answer_json({"value": self.permissions})
        if "/Microsoft.Features/" in path:
            state = self.features.get(path.rpartition("/")[2])
            body = {"properties": {"state": state}}
            return (
                answer_json(body) if state else refusal(404, "FeatureNotFound", "There is no such feature.")
            )
        return self._arm(request, path, query)

    def _entra(self, request: Request, path: str) -> Answer:
        base = f"{self.server.url}/{TENANT}"
        if request.method == "GET":
            return answer_json(
                {
                    "token_endpoint": f"{base}/oauth2/v2.0/token",
                    "authorization_endpoint": f"{base}/oauth2/v2.0/authorize",
                    "issuer": f"{base}/v2.0",
                }
            )
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if form.get("client_secret") != SECRET and not form.get("client_assertion"):
            text = "AADSTS7000215: Invalid client secret provided. Trace ID: 1 Correlation ID: 2"
            return answer_json({"error": "invalid_client", "error_description": text}, 401)
        token = jwt(oid=OBJECT, appid=CLIENT, aud=form["scope"])
        return answer_json({"token_type": "Bearer", "expires_in": 3600, "access_token": token})

    def _arm(self, request: Request, path: str, query: Mapping[str, list[str]]) -> Answer:
        if "api-version" not in query and "$skiptoken" not in query:
            return refusal(400, "MissingApiVersionParameter", "The api-version query parameter is required.")
        if not path.lower().startswith(CLUSTER.lower()):
            return refusal(404, "ResourceNotFound", f"The Resource '{path}' was not found.")
        rest = path[len(CLUSTER) :].strip("/")
        kind, _slash, name = rest.partition("/")
        if kind.startswith("listCluster"):
            return self._credential(kind)
        if kind == "flexNodeConfig":
            return self._list(query) if not name else self._node(request, name, query)
        if kind == "agentPools":
            return self.pools.answer(request, name, query, self.server.url)
        return answer_json({"id": CLUSTER, "name": "plant", **self.cluster})

    def _credential(self, kind: str) -> Answer:
        if kind not in self.kubeconfigs:
            why = "Getting static credential is not allowed, this cluster is set to disable local accounts."
            return refusal(400, "BadRequest", why)
        value = base64.b64encode(self.kubeconfigs[kind].encode()).decode()
        return answer_json({"kubeconfigs": [{"name": "cluster", "value": value}]})

    def _list(self, query: Mapping[str, list[str]]) -> Answer:
        names = sorted(self.nodes)
        start = int(query.get("$skiptoken", ["0"])[0])
        found: dict[str, Any] = {
            "value": [
                self._resource(name, whole=self.list_tells_all) for name in names[start : start + self.page]
            ]
        }
        if start + self.page < len(names):
            found["nextLink"] = f"{self.server.url}{CLUSTER}/flexNodeConfig?$skiptoken={start + self.page}"
        return answer_json(found)

    def _node(self, request: Request, name: str, query: Mapping[str, list[str]]) -> Answer:
        name, _slash, action = name.partition("/")
        if request.method == "PUT":
            known = name in self.nodes
            self.nodes[name] = request.json["properties"]
            if self.slow_put:
                self.polls = 2
                where = f"{self.server.url}/operations/1?api-version={VERSION}"
                return answer_json(self._resource(name, state="Accepted"), 201, Azure_AsyncOperation=where)
            issued = self._issued(name) if "configUrl" in query else {}
            resource = self._resource(name)
            return answer_json(
                {**resource, "properties": {**resource["properties"], **issued}}, 200 if known else 201
            )
        if name not in self.nodes:
            if request.method == "DELETE":
                return Answer(status=204)
            return refusal(404, "ResourceNotFound", f"The Resource 'flexNodeConfig/{name}' was not found.")
        if action == "regenerateToken":
            return answer_json(self._issued(name))
        if request.method == "DELETE":
            del self.nodes[name]
            return answer_json({"status": "Deleted", "cleanup": {"configUrlRevoked": True}})
        return answer_json(self._resource(name))

    def _operation(self) -> Answer:
        self.polls -= 1
        state = "Succeeded" if self.polls <= 0 else "InProgress"
        return answer_json({"name": "1", "status": state}, Retry_After="0")

    def _issued(self, name: str) -> dict[str, str]:
        self.version += 1
        return {
            "configVersion": str(self.version),
            "configUrl": f"https://blobs.example/configs/{name}.json?sig=s1gnature-{self.version}",
            "configUrlExpires": "2026-02-27T10:00:00Z",
        }

    def _resource(self, name: str, *, whole: bool = True, state: str = "Succeeded") -> dict[str, Any]:
        condition = {"type": "Ready", "status": str(name in self.ready), "reason": "KubeletReady"}
        status: dict[str, Any] = {"conditions": [condition]}
        if name in self.ready:
            status["appliedConfigVersion"] = str(self.version)
        properties: dict[str, Any] = {"provisioningState": state, "configVersion": str(self.version)}
        if whole:
            properties["config"] = document_of(self.nodes[name])
        return {
            "id": f"{CLUSTER}/flexNodeConfig/{name}",
            "name": name,
            "properties": {**properties, "status": status},
        }


def document_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    """What a GET tells: the whole configuration, defaults filled in, secrets left out."""
    node, versions = properties.get("nodeConfig", {}), properties.get("versions", {})
    auth = properties.get("azureAuth", {})
    principal = {k: v for k, v in auth.get("servicePrincipal", {}).items() if k != "clientSecret"}
    return {
        "continuousMonitoring": properties.get("continuousMonitoring", False),
        "azure": {"tenantId": TENANT, **({"servicePrincipal": principal} if principal else {})},
        "kubernetesAuth": properties.get("kubernetesAuth", {}),
        "kubernetes": {"version": versions.get("kubernetes", "1.34.4")},
        "containerd": {"version": versions.get("containerd", "2.2.9")},
        "node": {
            "maxPods": node.get("maxPods", 110),
            "labels": {"kubernetes.azure.com/managed": "false", **node.get("labels", {})},
            "taints": node.get("taints", []),
            "kubelet": {"serverURL": "https://plant.example", **node.get("kubelet", {})},
        },
    }


def refusal(status: int, code: str, message: str, **headers: str) -> Answer:
    """An answer in Resource Manager's envelope."""
    return answer_json({"error": {"code": code, "message": message}}, status, **headers)
