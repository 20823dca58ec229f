# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Azure for tests of a polling node, behind real TLS: tokens, one flexNodeConfig resource, its bundles."""

from __future__ import annotations

import base64
import json
import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from tests.unit.node.config.test_samples import CLUSTER, TENANT
from tests.unit.node.servers import Answer, Request, Server, answer_json

NODE = "edge-1"
RESOURCE = f"{CLUSTER}/flexNodeConfig/{NODE}"
ASSIGNMENTS = "/providers/Microsoft.Authorization/roleAssignments"
SECRETS = ("clientSecret", "bootstrapToken")


def arm_error(status: int, code: str, message: str = "it was refused") -> Answer:
    """An error as Azure Resource Manager answers it."""
    return answer_json({"error": {"code": code, "message": message}}, status)


PLANT = "Microsoft.ContainerService/managedClusters/plant"


def not_found(kind: str = f"{PLANT}/flexNodeConfig/{NODE}") -> Answer:
    """A resource that does not exist."""
    return arm_error(
        404, "ResourceNotFound", f"The Resource '{kind}' under resource group 'rg' was not found."
    )


def a_token(oid: str, number: int) -> str:
    """A token that names its owner."""
    payload = base64.urlsafe_b64encode(json.dumps({"oid": oid, "tid": TENANT}).encode()).rstrip(b"=").decode()
    return f"head.{payload}.{number}"


def without_secrets(content: Any) -> Any:
    """As the provider shows a configuration."""
    if isinstance(content, dict):
        return {key: without_secrets(value) for key, value in content.items() if key not in SECRETS}
    return content


@dataclass
class FakeArm:
    """Entra ID, Azure Resource Manager and a blob store on one port. `answers` replaces an answer."""

    document: dict[str, Any]
    version: int = 17
    state: str = "Succeeded"
    deleted: bool = False
    secrets: set[str] = field(default_factory=set)  # client secrets that Entra accepts
    oid: str = "11111111-aaaa-bbbb-cccc-222222222222"
    issued: int = 0
    revoked: set[str] = field(default_factory=set)  # tokens that Resource Manager refuses
    answers: dict[str, Answer] = field(default_factory=dict)  # by "METHOD /path"
    assignments: dict[str, dict[str, Any]] = field(default_factory=dict)  # by id
    seconds: int = 3600
    long_running: bool = False
    server: Server = field(default_factory=lambda: Server(""))

    def __call__(self, request: Request) -> Answer:
        """One request."""
        path = urllib.parse.urlsplit(request.path).path
        if (given := self.answers.get(f"{request.method} {path}")) is not None:
            return given
        if path.endswith("/oauth2/v2.0/token"):
            return self._token(request)
        if path == "/blob/config.json":
            return Answer(self.bundle)
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not token.startswith("head.") or token in self.revoked:
            return arm_error(401, "ExpiredAuthenticationToken")
        if path == CLUSTER:
            return answer_json({"id": CLUSTER, "name": "plant"})
        if path == RESOURCE:
            return self._resource()
        if path == f"{RESOURCE}/regenerateToken" and request.method == "POST":
            return self._regenerate()
        if path == "/operations/1":
            self.long_running = False
            return self._regenerate()
        if ASSIGNMENTS in path:
            return self._assignment(request, path)
        return arm_error(404, "InvalidResourceType")

    @property
    def bundle(self) -> bytes:
        """What is behind the configUrl, secrets included."""
        return json.dumps({"config": self.document, "configVersion": str(self.version)}).encode()

    @property
    def url(self) -> str:
        """The configUrl."""
        return f"{self.server.url}/blob/config.json?sig=s3cret"

    def publish(self, *changes: dict[str, Any]) -> None:
        """PUT: a new document, with a new version."""
        for change in changes:
            self.document = merge(self.document, change)
        self.version += 1

    def asked(self, start: str) -> int:
        """How often a request with this beginning arrived."""
        return sum(one.startswith(start) for one in self.server.asked)

    def _token(self, request: Request) -> Answer:
        form = dict(urllib.parse.parse_qsl(request.body.decode()))
        if form.get("client_secret") not in self.secrets:
            about = "AADSTS7000215: Invalid client secret provided."
            return answer_json({"error": "invalid_client", "error_description": about}, 401)
        self.issued += 1
        token = a_token(self.oid, self.issued)
        return answer_json({"access_token": token, "expires_in": self.seconds, "token_type": "Bearer"})

    def _resource(self) -> Answer:
        if self.deleted:
            return not_found()
        properties = {
            "provisioningState": self.state,
            "configVersion": str(self.version),
            "config": without_secrets(self.document),
            "status": {"conditions": [], "lastSeen": str(len(self.server.requests))},
        }
        return answer_json({"id": RESOURCE, "name": NODE, "properties": properties})

    def _regenerate(self) -> Answer:
        if self.long_running:
            headers = {"Location": f"{self.server.url}/operations/1", "Retry-After": "1"}
            return Answer(b"", 202, headers)
        self.version += 1
        return answer_json({"configVersion": str(self.version), "configUrl": self.url})

    def _assignment(self, request: Request, path: str) -> Answer:
        if request.method == "DELETE":
            return Answer(b"{}", 200 if self.assignments.pop(path, None) else 204)
        return answer_json({"value": list(self.assignments.values())})


@dataclass
class FakeMetadata:
    """IMDS of a VM, or the Arc agent's HIMDS with its challenge, at /metadata/identity/oauth2/token."""

    oid: str
    tokens: Path | None = None  # where HIMDS writes its challenges; None: it is IMDS
    issued: int = 0

    def __call__(self, request: Request) -> Answer:
        """One request."""
        assert request.headers["Metadata"] == "true"
        if self.tokens:
            challenge = self.tokens / "challenge.key"
            if "Authorization" not in request.headers:
                self.tokens.mkdir(parents=True, exist_ok=True)
                challenge.write_text("s3same")
                realm = "Basic realm=/var/opt/azcmagent/tokens/challenge.key"
                return Answer(b"", 401, {"WWW-Authenticate": realm})
            assert request.headers["Authorization"] == "Basic s3same"
            challenge.unlink()
        self.issued += 1
        return answer_json({"access_token": a_token(self.oid, self.issued), "expires_in": "3600"})
