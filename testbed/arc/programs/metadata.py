# SPDX-License-Identifier: GPL-3.0-or-later
"""A metadata service: what HIMDS and IMDS have in common."""

from __future__ import annotations

import json
import time
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .azure_http import Refused
from .settings import faults

PATH = "/metadata/identity/oauth2/token"


class Answer(Exception):
    """An answer other than a token, raised from wherever that is known."""

    def __init__(self, status: int, error: str, description: str = "", **headers: str) -> None:
        super().__init__(error)
        self.status = status
        self.body = {"error": error, "error_description": description}
        self.headers = headers


Give = Callable[[str, dict[str, str], dict[str, str]], dict[str, Any]]


def serve(name: str, address: str, port: int, give: Give) -> None:
    """Serve until ended. `give` gets resource, query and headers (names in small letters)."""
    listener(name, address, port, give).serve_forever()


def listener(name: str, address: str, port: int, give: Give) -> ThreadingHTTPServer:
    """A server that is ready to run."""
    shown: dict[str, int] = {}

    def wrong(fault: dict[str, Any]) -> None:
        """{"status": 410, "times": 3, "retry_after": 1}, {"seconds": 5}, {"down": true}."""
        time.sleep(float(fault.get("seconds", 0)))
        if fault.get("down"):
            raise ConnectionError("configured to be down")
        key = json.dumps(fault, sort_keys=True)
        if "status" in fault and shown.setdefault(key, 0) < int(fault.get("times", 1 << 30)):
            shown[key] += 1
            later = {"Retry_After": str(fault["retry_after"])} if "retry_after" in fault else {}
            raise Answer(int(fault["status"]), "testbed", "The testbed was configured to answer so.", **later)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(parts.query))
            headers = {key.lower(): value for key, value in self.headers.items()}
            try:
                wrong(faults(name))
                self._answer(200, self._token(parts.path, query, headers))
            except Answer as answer:
                self._answer(answer.status, answer.body, answer.headers)
            except Refused as error:
                self._answer(
                    500, {"error": "unknown", "error_description": f"Failed to get a token: {error}"}
                )
            except ConnectionError:
                self.close_connection = True

        def _token(self, path: str, query: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
            if path != PATH:
                raise Answer(404, "not_found")
            if headers.get("metadata", "").lower() != "true" or "x-forwarded-for" in headers:
                raise Answer(400, "bad_request_102", "Required metadata header not specified")
            if not query.get("api-version"):
                raise Answer(400, "bad_request", "The api-version parameter is needed")
            if not query.get("resource"):
                raise Answer(400, "invalid_request", "Required query variable 'resource' is missing")
            issued = give(query["resource"], query, headers)
            if faults(name).get("expired"):
                issued |= {"expires_in": "-60", "expires_on": str(int(time.time()) - 60)}
            return issued

        def _answer(self, status: int, body: dict[str, Any], more: dict[str, str] | None = None) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            for key, value in (more or {}).items():
                self.send_header(key.replace("_", "-"), value)
            self.send_header("Content-Type", "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """No log: paths hold no secret, but no test reads them."""

    return ThreadingHTTPServer((address, port), Handler)
