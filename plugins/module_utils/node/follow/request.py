# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One request of a poll: one attempt, because the next poll is the next one; cheap TLS first."""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext

from ..machine.host import Host
from ..net.answer import HttpFailure, Response
from ..net.short_request import short_get
from ..net.tls import quick_context
from ..sources.watched import Watched

TIMEOUT = 10.0  # seconds: the next poll is soon


def conditional(watched: Watched) -> dict[str, str]:
    """The header that asks for a new bundle only; without it if the last one was not settled."""
    return {"If-None-Match": watched.etag} if watched.etag and watched.settled else {}


def send(
    host: Host, watched: Watched, method: str, url: str, headers: Mapping[str, str], body: bytes | None = None
) -> Response:
    """Request a URL with the trust and the proxy of the source; cheap where it can be."""
    context = quick_context(watched.ca)
    try:
        if method == "GET" and context and not watched.proxy:
            short = short_get(url, headers, context=context, timeout=TIMEOUT)
            if short is not None:
                return short
        return attempt(host, watched, method, url, headers, body, context)
    except HttpFailure as failure:
        if not failure.tls:
            raise
        return attempt(host, watched, method, url, headers, body, None)


def attempt(
    host: Host,
    watched: Watched,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    context: SSLContext | None,
) -> Response:
    """One request; with the full set of CAs if there is no context."""
    from ..net.http_client import HttpClient  # slow to import
    from ..net.proxies import Proxies

    proxy = watched.proxy
    client = HttpClient(
        ca_pem=watched.ca,
        context=context,
        proxies=Proxies(proxy["http"], proxy["https"], tuple(proxy["no"])) if proxy else None,
        clock=host.clock,
        timeout=TIMEOUT,
        attempts=1,
    )
    return client.request(method, url, headers=headers, body=body)
