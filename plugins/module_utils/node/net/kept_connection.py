# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One connection for many requests to one server: whoever waits for a Node asks often."""

from __future__ import annotations

import http.client
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from typing import Any

from ..machine.clock import Clock
from .answer import AGENT, ERROR_BODY, HttpFailure, retry_after
from .retries import Retries
from .tls import no_answer


class KeptConnection(Retries):
    """HTTPS to one server, without proxy and without redirects. Reconnects when the server has hung up.

    Each thread has a connection of its own.
    """

    broken = (OSError, http.client.HTTPException, UnicodeError)  # the last one: not the name of a host

    def __init__(
        self, *, context: ssl.SSLContext, clock: Clock | None = None, timeout: float = 10, attempts: int = 3
    ) -> None:
        super().__init__(clock=clock, timeout=timeout, attempts=attempts)
        self._context = context
        self._of_thread = threading.local()

    @property
    def _connection(self) -> http.client.HTTPSConnection | None:
        return getattr(self._of_thread, "connection", None)

    @_connection.setter
    def _connection(self, connection: http.client.HTTPSConnection | None) -> None:
        self._of_thread.connection = connection

    def _once(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        parts = urllib.parse.urlsplit(url)
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        sent = {"User-Agent": AGENT, **headers}
        kept = self._connection is not None
        try:
            answer = self._exchange(parts.netloc, method, target, body, sent)
        except self.broken as error:
            self._close()
            if kept:  # the server closed it meanwhile: that says nothing about this request
                return self._once(method, url, body, headers)
            raise no_answer(url, error) from None
        if answer.status < 400:
            return answer
        content = answer.read(ERROR_BODY)
        if not answer.isclosed():
            self._close()
        raise HttpFailure(
            url,
            f"HTTP {answer.status} {answer.reason}",
            status=answer.status,
            body=content,
            retry_after=retry_after(answer.headers, self._clock.now()),
        )

    def _exchange(
        self, host: str, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        connection = self._connection
        if connection is None:
            connection = http.client.HTTPSConnection(host, timeout=self._timeout, context=self._context)
            self._connection = connection
        connection.request(method, target, body=body, headers=dict(headers))
        return connection.getresponse()

    def _close(self) -> None:
        if (connection := self._connection) is not None:
            connection.close()
        self._connection = None
