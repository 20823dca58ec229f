# SPDX-License-Identifier: GPL-3.0-or-later
"""A small TLS file server: standard library only, keep-alive, ranges, ETags, a request log, faults.

It runs inside the services container: python3 -m testbed.mirror.server DIRECTORY PORT
DIRECTORY holds tls.crt, tls.key and index.json (URL path -> {"file", "sha256"}); it writes requests.jsonl
there and reads faults.json.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
import threading
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from testbed.mirror.faults import Fault, FaultBook

BLOCK = 1 << 20
IDLE_SECONDS = 60


@dataclass(frozen=True)
class Body:
    """The part of a file that an answer carries."""

    file: Path
    start: int
    length: int
    size: int


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """(start, length) of a range header; None for the whole file; ValueError if there is no such part."""
    found = re.fullmatch(r"bytes=(\d*)-(\d*)", header or "")
    if not found or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        raise ValueError(header)
    return start, end - start + 1


class Index:
    """The served files, read again whenever the index changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._files: dict[str, dict[str, str]] = {}

    def find(self, path: str) -> dict[str, str] | None:
        """The entry of a URL path."""
        stat = self._path.stat()
        seen = (stat.st_mtime_ns, stat.st_ino)
        if seen != self._seen:
            self._files = json.loads(self._path.read_text(encoding="utf-8"))
            self._seen = seen
        return self._files.get(path)


class Server(ThreadingHTTPServer):
    """The listening side: the TLS handshake runs in the connection's own thread."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(("", port), Handler)
        self.index = Index(directory / "index.json")
        self.faults = FaultBook(directory / "faults.json")
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        self.lock = threading.Lock()
        self._log = (directory / "requests.jsonl").open("a", buffering=1, encoding="utf-8")

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Wrap the connection, then serve it."""
        request.settimeout(IDLE_SECONDS)
        try:
            with self.tls.wrap_socket(request, server_side=True) as secure:
                Handler(secure, client_address, self)
        except OSError:
            return  # the client went away or does not trust us: its own error says so

    def record(self, entry: dict[str, Any]) -> None:
        """Append one line to the request log."""
        with self.lock:
            self._log.write(json.dumps(entry) + "\n")


class Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        """Answer with a file."""
        self._answer(send_body=True)

    def do_HEAD(self) -> None:
        """Answer with a file's headers."""
        self._answer(send_body=False)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the console: the request log has it."""

    def _answer(self, send_body: bool) -> None:
        began = time.time()
        path = unquote(urlsplit(self.path).path)
        with self.server.lock:
            entry = self.server.index.find(path)
            fault = self.server.faults.pick(path)
        if fault and fault.delay:
            time.sleep(fault.delay)
        status, sent = self._respond(entry, fault, send_body)
        self.server.record(
            {
                "time": round(began, 3),
                "client": self.client_address[0],
                "method": self.command,
                "path": path,
                "status": int(status),
                "bytes": sent,
                "seconds": round(time.time() - began, 4),
            }
        )

    def _respond(
        self, entry: dict[str, str] | None, fault: Fault | None, send_body: bool
    ) -> tuple[HTTPStatus, int]:
        if fault and fault.status:
            return self._empty(HTTPStatus(fault.status))
        if entry is None or not (file := Path(entry["file"])).is_file():
            return self._empty(HTTPStatus.NOT_FOUND)
        etag = f'"{entry["sha256"]}"'
        if self.headers.get("If-None-Match") == etag:
            return self._empty(HTTPStatus.NOT_MODIFIED, ETag=etag)
        size = file.stat().st_size
        try:
            part = byte_range(self.headers.get("Range"), size)
        except ValueError:
            return self._empty(
                HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, **{"Content-Range": f"bytes */{size}"}
            )
        start, length = part or (0, size)
        status = HTTPStatus.PARTIAL_CONTENT if part else HTTPStatus.OK
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("ETag", etag)
        if part:
            self.send_header("Content-Range", f"bytes {start}-{start + length - 1}/{size}")
        self.end_headers()
        return status, self._send(Body(file, start, length, size), fault) if send_body else 0

    def _empty(self, status: HTTPStatus, **headers: str) -> tuple[HTTPStatus, int]:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", "0")
        self.end_headers()
        return status, 0

    def _send(self, body: Body, fault: Fault | None) -> int:
        left = body.length
        if fault and fault.truncate is not None and fault.truncate < left:
            left = fault.truncate
            self.close_connection = True
        sent = 0
        with body.file.open("rb", buffering=0) as stream:
            stream.seek(body.start)
            while left > 0 and (block := stream.read(min(BLOCK, left))):
                if fault and fault.corrupt and sent == 0:
                    block = bytes([block[0] ^ 0xFF]) + block[1:]
                self.wfile.write(block)
                left -= len(block)
                sent += len(block)
        return sent


def main() -> None:
    """Serve until ended."""
    directory, port = Path(sys.argv[1]), int(sys.argv[2])
    Server(directory, port).serve_forever()


if __name__ == "__main__":
    main()
