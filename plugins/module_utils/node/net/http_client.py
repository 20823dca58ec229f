# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP client: time-outs, retries, Retry-After, proxy, private CAs, and no secret in any message."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..dataclass import dataclass
from ..errors import ConfigInvalid, Problem
from ..machine.clock import Clock, SystemClock
from .answer import AGENT, ERROR_BODY, MOST, HttpFailure, Response, retry_after, shown
from .tls import advice_for, distrusts, in_words, tls_context

LOOPBACK = ("localhost", "127.0.0.0/8", "::1")


@dataclass(frozen=True)
class Proxies:
    """Proxy URLs; `no` lists hosts, domains and networks that are reached directly."""

    http: str = ""
    https: str = ""
    no: tuple[str, ...] = ()


class HttpClient:
    """Requests with TLS always verified: by the system's CAs, and by `ca_pem` if set."""

    def __init__(
        self,
        *,
        ca_pem: str = "",
        context: ssl.SSLContext | None = None,
        proxies: Proxies | None = None,
        clock: Clock | None = None,
        timeout: float = 30,
        attempts: int = 4,
        jitter: Callable[[], float] | None = None,
        redirects: bool = True,
    ) -> None:
        self._clock = clock or SystemClock()
        self._timeout = timeout
        self._attempts = attempts
        self._jitter = jitter or spread
        if context is None:
            context = tls_context()
            if ca_pem:
                try:
                    context.load_verify_locations(cadata=ca_pem)
                except (ssl.SSLError, ValueError) as error:
                    wrong = Problem(
                        "CA certificate", "not PEM", "certificates in PEM, not the name of a file"
                    )
                    raise ConfigInvalid([wrong]) from error
        self._proxies = proxies or Proxies()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context),
            OnlyTowardsTls(self._through_proxy) if redirects else NoRedirects(),
        )

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
                announced = 0 if answer.status == 304 else int(answer.headers.get("Content-Length") or 0)
                if len(body) < announced:  # read() itself does not raise
                    raise HttpFailure(url, f"the answer broke off at {len(body)} of {announced} bytes")
                return Response(answer.status, answer.headers, body)
        except (OSError, http.client.HTTPException) as error:
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
        attempts = attempts or self._attempts
        for attempt in range(1, attempts + 1):
            try:
                return self._once(method, url, body, headers or {})
            except HttpFailure as failure:
                if failure.final or attempt == attempts:
                    raise
                wait = failure.retry_after or 0.5 * 2 ** (attempt - 1) * self._jitter()
                self._clock.sleep(min(wait, 60))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _once(self, method: str, url: str, body: bytes | None, headers: Mapping[str, str]) -> Any:
        if not is_protected(url):
            raise HttpFailure(url, "only https:// URLs are fetched", final=True)
        request = urllib.request.Request(url, data=body, method=method)  # noqa: S310
        request.add_header("User-Agent", AGENT)
        for name, value in headers.items():
            request.add_header(name, value)
        self._through_proxy(request)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            if error.code == 304:
                return error
            raise HttpFailure(
                url,
                f"HTTP {error.code} {error.reason}",
                status=error.code,
                body=error.read(ERROR_BODY),
                retry_after=retry_after(error.headers.get("Retry-After", "")),
            ) from None
        except urllib.error.URLError as error:
            tls = distrusts(error.reason)
            raise HttpFailure(url, in_words(error.reason), tls=tls, advice=advice_for(error.reason)) from None
        except (OSError, http.client.HTTPException) as error:
            raise HttpFailure(url, in_words(error)) from None

    def _through_proxy(self, request: urllib.request.Request) -> None:
        proxy = self._proxies.https if request.type == "https" else self._proxies.http
        host = urllib.parse.urlsplit(request.full_url).hostname or ""
        if not proxy or bypassed(host, self._proxies.no):
            return
        address = urllib.parse.urlsplit(proxy)
        request.set_proxy(address.netloc.rpartition("@")[2], address.scheme)
        if address.username:
            import base64

            pair = f"{urllib.parse.unquote(address.username)}:{urllib.parse.unquote(address.password or '')}"
            request.add_unredirected_header(
                "Proxy-Authorization", "Basic " + base64.b64encode(pair.encode()).decode()
            )


def spread() -> float:
    """A random factor for pauses, 0.5 to 1.5, so that the nodes of a site do not all retry at one moment."""
    return 0.5 + os.urandom(1)[0] / 255


class OnlyTowardsTls(urllib.request.HTTPRedirectHandler):
    """Redirects are followed (release sites use them), but never from https to http, nor with credentials."""

    def __init__(self, through_proxy: Callable[[urllib.request.Request], None]) -> None:
        self._through_proxy = through_proxy

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Refuse to leave TLS."""
        if not is_protected(newurl) or (req.type == "https" and not newurl.startswith("https://")):
            why = "redirects to a URL without TLS, which is not followed"
            raise HttpFailure(req.full_url, why, final=True)
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None:
            if req.host != urllib.parse.urlsplit(newurl).netloc:
                following.remove_header("Authorization")
            self._through_proxy(following)
        return following


class NoRedirects(urllib.request.HTTPRedirectHandler):
    """For a server that never redirects: another one may answer in its place."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Refuse all."""
        raise HttpFailure(req.full_url, f"redirects to {shown(newurl)}, which is not followed", final=True)


def is_protected(url: str) -> bool:
    """Whether nobody on the way can read or change an answer: TLS, or a server on this machine."""
    parts = urllib.parse.urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and bypassed(parts.hostname or "", LOOPBACK))


def bypassed(host: str, no: tuple[str, ...]) -> bool:
    """Whether `host` is reached without the proxy: exact names, domains (.example), networks."""
    import ipaddress

    for entry in no:
        if entry == "*" or host == entry.lstrip(".") or host.endswith("." + entry.lstrip(".")):
            return True
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except ValueError:
            continue
    return False
