# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The request of a poll, against real TLS servers that answer well, badly, too much, or not at all."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.net import short_request
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.answer import HttpFailure, Response
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.short_request import short_get
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.tls import tls_context
from tests.unit.node.servers import Answer, Pki, Request, serving

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("pki"))


@contextmanager
def saying(pki: Pki, raw: bytes) -> Iterator[str]:
    """A server that sends these bytes to one client, whatever it asks, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            line, _address = listener.accept()
            # a client that has read enough hangs up first
            with (
                suppress(OSError),
                line,
                pki.server_context().wrap_socket(line, server_side=True) as connection,
            ):
                connection.recv(65536)
                connection.sendall(raw)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}/x"
        thread.join(10)


def get(pki: Pki, url: str, **headers: str) -> Response | None:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return short_get(url, sent, context=tls_context(cadata=pki.ca_pem), timeout=5)


def get_raw(pki: Pki, raw: bytes) -> Response | None:
    with saying(pki, raw) as url:
        return get(pki, url)


def failure(pki: Pki, raw: bytes) -> HttpFailure:
    with pytest.raises(HttpFailure) as caught:
        get_raw(pki, raw)
    return caught.value


def test_an_answer_and_what_is_sent(pki: Pki) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return Answer(b"body", 200, {"ETag": '"1"'})

    with serving(answer, pki.server_context()) as server:
        found = get(pki, f"{server.url}/a b/ö?sig=x%2By&q=1", If_None_Match='"0"')
    assert found is not None
    assert (found.status, found.body) == (200, b"body")
    assert (found.headers.get("etag"), found.headers.get("ETAG"), found.headers.get("X", "")) == (
        '"1"',
        '"1"',
        "",
    )
    (request,) = seen
    assert request.path == "/a%20b/%C3%B6?sig=x%2By&q=1"
    assert request.headers["If-None-Match"] == '"0"'
    assert request.headers["User-Agent"] == "aks-flex-node"


def test_not_modified_has_no_body(pki: Pki) -> None:
    found = get_raw(pki, b"HTTP/1.1 304 Not Modified\r\nETag: x\r\nContent-Length: 5\r\n\r\n")
    assert found is not None
    assert (found.status, found.body, found.headers.get("ETag")) == (304, b"", "x")


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        CHUNKED + b"3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 200\r\ncontent-length:5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    ],
)
def test_every_way_to_send_a_body(pki: Pki, raw: bytes) -> None:
    found = get_raw(pki, raw)
    assert found is not None
    assert found.body == b"hello"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Len", "broke off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "broke off at 5 of 9 bytes"),
        (CHUNKED + b"9\r\nhello", "broke off at 5 of 9 bytes"),
        (CHUNKED + b"x\r\n", "not HTTP"),
        (CHUNKED + b"-5\r\nhello", "larger than 16 MiB"),
        (CHUNKED + b"ffffffff\r\nhello", "larger than 16 MiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nhello", "larger than 16 MiB"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhello", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nhello", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhello", "not HTTP"),
        (b"HTTP/1.1 20\xb2 OK\r\n\r\n", "not HTTP"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP"),
        (b"HTTP/2 200\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 99 Odd\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 101 + b"\r\n", "more than 100 headers"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70000 + b"\r\n\r\n", "too long"),
    ],
)
def test_what_is_no_whole_answer_is_a_failure_that_may_pass(pki: Pki, raw: bytes, reason: str) -> None:
    found = failure(pki, raw)
    assert reason in found.reason
    assert (found.status, found.tls, found.final) == (0, False, False)


@pytest.mark.parametrize("url", ["https://.x.example/a?sig=s3cret", "https://x..example/a"])
def test_a_name_that_no_host_can_have_is_a_failure(pki: Pki, url: str) -> None:
    with pytest.raises(HttpFailure, match="its host name has an empty part") as caught:
        short_get(url, {}, context=tls_context(cadata=pki.ca_pem), timeout=1)
    assert "s3cret" not in str(caught.value)


def test_a_body_without_a_length_is_bounded_too(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_request, "MOST", 1 << 20)
    assert "larger than 1 MiB" in failure(pki, b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (2 << 20)).reason


def test_an_error_with_its_body_and_retry_after(pki: Pki) -> None:
    found = failure(pki, b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}")
    assert (found.status, found.reason, found.body, found.retry_after) == (
        429,
        "HTTP 429 Too Many Requests",
        b"{}",
        7.0,
    )


def test_a_date_to_try_again_at(pki: Pki) -> None:
    head = b"HTTP/1.1 503 Busy\r\nDate: Wed, 21 Oct 2026 07:28:00 GMT\r\n"
    found = failure(pki, head + b"Retry-After: Wed, 21 Oct 2026 07:30:00 GMT\r\nContent-Length: 0\r\n\r\n")
    assert found.retry_after == 120.0


def test_a_redirect_is_left_to_the_client_that_checks_where_to(pki: Pki) -> None:
    assert get_raw(pki, b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere/\r\n\r\n") is None


def test_tls_is_verified_and_a_header_adds_no_second_one(pki: Pki, tmp_path: Path) -> None:
    with serving(lambda _: Answer(b"hello"), pki.server_context()) as server:
        with pytest.raises(HttpFailure, match="not trusted") as caught:
            get(Pki.make(tmp_path), server.url)
        assert caught.value.tls
        with pytest.raises(HttpFailure, match="not trusted"):
            get(pki, server.url.replace("127.0.0.1", "127.1"))
        with pytest.raises(HttpFailure, match="control character"):
            get(pki, server.url, If_None_Match="x\r\nAuthorization: y")
        with pytest.raises(HttpFailure, match="only https"):
            get(pki, server.url.replace("https://", "http://"))
    assert server.requests == []
    with pytest.raises(HttpFailure, match="refused"):
        get(pki, server.url)


def test_the_query_is_never_shown(pki: Pki) -> None:
    with (
        serving(lambda _: Answer(status=500), pki.server_context()) as server,
        pytest.raises(HttpFailure) as caught,
    ):
        get(pki, f"{server.url}/x?sig=secret")
    assert "secret" not in str(caught.value)
    assert caught.value.url.endswith("/x?…")


def test_the_context_is_one_that_verifies(pki: Pki) -> None:
    context = tls_context(cadata=pki.ca_pem)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
