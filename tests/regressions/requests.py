# SPDX-License-Identifier: GPL-3.0-or-later
"""Point 18: requests, proxies and CAs."""

from __future__ import annotations

from tests.regressions.case import ASSERTION, DID_NOT_RAISE, NODE, UNIT, Case, Edit

HTTP, HTTP_TESTS = f"{NODE}/net/http_client.py", f"{UNIT}/net/test_http_client.py"
ANSWER, RETRIES = f"{NODE}/net/answer.py", f"{NODE}/net/retries.py"
FIELDS = f"{UNIT}/config/test_fields.py"
COPIED = f"{HTTP_TESTS}::test_an_address_that_was_copied_badly_is_refused_and_not_quoted"
LISTED = f"{HTTP_TESTS}::test_who_is_reached_without_the_proxy"

CASES = (
    Case(
        "18a",
        "the password of an https:// proxy is sent in clear text",
        (
            Edit(f"{NODE}/config/types/addresses.py", '    if url.scheme == "https":\n', "    if False:\n"),
            Edit(HTTP, '        if address.scheme != "http":\n', "        if False:\n"),
        ),
        (
            f"{HTTP_TESTS}::test_the_password_of_a_proxy_over_tls_is_not_sent_without_tls",
            f"{FIELDS}::test_refused_with_its_path_and_what_is_accepted[proxy.https=https://user:s3cret@proxy]",
        ),
        f"{ASSERTION}|{DID_NOT_RAISE}",
    ),
    Case(
        "18b",
        "the signature of a URL with a space is printed",
        (
            Edit(RETRIES, "if fault := unusable(url):", 'if fault := "":'),
            Edit(HTTP, "except http.client.InvalidURL:", "except ZeroDivisionError:"),
        ),
        (f"{COPIED}[https://x.example/c.json?sv=1&sig=s3cret more-space or a control character]",),
    ),
    Case(
        "18c",
        "preflight takes the end of an IPv6 address for a port",
        (
            Edit(
                f"{NODE}/preflight/probes/reach.py",
                "http.client.HTTPConnection(name, port)",
                "http.client.HTTPConnection(name)",
            ),
        ),
        (
            f"{UNIT}/preflight/test_probes.py::"
            "test_an_ipv6_address_has_no_port_at_its_end[2001:db8::a-[2001:db8::a]:6443]",
        ),
        "http.client.InvalidURL",
    ),
    Case(
        "18d",
        "a CA with a comment that is not ASCII is a traceback",
        (
            Edit(HTTP, "(ssl.SSLError, ValueError, TypeError)", "(ssl.SSLError, ValueError)"),
            Edit(f"{NODE}/config/types/addresses.py", 'return "".join(blocks) or text', "return text"),
        ),
        (
            f"{HTTP_TESTS}::test_a_ca_that_is_not_ascii_is_an_error_with_a_code",
            f"{UNIT}/test_source_options.py::test_a_ca_with_a_comment_in_any_language_is_trusted",
        ),
        "TypeError",
    ),
    Case(
        "18e",
        "proxy.no in upper case, with *. or with a port has no effect on downloads",
        (
            Edit(
                f"{NODE}/net/proxies.py",
                "_names(entry.strip().lower(), host.lower(), port) for entry in no",
                'entry == "*" or f".{host}".endswith(f".{entry.lstrip(chr(46))}") for entry in no',
            ),
        ),
        (
            f"{LISTED}[api.example-no12-True]",
            f"{LISTED}[api.example-no14-True]",
            f"{LISTED}[api.example-no16-True]",
        ),
    ),
    Case(
        "18f",
        "a server that asks for five minutes is asked again after one",
        (
            Edit(RETRIES, "if failure.retry_after > LONGEST_WAIT and not failure.final:", "if False:"),
            Edit(
                RETRIES,
                "self._clock.sleep(failure.retry_after or",
                "self._clock.sleep(min(failure.retry_after, 60) or",
            ),
        ),
        (f"{HTTP_TESTS}::test_a_server_that_asks_for_more_than_a_minute_is_not_asked_early[300]",),
    ),
    Case(
        "18g",
        "Retry-After as a date is ignored",
        (Edit(ANSWER, "    until, there = _seconds(value),", "    until, there = 0.0,"),),
        (f"{HTTP_TESTS}::test_retry_after_is_obeyed[Wed, 21 Oct 2026 07:28:30 GMT-30.0]",),
    ),
)
