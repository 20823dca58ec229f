# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP to the emulated Azure."""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

SECONDS = 15


class Refused(Exception):
    """An answer that says no; status 0 means that there was none."""

    def __init__(self, status: int, text: str, body: dict[str, Any] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.body = body or {}


def call(method: str, url: str, body: bytes | None = None, **headers: str) -> dict[str, Any]:
    """One request; TLS is checked against the system's CAs, as every program of the machine does."""
    request = urllib.request.Request(url, data=body, method=method)  # noqa: S310
    for name, value in headers.items():
        request.add_header(name.replace("_", "-"), value)
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=ssl.create_default_context())
    )
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            found = json.loads(answer.read() or b"{}")
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = {}
        raise Refused(error.code, text[:500] or str(error.reason), parsed) from error
    except (OSError, ValueError) as error:
        raise Refused(0, f"{url.partition('?')[0]}: {error}") from error
    return found if isinstance(found, dict) else {}


def token(authority: str, tenant: str, client_id: str, secret: str, resource: str) -> dict[str, Any]:
    """A token of an identity, in the form of a metadata service: every value is a text."""
    form = {
        "grant_type": "client_credentials",
        "client_id": client_id,
        "client_secret": secret,
        "scope": f"{resource.rstrip('/')}/.default",
    }
    issued = call(
        "POST",
        f"{authority}/{tenant}/oauth2/v2.0/token",
        urllib.parse.urlencode(form).encode(),
        Content_Type="application/x-www-form-urlencoded",
    )
    now, seconds = int(time.time()), int(issued["expires_in"])
    return {
        "access_token": issued["access_token"],
        "client_id": client_id,
        "expires_in": str(seconds),
        "expires_on": str(now + seconds),
        "ext_expires_in": str(seconds),
        "not_before": str(now - 300),
        "resource": resource,
        "token_type": "Bearer",
    }
