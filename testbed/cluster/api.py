# SPDX-License-Identifier: GPL-3.0-or-later
"""A small client of the Kubernetes API: JSON in, JSON out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import requests

from testbed.basics.errors import TestbedError
from testbed.layout.pki import Pair

SECONDS = 30


class ApiError(TestbedError):
    """The API server said no."""

    def __init__(self, status: int, method: str, path: str, message: str) -> None:
        self.status = status
        super().__init__(f"API server answered {status} to {method} {path}: {message}")


class Api:
    """The API server, for the bearer of a certificate or a token."""

    def __init__(
        self, server: str, ca_file: Path, identity: Pair | None = None, *, token: str | None = None
    ) -> None:
        self._server = server
        self._session = requests.Session()
        self._session.trust_env = False  # a CA bundle of the machine does not have the cluster's CA
        self._session.verify = str(ca_file)
        if identity:
            self._session.cert = (str(identity.cert), str(identity.key))
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str, **params: str) -> dict[str, Any]:
        """Read an object or a list."""
        return self._call("GET", path, params=params)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create an object."""
        return self._call("POST", path, body=body)

    def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Replace an object."""
        return self._call("PUT", path, body=body)

    def patch(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Merge into an object."""
        return self._call("PATCH", path, body=body, content_type="application/merge-patch+json")

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create or update an object; fields that others added to it stay."""
        params = {"fieldManager": "testbed", "force": "true"}
        return self._call(
            "PATCH", path, params=params, body=body, content_type="application/apply-patch+yaml"
        )

    def delete(self, path: str, **params: str) -> dict[str, Any]:
        """Delete an object."""
        return self._call("DELETE", path, params=params)

    def text(self, path: str) -> str:
        """Read something that is not JSON, e.g. a pod's log."""
        return self._request("GET", path).text

    def _call(self, method: str, path: str, **rest: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._request(method, path, **rest).json()
        return found

    def _request(
        self,
        method: str,
        path: str,
        params: dict[str, str] | None = None,
        body: dict[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> requests.Response:
        headers = {"Content-Type": content_type} if body is not None else {}
        url = f"{self._server}{path}"
        answer = self._session.request(
            method, url, params=params, json=body, headers=headers, timeout=SECONDS
        )
        if not answer.ok:
            raise ApiError(answer.status_code, method, path, _message(answer))
        return answer


def _message(answer: requests.Response) -> str:
    try:
        return str(answer.json().get("message", ""))
    except ValueError:
        return answer.text[:300]
