# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""OpenVPN profiles: what is accepted, what is refused and why, and that no key is ever shown."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.openvpn import (
    ACCEPTED,
    REFUSED,
    Remote,
    profile_problems,
    read_profile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.vpn import profile as interface
from tests.unit.node.tunnels import SECRET_KEY, a_profile, pem


def test_a_profile_of_azure_is_accepted() -> None:
    profile = read_profile(a_profile())
    assert profile.remotes == (Remote("gateway.example", 443, "tcp"),)
    assert set(profile.blocks) == {"ca", "cert", "key", "tls-auth"}
    assert interface.read_profile is read_profile


def test_what_is_written_is_read_as_the_same() -> None:
    profile = read_profile(a_profile())
    again = read_profile(profile.rendered())
    assert [(item.name, item.arguments) for item in again.directives] == [
        (item.name, item.arguments) for item in profile.directives
    ]
    assert again.blocks == profile.blocks
    assert "verb" not in profile.rendered(without=frozenset(("verb",)))


def test_windows_line_ends_and_several_gateways() -> None:
    text = a_profile(more="remote second.example 1194 udp\nremote third.example").replace("\n", "\r\n")
    assert read_profile(text).remotes == (
        Remote("gateway.example", 443, "tcp"),
        Remote("second.example", 1194, "udp"),
        Remote("third.example", 1194, "tcp"),
    )


PROBLEMS = {
    "a script": ("up /tmp/evil.sh", "line 22: up is refused: it runs a program as root"),
    "permission for scripts": ("script-security 2", "line 22: script-security is refused"),
    "a plugin": ("plugin /usr/lib/x.so", "plugin is refused: it runs a program"),
    "a route for everything": ("route 0.0.0.0 0.0.0.0", "route is refused: it would send all traffic"),
    "half of everything": ("route 128.0.0.0 128.0.0.0", "route is refused: it would send all traffic"),
    "a local port": ("lport 1194", "lport is refused"),
    "a status file": ("status /etc/passwd 10", "status is refused: it writes a file"),
    "another control socket": ("management 127.0.0.1 7505", "management is refused"),
    "another file": ("config /etc/other.conf", "config is refused: files outside"),
    "a key in a file": ("key /etc/ssl/private/me.key", "key names a file: put its content into <key>"),
    "a CA in a file": ("ca /etc/ssl/ca.pem", "ca names a file"),
    "a password": ("auth-user-pass", "auth-user-pass is refused: it waits for someone to type"),
    "all traffic": ("redirect-gateway def1", "redirect-gateway is refused: it would send all traffic"),
    "filtered routes": ('pull-filter ignore "route"', "pull-filter is refused: it drops"),
    "no routes": ("route-nopull", "route-nopull is refused"),
    "dropped rights": ("user nobody", "user is refused"),
    "two dashes": ("--up /tmp/evil.sh", "up is refused"),
    "an engine": ("engine evil", "engine is refused"),
    "an unknown directive": ("frobnicate yes", "frobnicate is not known here"),
    "a line of a key": ("MIGHAgEAMBMGByqGSM49", "what is there is not known here"),
    "a tap device": ("dev tap", "dev must be tun"),
    "another protocol": ("proto sctp", "proto must be one of"),
    "a port in words": ("remote second.example https", "the port of remote is not a number"),
    "a quote": ("verify-x509-name 'x", "a quote is not closed"),
    "an unknown block": ("<secret>\n00\n</secret>", "<secret> is refused"),
    "a connection block": ("<connection>\nremote x\n</connection>", "<connection> is refused: name one"),
    "a second CA": (f"<ca>\n{pem('CERTIFICATE', 'AA')}\n</ca>", "<ca> is there twice"),
    "an open block": ("<extra-certs>", "<extra-certs> has no end"),
    "a placeholder": ("verify-x509-name $GATEWAYNAME", "verify-x509-name has a placeholder"),
}  # fmt: skip


def test_routes_of_networks_and_addresses_are_accepted() -> None:
    for route in ("10.0.0.0 255.0.0.0", "10.224.0.4", "10.224.0.0 255.240.0.0 vpn_gateway 5"):
        assert profile_problems(a_profile(more=f"route {route}")) == [], route


@pytest.mark.parametrize("what", PROBLEMS)
def test_is_refused_with_line_and_reason(what: str) -> None:
    more, expected = PROBLEMS[what]
    problems = profile_problems(a_profile(more=more))
    assert any(expected in problem for problem in problems), problems
    assert SECRET_KEY not in str(problems)


def test_placeholders_of_azure_must_be_filled_in() -> None:
    generated = a_profile()
    generated = re.sub(r"<cert>.*</cert>", "<cert>\n$CLIENTCERTIFICATE\n</cert>", generated, flags=re.DOTALL)
    generated = re.sub(r"<key>.*</key>", "<key>\n$PRIVATEKEY\n</key>", generated, flags=re.DOTALL)
    assert profile_problems(generated) == [
        "<cert> has the placeholder $CLIENTCERTIFICATE: replace it by the content that belongs there",
        "<key> has the placeholder $PRIVATEKEY: replace it by the content that belongs there",
    ]


def test_what_is_missing_is_named() -> None:
    assert profile_problems("dev tun\n") == [
        "`client` is missing: it is no client profile",
        "`remote` is missing: no gateway is named",
        "<ca> is missing",
        "<cert> is missing",
        "<key> is missing",
    ]


def test_a_key_that_needs_a_passphrase_is_refused() -> None:
    text = a_profile().replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")
    assert profile_problems(text) == ["<key> is encrypted: nobody is there to type its passphrase"]
    assert profile_problems(a_profile(key="")) == []


def test_blocks_without_content_are_refused() -> None:
    text = re.sub(r"<cert>.*</cert>", "<cert>\n\n</cert>", a_profile(), flags=re.DOTALL)
    assert profile_problems(text) == ["<cert> is empty"]
    text = re.sub(r"<cert>.*</cert>", "<cert>\nhello\n</cert>", a_profile(), flags=re.DOTALL)
    assert profile_problems(text) == ["<cert> has no certificate in PEM form"]


def test_what_openvpn_takes_for_the_end_of_a_block_is_one() -> None:
    """Otherwise a directive could hide in what looks like the rest of a certificate."""
    hidden = "<extra-certs>\nAA\n</extra-certs>x\nup /tmp/evil.sh\n</extra-certs>"
    assert any("up is refused" in problem for problem in profile_problems(a_profile(more=hidden)))


def found_by_openvpn(text: str) -> list[str]:
    """The directives and blocks that OpenVPN finds: it reads 255 bytes of a block at a time (options.c)."""
    file, found = io.BytesIO(text.encode()), []
    while line := file.readline(256):
        if opened := re.fullmatch(rb"<(\S+)>", line.strip()):
            end = b"</" + opened[1] + b">"
            while (part := file.readline(255)) and not part.lstrip().startswith(end):
                pass
        found += [word.decode() for word in line.split()[:1]]
    return found


@pytest.mark.parametrize("inside", ["A", "é", "\u2028", "\x85", "<ca>", " ", "\t", "\r", "\ufeff", "\\", '"'])
@pytest.mark.parametrize("before", ["", " ", "\xa0", "<ca>"])
def test_openvpn_finds_what_was_checked_and_nothing_else(before: str, inside: str) -> None:
    """Wherever it splits a line, in a block or in a directive: the rest could be the end of a block."""
    certificate = pem("CERTIFICATE", "AA")
    for length in (1, 62, 84, 125, 126, 127, 128, 250, 251, 253, 254, 255, 256, 257, 510):
        line = f"{before}{inside * length}</extra-certs>"
        hidden = f"<extra-certs>\n{certificate}\n{line}\nup /tmp/evil.sh\n<tls-crypt>\n</extra-certs>"
        named = f"verify-x509-name '{before}{inside * length}up /tmp/evil.sh'"
        for more in (hidden, named):
            if not profile_problems(text := a_profile(more=more)):
                profile = read_profile(text)
                checked = [item.name for item in profile.directives]
                assert found_by_openvpn(profile.rendered()) == [
                    *checked,
                    *(f"<{name}>" for name in profile.blocks),
                ]


def test_a_line_that_openvpn_would_split_is_refused_with_its_number() -> None:
    smuggled = f"<extra-certs>\n{'A' * 255}</extra-certs>\nup /tmp/evil.sh\n</extra-certs>"
    refused = "it is longer than 250 bytes, and OpenVPN would read it as two lines"
    assert f"line 23: {refused}" in profile_problems(a_profile(more=smuggled))
    named = "verify-x509-name '" + "\\" * 130 + "'"  # each becomes two when it is written
    assert profile_problems(a_profile(more=named)) == [f"line 22: {refused}"]
    assert profile_problems(a_profile(more="# " + "a" * 300)) == [], "a comment is not written"


def test_certificates_and_keys_as_tools_write_them_are_accepted() -> None:
    key = pem("PRIVATE KEY", "\n".join(["A" * 64] * 20))
    bundle = pem("CERTIFICATE", "\n".join(["A" * 76] * 20))
    static = pem("OpenVPN Static key V1", "\n".join(["0" * 32] * 16))
    text = re.sub("<key>.*</key>", f"<key>\n{key}\n</key>", a_profile(), flags=re.DOTALL)
    for more in (
        f"<extra-certs>\n{bundle}\n</extra-certs>",
        f"<tls-crypt>\n# 2048 bit\n{static}\n</tls-crypt>",
    ):
        assert profile_problems(text.replace("verb 3\n", f"verb 3\n{more}\n")) == []


def test_comments_at_the_end_of_a_line_are_no_arguments() -> None:
    profile = read_profile(a_profile(more="ping 10 # seconds"))
    assert [item.arguments for item in profile.directives if item.name == "ping"] == [("10",)]


def test_nothing_is_both_accepted_and_refused() -> None:
    assert not ACCEPTED & set(REFUSED)
    assert all(why and not why.endswith(".") for why in REFUSED.values())


@given(st.text(max_size=300), st.sampled_from(["before", "after", "alone"]))
def test_any_text_is_read_or_refused_and_no_key_is_shown(text: str, place: str) -> None:
    whole = {"before": text + "\n" + a_profile(), "after": a_profile() + text, "alone": text}[place]
    problems = profile_problems(whole)
    assert SECRET_KEY not in str(problems)
    if not problems:
        assert read_profile(read_profile(whole).rendered()).remotes == read_profile(whole).remotes


@given(st.sampled_from(sorted(REFUSED)), st.sampled_from(["", " x", " /tmp/x y"]))
def test_no_refused_directive_gets_through(name: str, arguments: str) -> None:
    assert any(f"{name} is refused" in line for line in profile_problems(a_profile(more=name + arguments)))
