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
COPY_URL = "copy the URL again, whole and on one line; other characters are written as %XX, a space as %20"


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


def unusable(url: str) -> str:
    """Why a URL can't be requested; empty: it can. The words of http.client quote the query, a secret."""
    if any(sign.isspace() or not sign.isprintable() for sign in url):
        return "the URL contains a space or a control character"
    parts = urllib.parse.urlsplit(url)
    if not (parts.path + parts.query).isascii():
        return "the URL contains a character that is not ASCII"
    try:
        return "the port of the URL is 0" if parts.port == 0 else ""
    except ValueError:
        return "the port of the URL is not a port"


def is_number(text: str) -> bool:
    """Whether Python reads this as a number: it refuses superscripts, which are digits, and long numbers."""
    return text.isdecimal() and len(text) < 20


def retry_after(headers: Headers, now: float) -> float:
    """Seconds that a server asks to wait; 0: it does not say, and the client's own back-off applies.

    A date is compared with the server's clock, where the answer has it: that of this machine may be wrong.
    """
    value = str(headers.get("Retry-After") or "").strip()
    if not value or value.isdecimal():
        return float(value or 0)
    until, there = _seconds(value), _seconds(str(headers.get("Date") or ""))
    return max(until - (there or now), 0.0)


def wait_asked(error: BaseException | None) -> float:
    """Seconds that the server behind an error asks to wait; 0: none is behind it, or it does not say."""
    while error is not None:
        if isinstance(error, HttpFailure):
            return error.retry_after
        error = error.__cause__
    return 0.0


def _seconds(date: str) -> float:
    """The date of a header, in seconds since the epoch; 0: it is not a date."""
    if not date:
        return 0.0
    from email.utils import parsedate_to_datetime  # slow to import

    try:
        return parsedate_to_datetime(date).timestamp()
    except (TypeError, ValueError, OverflowError):
        return 0.0
