# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests with retries, whatever sends them. Imports no HTTP client: each is slow to import."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from ..machine.clock import Clock, SystemClock
from .answer import COPY_URL, MOST, HttpFailure, Response, is_number, unusable
from .tls import in_words

LONGEST_WAIT = 60.0  # seconds; a server that asks for more has failed


class Retries(ABC):
    """Time-outs, retries, Retry-After, and answers of a bounded size."""

    broken: tuple[type[Exception], ...] = (OSError,)  # how an answer breaks off

    def __init__(
        self, *, clock: Clock | None, timeout: float, attempts: int, jitter: Callable[[], float] | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._attempts = attempts
        self._jitter = jitter or spread

    @abstractmethod
    def _once(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        """Send one request; an open answer, or HttpFailure."""

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        attempts: int = 0,
    ) -> Response:
        """One answer of at most 16 MiB, after retries; a status of 400 or more is a failure, 304 is not."""
        try:
            with self.open(method, url, body=body, headers=headers, attempts=attempts) as answer:
                body = answer.read(MOST + 1)
                if len(body) > MOST:
                    raise HttpFailure(url, f"the answer is larger than {MOST >> 20} MiB", final=True)
                length = str(answer.headers.get("Content-Length") or "")
                known = answer.status != 304 and is_number(length)
                announced = int(length) if known else 0
                if len(body) < announced:  # read() itself does not raise
                    raise HttpFailure(url, f"the answer broke off at {len(body)} of {announced} bytes")
                return Response(answer.status, answer.headers, body)
        except self.broken as error:
            raise HttpFailure(url, f"the answer broke off: {in_words(error)}") from error

    def open(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        attempts: int = 0,
    ) -> Any:
        """An open answer to read from. attempts: instead of the client's own number."""
        if fault := unusable(url):
            raise HttpFailure(url, fault, advice=COPY_URL, final=True)
        attempts = attempts or self._attempts
        for attempt in range(1, attempts + 1):
            try:
                return self._once(method, url, body, headers or {})
            except HttpFailure as failure:
                if failure.retry_after > LONGEST_WAIT and not failure.final:
                    # To ask earlier than told would prolong it; who called knows what else can wait.
                    again = f"the server asks to wait {failure.retry_after:.0f} s: run this again then"
                    failure.advice = failure.advice or again
                    raise
                if failure.final or attempt == attempts:
                    raise
                self._clock.sleep(failure.retry_after or 0.5 * 2 ** (attempt - 1) * self._jitter())
        raise AssertionError("unreachable: the last attempt returns or raises")


def spread() -> float:
    """A random factor for pauses, 0.5 to 1.5, so that the nodes of a site do not all retry at one moment."""
    return 0.5 + os.urandom(1)[0] / 255
