# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Blob storage in memory, as far as bundles need it. Signatures are not checked; Azurite does that."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from tests.unit.node.servers import Answer, Pki, Request, Server, one_at_a_time, serving

ACCOUNT, KEY = "flexnodeblobs", "cGxhbnRlZC1hY2NvdW50LWtleQ=="
DATE = "Mon, 27 Jul 2026 12:28:53 GMT"
NO_POLICIES = '<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers></SignedIdentifiers>'


@dataclass
class FakeBlob:
    """Containers with their policies (XML as it came) and blobs."""

    policies: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    writes: int = 0
    refuse: tuple[int, str] | None = None
    inactive: int = 0  # how often an address is refused, though its policy is there
    server: Server = field(default_factory=lambda: Server(""))

    @property
    def url(self) -> str:
        return f"{self.server.url}/{ACCOUNT}"

    @contextmanager
    def running(self, pki: Pki) -> Iterator[FakeBlob]:
        """Listen for as long as the block lasts."""
        with serving(one_at_a_time(self.answer), pki.server_context()) as server:
            self.server = server
            yield self

    def answer(self, request: Request) -> Answer:
        """One request."""
        if self.refuse:
            return failure(*self.refuse)
        if "sig" in parse_qs(urlsplit(request.path).query):
            return self._by_address(request)
        assert request.headers["Authorization"].startswith(f"SharedKey {ACCOUNT}:")
        parts = urlsplit(request.path)
        container, _slash, blob = parts.path.removeprefix(f"/{ACCOUNT}/").partition("/")
        query = parse_qs(parts.query)
        if query.get("restype") == ["container"]:
            return self._container(request, container, acl="acl" in query.get("comp", ()))
        if container not in self.policies:
            return failure(404, "ContainerNotFound")
        return self._blob(request, f"{container}/{blob}")

    def _by_address(self, request: Request) -> Answer:
        assert "Authorization" not in request.headers
        assert request.method == "HEAD"
        parts = urlsplit(request.path)
        name = parts.path.removeprefix(f"/{ACCOUNT}/")
        (policy,) = parse_qs(parts.query)["si"]
        if self.inactive > 0 or policy not in self.policy_ids(name.partition("/")[0]):
            self.inactive -= 1
            return Answer(b"", 403, {"x-ms-error-code": "AuthenticationFailed"})
        return Answer(b"", 200 if name in self.blobs else 404, {"ETag": self.etag, "Last-Modified": DATE})

    def _container(self, request: Request, name: str, *, acl: bool) -> Answer:
        if request.method == "PUT" and not acl:
            if name in self.policies:
                return failure(409, "ContainerAlreadyExists")
            self.policies[name] = NO_POLICIES
            return done(201)
        if name not in self.policies:
            return failure(404, "ContainerNotFound")
        if request.method == "PUT":
            self.policies[name] = request.body.decode() or NO_POLICIES
            return done(200)
        text = self.policies[name].encode()
        return Answer(text, 200, {"Content-Type": "application/xml", "ETag": '"c"', "Last-Modified": DATE})

    def _blob(self, request: Request, name: str) -> Answer:
        known = self.blobs.get(name)
        if request.method == "PUT":
            expected = request.headers.get("If-Match")
            if (expected and expected != self.etag) or (
                "If-None-Match" in request.headers and known is not None
            ):
                return failure(412, "ConditionNotMet")
            self.blobs[name] = request.body
            self.writes += 1
            return done(201, self.etag)
        if known is None:
            return failure(404, "BlobNotFound")
        if request.method == "DELETE":
            del self.blobs[name]
            return done(202)
        whole = f"bytes 0-{len(known) - 1}/{len(known)}"
        headers = {
            "ETag": self.etag,
            "Last-Modified": DATE,
            "Content-Range": whole,
            "x-ms-blob-type": "BlockBlob",
        }
        return Answer(known, 206, headers)

    @property
    def etag(self) -> str:
        """It changes with every write, of any blob."""
        return f'"0x{self.writes}"'

    def policy_ids(self, container: str) -> list[str]:
        """The policies that a container has."""
        return re.findall("<Id>(.*?)</Id>", self.policies.get(container, ""))


def done(status: int, etag: str = '"c"') -> Answer:
    return Answer(b"", status, {"ETag": etag, "Last-Modified": DATE, "x-ms-request-server-encrypted": "true"})


def failure(status: int, code: str) -> Answer:
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{code}</Message></Error>'
    )
    return Answer(body.encode(), status, {"x-ms-error-code": code, "Content-Type": "application/xml"})
