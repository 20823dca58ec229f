# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a request ends: an answer, or a failure in words that hold no secret."""

from __future__ import annotations

import urllib.parse
from typing import Any, Protocol

from ..dataclass import dataclass

RETRIED = frozenset((408, 425, 429, 500, 502, 503, 504))
AGENT = "aks-flex-node"
MOST = 16 << 20  # bytes of one answer
ERROR_BODY = 64 << 10  # bytes of an answer that is an error


class Headers(Protocol):
    """The headers of an answer; names in any case."""

    def get(self, name: str, failobj: Any = None, /) -> Any: ...


class HttpFailure(Exception):
    """No usable answer. `reason` is in words; the URL is shown without its query."""

    def __init__(
        self,
        url: str,
        reason: str,
        *,
        status: int = 0,
        tls: bool = False,
        body: bytes = b"",
        retry_after: float = 0,
        advice: str = "",
        final: bool = False,
        out_of_time: bool = False,
    ) -> None:
        super().__init__(f"{shown(url)}: {reason}")
        self.advice = advice  # what to do, where the failure determines it
        self.url, self.reason, self.status, self.tls = shown(url), reason, status, tls
        self.body, self.retry_after = body, retry_after
        # The server's certificate is not valid now: of `tls` the case that a wrong clock causes, too.
        self.out_of_time = out_of_time
        # Retrying can't help: the server or this client refuses.
        self.final = final or tls or (status != 0 and status not in RETRIED)


@dataclass(frozen=True)
class Response:
    """An answer with its body."""

    status: int
    headers: Headers
    body: bytes


def shown(url: str) -> str:
    """A URL as it may be printed: without its query and user info, which may be secrets."""
    parts = urllib.parse.urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urllib.parse.urlunsplit((parts.scheme, host, parts.path, "…" if parts.query else "", ""))


def retry_after(value: str) -> float:
    """Retry-After in seconds; 0 for a date or an invalid value: then the client's own back-off applies."""
    return float(value) if value.isdigit() else 0.0
