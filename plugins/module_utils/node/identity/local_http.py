# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests to a metadata service on this machine: plain HTTP, no proxy, no redirect."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
import urllib.parse
from collections.abc import Mapping

from ..dataclass import dataclass
from ..net.answer import Headers

MOST = 256 << 10


class NoAnswer(Exception):
    """No answer, or not in time; the text says which."""


@dataclass(frozen=True)
class Reply:
    """An answer of any status. Header names are case-insensitive."""

    status: int
    headers: Headers
    body: bytes


def ask(url: str, headers: Mapping[str, str], timeout: float) -> Reply:
    """One GET; `timeout` limits the whole request, also a slow answer."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)
    late = threading.Event()
    opened: list[socket.socket] = []

    def end() -> None:
        late.set()
        for sock in opened:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(timeout, end)
    timer.daemon = True
    timer.start()
    try:
        connection.connect()
        opened.append(connection.sock)
        if late.is_set():
            raise TimeoutError
        connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers))
        answer = connection.getresponse()
        body = answer.read(MOST)
        if late.is_set():
            raise TimeoutError
        return Reply(answer.status, answer.headers, body)
    except (OSError, http.client.HTTPException) as error:
        if late.is_set() or isinstance(error, TimeoutError):
            raise NoAnswer(f"no answer within {timeout:g} s") from error
        if isinstance(error, OSError):
            raise NoAnswer(error.strerror or str(error)) from error
        raise NoAnswer(f"the answer broke off ({type(error).__name__})") from error
    finally:
        timer.cancel()
        connection.close()
