# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An API server for tests of tokens: Nodes, bindings and Secrets in memory, behind real TLS."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.unit.node.servers import Answer, Pki, Request, Server, answer_json, one_at_a_time, serving

RBAC = "/apis/rbac.authorization.k8s.io/v1"
SECRETS = "/api/v1/namespaces/kube-system/secrets"


@dataclass
class FakeCluster:
    """What the API server knows, by path and name."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)  # path/name -> object
    refuse: dict[str, int] = field(default_factory=dict)  # the beginning of a request -> a status
    meanwhile: dict[str, dict[str, Any]] = field(default_factory=dict)  # what another run makes at that time
    bearers: set[str] = field(default_factory=set)
    server: Server = field(default_factory=lambda: Server(""))

    @contextmanager
    def running(self, pki: Pki) -> Iterator[FakeCluster]:
        """Listen for as long as the block lasts."""
        with serving(one_at_a_time(self.answer), pki.server_context()) as server:
            self.server = server
            yield self

    def asked(self, method: str) -> int:
        """How often."""
        return sum(request.method == method for request in self.server.requests)

    @property
    def tokens(self) -> dict[str, str]:
        """Node -> id of each token Secret."""
        found = (one for path, one in self.objects.items() if path.startswith(SECRETS))
        return {
            one["metadata"]["annotations"]["aks.flexnode/node"]: one["stringData"]["token-id"]
            for one in found
        }

    def kubeconfig(self, pki: Pki) -> dict[str, Any]:
        """An administrator's, with a token."""
        ca = b64encode(pki.ca_pem.encode()).decode()
        return {
            "current-context": "lab",
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
            "clusters": [
                {"name": "lab", "cluster": {"server": self.server.url, "certificate-authority-data": ca}}
            ],
            "users": [{"name": "me", "user": {"token": "admin-token"}}],
        }

    def answer(self, request: Request) -> Answer:
        """One request."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.bearers.add(headers.get("authorization", ""))
        path = urlsplit(request.path).path
        for start, status in self.refuse.items():
            if f"{request.method} {path}".startswith(start):
                return answer_json({"kind": "Status", "message": f"refused by the test ({status})"}, status)
        if request.method == "POST":
            body = json.loads(request.body)
            place = f"{path}/{body['metadata']['name']}"
            self.objects |= self.meanwhile
            if place in self.objects:
                return answer_json({"kind": "Status", "message": "already exists"}, 409)
            self.objects[place] = body
            return answer_json(body, 201)
        if request.method == "PUT":
            body, found = json.loads(request.body), self.objects.get(path)
            version = int((found or {}).get("metadata", {}).get("resourceVersion", 1))
            if found is None or body["metadata"].get("resourceVersion", "1") != str(version):
                return answer_json({"kind": "Status", "message": "modified"}, 409 if found else 404)
            body["metadata"]["resourceVersion"] = str(version + 1)
            self.objects[path] = body
            return answer_json(self.objects[path])
        if request.method == "DELETE":
            found = self.objects.pop(path, None)
            return answer_json(found or {"message": "not found"}, 200 if found else 404)
        if path.startswith("/api/v1/nodes/"):
            node = self.nodes.get(path.rpartition("/")[2])
            return answer_json(node or {"kind": "Status", "message": "not found"}, 200 if node else 404)
        if path in self.objects:
            return answer_json(self.objects[path])
        of_cluster = path.startswith(f"{RBAC}/clusterrole") and path.count("/") > 4
        if of_cluster or re.search(r"/namespaces/[^/]+/(roles|rolebindings|configmaps)/", path):
            return answer_json({"kind": "Status", "message": "not found"}, 404)
        return self._list(path, parse_qs(urlsplit(request.path).query))

    def _list(self, path: str, query: dict[str, list[str]]) -> Answer:
        """Pages of two, whatever the limit: what is listed must not end at the first."""
        if path == "/api/v1/nodes":
            items = list(self.nodes.values())
        else:
            key, _equals, value = query.get("labelSelector", [""])[0].partition("=")
            items = [
                one
                for place, one in self.objects.items()
                if place.rpartition("/")[0] == path
                and (not key or one["metadata"].get("labels", {}).get(key) == (value or "true"))
            ]
        start = int(query.get("continue", ["0"])[0])
        metadata = {"continue": str(start + 2)} if start + 2 < len(items) else {}
        return answer_json({"items": items[start : start + 2], "metadata": metadata})
