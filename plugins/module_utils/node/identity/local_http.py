# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to a metadata service on this machine: plain HTTP, never a proxy, never a redirect."""

from __future__ import annotations

import http.client
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message

MOST = 256 << 10


class NoAnswer(Exception):
    """Nobody answers, or not in time; the text says which."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Any answer, whatever its status. Header names have no case."""

    status: int
    headers: Message
    body: bytes


def ask(url: str, headers: Mapping[str, str], timeout: float) -> Reply:
    """One GET."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}", headers=dict(headers))
        answer = connection.getresponse()
        return Reply(answer.status, answer.headers, answer.read(MOST))
    except TimeoutError as error:
        raise NoAnswer(f"no answer within {timeout:g} s") from error
    except OSError as error:
        raise NoAnswer(error.strerror or str(error)) from error
    except http.client.HTTPException as error:
        raise NoAnswer(f"the answer broke off ({type(error).__name__})") from error
    finally:
        connection.close()
