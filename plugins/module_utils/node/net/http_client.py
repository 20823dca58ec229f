# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One HTTP client: time-outs, retries, Retry-After, proxy, private CAs, and no secret in any message."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any

from ..errors import ConfigInvalid, Problem
from ..machine.clock import Clock
from .answer import AGENT, ERROR_BODY, HttpFailure, retry_after, shown, unusable
from .proxies import Proxies, bypassed
from .retries import Retries
from .tls import advice_for, distrusts, in_words, tls_context

LOOPBACK = ("localhost", "127.0.0.0/8", "::1")


class HttpClient(Retries):
    """Requests with TLS always verified: by the system's CAs, and by `ca_pem` if set."""

    broken = (OSError, http.client.HTTPException, UnicodeError)  # the last one: not the name of a host

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
        untrusted: str = "",
    ) -> None:
        """untrusted: what to do about a server that is not trusted."""
        super().__init__(clock=clock, timeout=timeout, attempts=attempts, jitter=jitter)
        if context is None:
            context = tls_context()
            if ca_pem:
                try:
                    context.load_verify_locations(cadata=ca_pem)
                except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
                    wrong = Problem(
                        "CA certificate", "not PEM", "certificates in PEM, not the name of a file"
                    )
                    raise ConfigInvalid([wrong]) from error
        self._proxies, self._untrusted = proxies or Proxies(), untrusted
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=context),
            OnlyTowardsTls(self._through_proxy) if redirects else NoRedirects(),
        )

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
                retry_after=retry_after(error.headers, self._clock.now()),
            ) from None
        except urllib.error.URLError as error:
            tls = distrusts(error.reason)
            advice = advice_for(error.reason) or (self._untrusted if tls else "")
            raise HttpFailure(url, in_words(error.reason), tls=tls, advice=advice) from None
        except http.client.InvalidURL:  # a subclass of the next one, whose text quotes the URL
            raise HttpFailure(url, "the URL has no usable host or port", final=True) from None
        except self.broken as error:
            raise HttpFailure(url, in_words(error), final=isinstance(error, UnicodeError)) from None

    def _through_proxy(self, request: urllib.request.Request) -> None:
        proxy = self._proxies.https if request.type == "https" else self._proxies.http
        if not proxy:
            return
        there = urllib.parse.urlsplit(request.full_url)
        port = there.port or (443 if there.scheme == "https" else 80)
        if bypassed(there.hostname or "", self._proxies.no, port):
            return
        address = urllib.parse.urlsplit(proxy)
        if address.scheme != "http":
            # urllib never speaks TLS to a proxy: it would send the password in clear text.
            raise HttpFailure(request.full_url, "its proxy is not an http:// URL", final=True)
        request.set_proxy(address.netloc.rpartition("@")[2], "http")
        if address.username:
            import base64

            pair = f"{urllib.parse.unquote(address.username)}:{urllib.parse.unquote(address.password or '')}"
            request.add_unredirected_header(
                "Proxy-Authorization", "Basic " + base64.b64encode(pair.encode()).decode()
            )


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
        if unusable(newurl):
            raise HttpFailure(req.full_url, "redirects to a URL that can't be used", final=True)
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
