# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One GET over one TLS connection, for polls: a third of a poll's CPU time was the import of http.client.

No proxy, no redirect, no retry: where those are needed, `HttpClient` is.
"""

from __future__ import annotations

import socket
import ssl
import urllib.parse
from collections.abc import Mapping
from typing import IO, Any

from ..machine.clock import SystemClock
from .answer import AGENT, ERROR_BODY, MOST, HttpFailure, Response, is_number, retry_after
from .tls import no_answer

LINE = 64 << 10  # bytes of one header
LINES = 100
BODYLESS = (204, 304)
SAFE = "/?%:@!$&'()*+,;=~"  # in a URL as it is


class BrokenAnswer(Exception):
    """What came is not HTTP, or ended too early."""


class ShortHeaders(dict[str, str]):
    """Headers by their names in lower case."""

    def get(self, name: str, default: Any = None, /) -> Any:
        """One header, whatever the case of its name."""
        return super().get(name.lower(), default)


def short_get(
    url: str, headers: Mapping[str, str], *, context: ssl.SSLContext, timeout: float
) -> Response | None:
    """The answer; None: the server redirects. A status of 400 or more is a failure, 304 is not."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise HttpFailure(url, "only https:// URLs are fetched", final=True)
    try:
        with (
            socket.create_connection((parts.hostname, parts.port or 443), timeout) as line,
            context.wrap_socket(line, server_hostname=parts.hostname) as connection,
        ):
            connection.sendall(request_for(parts, headers))
            with connection.makefile("rb") as stream:
                status, reason, found = head_of(stream)
                body = body_of(stream, status, found)
    except (OSError, BrokenAnswer, UnicodeError) as error:
        raise no_answer(url, error) from None
    if status >= 400:
        raise HttpFailure(
            url,
            f"HTTP {status} {reason}",
            status=status,
            body=body[:ERROR_BODY],
            retry_after=retry_after(found, SystemClock().now()),
        )
    return None if 300 <= status < 400 and status != 304 else Response(status, found, body)


def request_for(parts: urllib.parse.SplitResult, headers: Mapping[str, str]) -> bytes:
    """The request. A header with a line break would smuggle another one in: it is an error."""
    target = urllib.parse.quote(parts.path or "/", safe=SAFE)
    if parts.query:
        target += f"?{urllib.parse.quote(parts.query, safe=SAFE)}"
    lines = [f"GET {target} HTTP/1.1"]
    sent = {
        "Host": parts.netloc.rpartition("@")[2],
        "User-Agent": AGENT,
        "Accept-Encoding": "identity",
        "Connection": "close",
        **headers,
    }
    lines += [f"{name}: {value}" for name, value in sent.items()]
    if any(not line.isprintable() for line in lines):
        raise BrokenAnswer("the URL or a header holds a control character")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def head_of(stream: IO[bytes]) -> tuple[int, str, ShortHeaders]:
    """The status with its reason, and the headers."""
    version, _space, rest = text_line(stream).partition(" ")
    status, _space, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or not is_number(status) or not 200 <= int(status) < 600:
        raise BrokenAnswer("the answer is not HTTP")
    headers = ShortHeaders()
    for _number in range(LINES):
        line = text_line(stream)
        if not line:
            return int(status), reason, headers
        name, colon, value = line.partition(":")
        if not colon:
            raise BrokenAnswer("the answer is not HTTP")
        headers[name.strip().lower()] = value.strip()
    raise BrokenAnswer(f"the answer has more than {LINES} headers")


def text_line(stream: IO[bytes]) -> str:
    """One line without its end."""
    line = stream.readline(LINE + 1)
    if not line.endswith(b"\n"):
        raise BrokenAnswer(
            "the answer broke off" if len(line) <= LINE else "a header of the answer is too long"
        )
    return line.decode("latin-1").rstrip("\r\n")


def body_of(stream: IO[bytes], status: int, headers: ShortHeaders) -> bytes:
    """The body: in chunks, of the announced length, or up to the end of the connection."""
    if status in BODYLESS:
        return b""
    if "chunked" in headers.get("Transfer-Encoding", "").lower():
        return chunks_of(stream)
    announced = headers.get("Content-Length")
    if announced is None:
        return bounded(stream.read(MOST + 1))
    if not is_number(announced):
        raise BrokenAnswer("the answer is not HTTP")
    if int(announced) > MOST:
        raise BrokenAnswer(f"the answer is larger than {MOST >> 20} MiB")
    return exactly(stream, int(announced))


def chunks_of(stream: IO[bytes]) -> bytes:
    """A body that comes in chunks, each with its length in front."""
    body = b""
    while True:
        length = text_line(stream).partition(";")[0].strip()
        try:
            size = int(length, 16)
        except ValueError:
            raise BrokenAnswer("the answer is not HTTP") from None
        if size < 0 or len(body) + size > MOST:
            raise BrokenAnswer(f"the answer is larger than {MOST >> 20} MiB")
        if size == 0:  # trailers, if any, are of no use
            return body
        body += exactly(stream, size)
        text_line(stream)


def exactly(stream: IO[bytes], size: int) -> bytes:
    """As many bytes as were announced."""
    body = stream.read(size)
    if len(body) < size:
        raise BrokenAnswer(f"the answer broke off at {len(body)} of {size} bytes")
    return body


def bounded(body: bytes) -> bytes:
    """A body that is not too large."""
    if len(body) > MOST:
        raise BrokenAnswer(f"the answer is larger than {MOST >> 20} MiB")
    return body
