# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""One HTTP client, against real servers: retries, proxies, TLS, redirects, and nothing secret in messages."""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    CaMismatch,
    ConfigInvalid,
    ConfigUnreachable,
    NotJson,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net import retries
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.answer import (
    HttpFailure,
    retry_after,
    shown,
    wait_asked,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.proxies import Proxies, bypassed
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.retries import spread
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.tls import quick_context, tls_context
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Url
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving


def answers(*given: Answer) -> list[Answer]:
    return list(given)


def hello(_: Request) -> Answer:
    return Answer(b"hello")


def nobody() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def test_an_answer_with_its_headers_and_what_we_send() -> None:
    with serving(lambda _: Answer(b"body", 200, {"ETag": '"1"'})) as server:
        answer = HttpClient().request("POST", f"{server.url}/x", body=b"data", headers={"X-Mine": "1"})
    assert (answer.status, answer.body, answer.headers["ETag"]) == (200, b"body", '"1"')
    (request,) = server.requests
    assert (request.method, request.body, request.headers["X-Mine"]) == ("POST", b"data", "1")
    assert request.headers["User-Agent"] == "aks-flex-node"


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_passing_troubles_are_tried_again_with_growing_pauses(status: int) -> None:
    left = answers(Answer(status=status), Answer(status=status), Answer(b"at last"))
    clock = FakeClock()
    with serving(lambda _: left.pop(0)) as server:
        assert HttpClient(clock=clock, jitter=lambda: 1.5).request("GET", server.url).body == b"at last"
    assert clock.naps == [0.75, 1.5]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_a_definite_no_is_not_tried_again(status: int) -> None:
    clock = FakeClock()
    with serving(lambda _: Answer(b"why", status)) as server, pytest.raises(HttpFailure) as caught:
        HttpClient(clock=clock).request("GET", server.url)
    assert (caught.value.status, caught.value.body, len(server.requests)) == (status, b"why", 1)
    assert clock.naps == []


def test_it_gives_up_in_the_end() -> None:
    clock = FakeClock()
    with serving(lambda _: Answer(status=503)) as server, pytest.raises(HttpFailure, match="503"):
        HttpClient(clock=clock, attempts=4, jitter=lambda: 1.0).request("GET", server.url)
    assert (len(server.requests), clock.naps) == (4, [0.5, 1.0, 2.0])


@pytest.mark.parametrize(
    ("asked", "nap"),
    [
        ("7", 7.0),
        ("60", 60.0),
        ("0", 0.5),
        ("nonsense", 0.5),
        ("\u00b2", 0.5),
        ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0),
        ("Wed, 21 Oct 2026 07:27:00 GMT", 0.5),
    ],
)
def test_retry_after_is_obeyed(asked: str, nap: float) -> None:
    headers = {"Retry-After": asked, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    left = answers(Answer(status=429, headers=headers), Answer(b"ok"))
    clock = FakeClock()
    with serving(lambda _: left.pop(0)) as server:
        HttpClient(clock=clock, jitter=lambda: 1.0).request("GET", server.url)
    assert clock.naps == [nap]


@pytest.mark.parametrize("asked", ["300", "Wed, 21 Oct 2026 07:33:00 GMT"])
def test_a_server_that_asks_for_more_than_a_minute_is_not_asked_early(asked: str) -> None:
    headers = {"Retry-After": asked, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    clock = FakeClock()
    busy = Answer(status=429, headers=headers)
    with serving(lambda _: busy) as server, pytest.raises(HttpFailure, match="HTTP 429") as caught:
        HttpClient(clock=clock).request("GET", server.url)
    assert (caught.value.retry_after, len(server.requests), clock.naps) == (300.0, 1, [])
    assert "asks to wait 300 s" in caught.value.advice


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": " 7 "}, 7.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, 20.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "no date"}, 20.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 99 Oct 2026 07:28:30 GMT"}, 0.0),
    ],
)
def test_a_date_counts_by_the_clock_of_the_server_where_it_is_known(
    headers: dict[str, str], seconds: float
) -> None:
    now = 1_792_567_690.0  # 07:28:10
    assert retry_after(headers, now) == seconds


def test_the_pause_that_a_server_asks_for_is_found_behind_every_error() -> None:
    failure, outer = HttpFailure("https://x.example", "HTTP 429", retry_after=90), ApiUnreachable("no answer")
    outer.__cause__ = failure
    assert (wait_asked(outer), wait_asked(failure), wait_asked(ApiUnreachable("no answer"))) == (90, 90, 0)


def test_pauses_differ_between_nodes() -> None:
    factors = {spread() for _ in range(100)}
    assert len(factors) > 10
    assert 0.5 <= min(factors) < 1 < max(factors) <= 1.5


def test_not_modified_is_an_answer() -> None:
    with serving(lambda _: Answer(status=304)) as server:
        assert HttpClient().request("GET", server.url, headers={"If-None-Match": "x"}).status == 304


def test_nobody_listens() -> None:
    clock = FakeClock()
    with pytest.raises(HttpFailure, match="refused") as caught:
        HttpClient(clock=clock).request("GET", nobody())
    assert (caught.value.status, caught.value.tls, len(clock.naps)) == (0, False, 3)


def test_a_server_that_says_nothing_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HttpFailure, match="no answer in time"):
            HttpClient(timeout=0.05, attempts=1).request("GET", url)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x/y", "/etc/passwd", "http://x.example/y"])
def test_only_http_is_spoken(url: str) -> None:
    with pytest.raises(HttpFailure, match="only https"):
        HttpClient(clock=FakeClock()).request("GET", url)


# -- TLS ---------------------------------------------------------------------------------------------------


def test_a_private_ca_is_trusted_when_given(pki: Pki) -> None:
    with serving(hello, pki.server_context()) as server:
        assert HttpClient(ca_pem=pki.ca_pem).request("GET", server.url).body == b"hello"


def test_a_ca_that_is_not_ascii_is_an_error_with_a_code() -> None:
    with pytest.raises(ConfigInvalid, match="CA certificate"):
        HttpClient(ca_pem="né")
    with pytest.raises(CaMismatch, match="ASCII"):
        KubeClient("https://x.example", "né")


def test_an_unknown_ca_is_refused_at_once(pki: Pki) -> None:
    clock = FakeClock()
    with (
        serving(hello, pki.server_context()) as server,
        pytest.raises(HttpFailure, match="not trusted") as no,
    ):
        HttpClient(clock=clock).request("GET", server.url)
    assert (no.value.tls, clock.naps, server.requests) == (True, [], [])


# -- redirects ---------------------------------------------------------------------------------------------


def test_a_redirect_is_followed_but_credentials_stay_behind() -> None:
    with serving(hello) as there:
        moved = Answer(status=302, headers={"Location": f"{there.url}/there"})
        with serving(lambda _: moved) as here:
            answer = HttpClient().request("GET", here.url, headers={"Authorization": "Bearer s3cret"})
    assert answer.body == b"hello"
    assert here.requests[0].headers["Authorization"] == "Bearer s3cret"
    assert "Authorization" not in there.requests[0].headers


def test_within_a_host_credentials_go_along() -> None:
    def answer(request: Request) -> Answer:
        return Answer(status=302, headers={"Location": "/b"}) if request.path == "/a" else Answer(b"b")

    with serving(answer) as server:
        HttpClient().request("GET", f"{server.url}/a", headers={"Authorization": "x"})
    assert [request.headers.get("Authorization") for request in server.requests] == ["x", "x"]


def test_no_redirect_leads_out_of_tls(pki: Pki) -> None:
    with serving(hello) as plain:
        moved = Answer(status=302, headers={"Location": plain.url})
        with (
            serving(lambda _: moved, pki.server_context()) as server,
            pytest.raises(HttpFailure, match="without TLS"),
        ):
            HttpClient(ca_pem=pki.ca_pem, clock=FakeClock()).request("GET", server.url)
    assert plain.requests == []


def test_no_redirect_of_a_server_on_this_machine_leads_to_others_without_tls() -> None:
    moved = Answer(status=302, headers={"Location": "http://x.example/y"})
    with serving(lambda _: moved) as server, pytest.raises(HttpFailure, match="without TLS"):
        HttpClient(clock=FakeClock()).request("GET", server.url)


# -- proxies -----------------------------------------------------------------------------------------------


def test_a_proxy_is_asked_with_its_own_credentials() -> None:
    with serving(hello) as proxy:
        address = proxy.url.replace("http://", "http://us%40er:pa%3Ass@")
        client = HttpClient(proxies=Proxies(http=address))
        assert client.request("GET", "http://127.0.0.8/x").body == b"hello"
    (request,) = proxy.requests
    assert (request.path, request.headers["Host"]) == ("http://127.0.0.8/x", "127.0.0.8")
    assert request.headers["Proxy-Authorization"] == "Basic dXNAZXI6cGE6c3M="


def test_a_redirect_goes_through_the_proxy_too() -> None:
    def answer(request: Request) -> Answer:
        moved = {"Location": "http://127.0.0.9/y"}
        return Answer(status=302, headers=moved) if "127.0.0.8" in request.path else Answer(b"y")

    with serving(answer) as proxy:
        client = HttpClient(proxies=Proxies(http=proxy.url), clock=FakeClock())
        assert client.request("GET", "http://127.0.0.8/x").body == b"y"
    assert proxy.asked == ["GET http://127.0.0.8/x", "GET http://127.0.0.9/y"]


def test_https_goes_through_the_proxy_by_connect() -> None:
    with serving(lambda _: Answer(status=502)) as proxy, pytest.raises(HttpFailure):
        HttpClient(proxies=Proxies(https=proxy.url), clock=FakeClock()).request("GET", "https://x.example/y")
    assert set(proxy.asked) == {"CONNECT x.example:443"}


def test_the_password_of_a_proxy_over_tls_is_not_sent_without_tls() -> None:
    with serving(hello) as proxy:
        address = proxy.url.replace("http://", "https://user:s3cret@")
        client = HttpClient(proxies=Proxies(address, address), clock=FakeClock())
        for url in ("https://x.example/y", "http://127.0.0.8/x"):
            with pytest.raises(HttpFailure, match="proxy is not an http:// URL") as caught:
                client.request("GET", url)
            assert "s3cret" not in str(caught.value)
    assert proxy.requests == []


def test_what_is_to_be_reached_directly_is(pki: Pki) -> None:
    with serving(hello) as proxy, serving(hello) as server:
        client = HttpClient(proxies=Proxies(http=proxy.url, no=("127.0.0.0/8",)))
        client.request("GET", server.url)
    assert (len(proxy.requests), len(server.requests)) == (0, 1)


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", nobody())
    with serving(hello) as server:
        assert HttpClient().request("GET", server.url).body == b"hello"


@pytest.mark.parametrize(
    ("host", "no", "direct"),
    [
        ("api.example", ("api.example",), True),
        ("api.example", ("example",), True),
        ("api.example", (".example",), True),
        ("example", (".example",), True),
        ("notexample", ("example",), False),
        ("10.1.2.3", ("10.0.0.0/8",), True),
        ("11.1.2.3", ("10.0.0.0/8",), False),
        ("fd00::1", ("fd00::/8",), True),
        ("10.1.2.3", ("10.1.2.3",), True),
        ("anything", ("*",), True),
        ("anything", (), False),
        ("10.1.2.3", ("not a network", "10.1.0.0/16"), True),
        ("api.example", ("API.Example",), True),
        ("fd00::a", ("FD00::A",), True),
        ("api.example", ("*.example",), True),
        ("notexample", ("*.example",), False),
        ("api.example", ("api.example:8443",), True),
        ("api.example", ("api.example:443",), False),
        ("api.example", (".example:8443", "x"), True),
        ("10.1.2.3", ("10.1.2.3:8443",), True),
        ("10.1.2.3", ("10.1.2.3:443",), False),
        ("fd00::1", ("[fd00::1]:8443",), True),
        ("fd00::1", ("[fd00::1]:443",), False),
        ("fd00::8443", ("fd00::8443",), True),
        ("fd00::1", ("fd00::1:8443",), False),
        ("anything.", ("", " "), False),
    ],
)
def test_who_is_reached_without_the_proxy(host: str, no: tuple[str, ...], direct: bool) -> None:
    assert bypassed(host, no, 8443) == direct


def test_a_port_of_the_list_is_that_of_the_url() -> None:
    with serving(hello) as proxy, serving(hello) as server, serving(hello) as other:
        no = (server.url.removeprefix("http://"), "127.0.0.8:80")
        client = HttpClient(proxies=Proxies(http=proxy.url, no=no), clock=FakeClock(), attempts=1)
        client.request("GET", server.url)
        client.request("GET", other.url)
        with contextlib.suppress(HttpFailure):  # usually nobody listens there
            client.request("GET", "http://127.0.0.8/")
    assert (len(proxy.requests), len(server.requests), len(other.requests)) == (1, 1, 0)


def test_a_redirect_to_a_url_that_is_none() -> None:
    moved = Answer(status=302, headers={"Location": "https://x.example:port/?sig=s3cret"})
    nowhere = Proxies("http://127.0.0.1:1", "http://127.0.0.1:1", ("127.0.0.0/8",))
    with serving(lambda _: moved) as server, pytest.raises(HttpFailure, match="can't be used") as caught:
        HttpClient(proxies=nowhere).request("GET", server.url)
    assert "s3cret" not in str(caught.value)


# -- what is printed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "printed"),
    [
        ("https://x.example/a?sig=s3cret", "https://x.example/a?…"),
        ("https://u:s3cret@x.example:8443/a", "https://x.example:8443/a"),
        ("https://x.example/a#s3cret", "https://x.example/a"),
    ],
)
def test_an_address_is_printed_without_its_secrets(url: str, printed: str) -> None:
    assert shown(url) == printed
    assert "s3cret" not in str(HttpFailure(url, "why"))


# -- sources of configurations -----------------------------------------------------------------------------


def test_an_inline_document_may_be_a_bundle() -> None:
    assert Inline({"node": {}}).fetch().version is None
    bundle = Inline({"config": {"node": {}}, "configVersion": 17}).fetch()
    assert (bundle.document, bundle.version) == ({"node": {}}, "17")


def test_a_bundle_is_fetched_from_its_address(pki: Pki) -> None:
    bundle = answer_json({"config": {"node": {}}, "configVersion": "17"})
    with serving(lambda _: bundle, pki.server_context()) as server:
        fetched = Url(f"{server.url}/bundle?sig=1", HttpClient(ca_pem=pki.ca_pem)).fetch()
    assert (fetched.document, fetched.version, server.asked) == ({"node": {}}, "17", ["GET /bundle?sig=1"])


def test_a_configuration_is_fetched_over_tls_only() -> None:
    with serving(hello) as server, pytest.raises(ConfigUnreachable, match="only fetched over TLS") as caught:
        Url(f"{server.url}/bundle?sig=s3cret", HttpClient()).fetch()
    assert server.requests == []
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "fix"), [(403, "expired"), (404, "expired"), (410, "expired"), (500, "network")]
)
def test_an_address_that_gives_nothing(pki: Pki, status: int, fix: str) -> None:
    client = HttpClient(ca_pem=pki.ca_pem, clock=FakeClock())
    nothing = serving(lambda _: Answer(status=status), pki.server_context())
    with nothing as server, pytest.raises(ConfigUnreachable) as caught:
        Url(f"{server.url}/bundle?sig=s3cret", client).fetch()
    assert fix in caught.value.fix
    assert "s3cret" not in f"{caught.value}{caught.value.as_dict()}"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://x.example/c.json?sv=1&sig=s3cret more", "space or a control character"),
        ("https://x.example/c.json?sv=1&sig=s3c\tret", "space or a control character"),
        ("https://x.example/c.json?sig=s3cret\x00", "space or a control character"),
        ("https://x.example/c.json?sig=s3cret\u00a0", "space or a control character"),
        ("https://x.example/c.json?sig=s3creté", "not ASCII"),
        ("https://x.example:port/c.json?sig=s3cret", "not a port"),
        ("https://user:s3cret@[x.example/c.json", "no usable host"),
        ("https://.x.example/c.json?sig=s3cret", "its host name has an empty part"),
        ("https://x..example/c.json?sig=s3cret", "its host name has an empty part"),
    ],
)
def test_an_address_that_was_copied_badly_is_refused_and_not_quoted(url: str, why: str) -> None:
    clock = FakeClock()
    with pytest.raises(ConfigUnreachable) as caught:
        Url(url, HttpClient(clock=clock)).fetch()
    told = f"{caught.value}{caught.value.as_dict()}"
    assert why in caught.value.why
    assert clock.naps == []  # it is not tried again
    assert not any(part in told for part in ("s3c", "ret more", "é"))


def test_an_address_with_an_unknown_ca_says_how_to_give_it(pki: Pki) -> None:
    with serving(hello, pki.server_context()) as server, pytest.raises(ConfigUnreachable, match="--ca-cert"):
        Url(server.url, HttpClient()).fetch()


def test_an_answer_that_is_no_document(pki: Pki) -> None:
    page = serving(lambda _: Answer(b"<html>"), pki.server_context())
    with page as server, pytest.raises(NotJson) as caught:
        Url(f"{server.url}/?sig=s3cret", HttpClient(ca_pem=pki.ca_pem)).fetch()
    assert "s3cret" not in str(caught.value)


def test_an_answer_that_breaks_off_is_not_taken_for_a_document(pki: Pki) -> None:
    cut = serving(lambda _: Answer(b'{"config": {"node": {}}}', cut=10), pki.server_context())
    with cut as server, pytest.raises(ConfigUnreachable, match="broke off"):
        Url(server.url, HttpClient(ca_pem=pki.ca_pem, clock=FakeClock())).fetch()


# -- limits, and trust ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["x", "9" * 5000, "5, 5"])
def test_a_length_that_is_no_number_is_not_believed(pki: Pki, length: str) -> None:
    def answer(_request: Request) -> Answer:
        return Answer(b'{"a": 1}', 200, {"Content-Length": length, "Connection": "close"})

    with serving(answer, pki.server_context()) as server:
        found = HttpClient(ca_pem=pki.ca_pem, clock=FakeClock()).request("GET", server.url)
    assert found.body == b'{"a": 1}'


def test_an_answer_that_is_too_large_is_called_that(monkeypatch: pytest.MonkeyPatch, pki: Pki) -> None:
    monkeypatch.setattr(retries, "MOST", 1 << 20)
    large = Answer(b"x" * ((1 << 20) + 1))
    with serving(lambda _: large) as server, pytest.raises(HttpFailure, match="larger than 1 MiB") as caught:
        HttpClient().request("GET", server.url)
    assert (caught.value.final, len(server.requests)) == (True, 1)
    with serving(lambda _: Answer(b"x" * (1 << 20))) as server:
        assert len(HttpClient().request("GET", server.url).body) == 1 << 20
    with serving(lambda _: large, pki.server_context()) as server, pytest.raises(ApiUnreachable) as refused:
        KubeClient(server.url, pki.ca_pem).version()
    assert refused.value.why == "the answer is larger than 1 MiB"


def test_a_ca_without_key_identifiers_is_trusted_as_go_does(
    monkeypatch: pytest.MonkeyPatch, pki: Pki
) -> None:
    """Python 3.13 sets this flag in every default context; the CA of these tests has no identifiers."""
    default = ssl.create_default_context

    def strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = default(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    with serving(lambda _: Answer(b'{"gitVersion": "v1.34.4"}'), pki.server_context()) as server:
        assert HttpClient(ca_pem=pki.ca_pem).request("GET", server.url).status == 200
        assert HttpClient(context=quick_context(pki.ca_pem)).request("GET", server.url).status == 200
        assert KubeClient(server.url, pki.ca_pem).version() == "1.34.4"
        url = server.url.replace("127.0.0.1", "127.1")  # the same server, but not in its certificate
        with pytest.raises(HttpFailure, match="not trusted") as caught:
            HttpClient(ca_pem=pki.ca_pem, attempts=1).request("GET", url)
        assert caught.value.tls
    context = tls_context(cadata=pki.ca_pem)
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
