# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Profiles out of Azure's archive: nothing of it is trusted."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn import profile
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import Pair
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import ProfileUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.openvpn import profile_problems
from tests.unit.controller.fake_network import PROFILE, FakeNetwork
from tests.unit.node.servers import Answer, Pki, Request, serving

MEMBER = "OpenVPN/vpnconfig.ovpn"


def test_a_profile_does_not_depend_on_the_order_in_which_azure_names_protocols() -> None:
    """Recorded: PUT with OpenVPN first, GET with IkeV2 first; the authentication is named from a root on."""

    def stamp(**clients: list[str]) -> str:
        return profile.stamp_of({"properties": {"resourceGuid": "1", "vpnClientConfiguration": clients}})

    put = stamp(vpnClientProtocols=["OpenVPN", "IkeV2"])
    assert put == stamp(vpnClientProtocols=["IkeV2", "OpenVPN"], vpnAuthenticationTypes=["Certificate"])
    assert put != stamp(vpnClientProtocols=["OpenVPN"])
    assert put != stamp(vpnClientProtocols=["OpenVPN", "IkeV2"], vpnAuthenticationTypes=["AAD"])


def archive(**members: str | bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as found:
        for name, content in members.items():
            found.writestr(name, content)
    return packed.getvalue()


def damaged(packing: int) -> bytes:
    """An archive with a few wrong bytes in its packed data."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as found:
        found.writestr(MEMBER, PROFILE * 20)
    content = bytearray(packed.getvalue())
    for place in range(60, 75):
        content[place] ^= 0xFF
    return bytes(content)


def encrypted() -> bytes:
    """An archive that asks for a password."""
    content = bytearray(archive(**{MEMBER: PROFILE}))
    content[6] |= 1
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


def test_a_profile_is_read_and_filled() -> None:
    text = profile.template_in(FakeNetwork().fetch("https://x?sig=1"))
    assert text == PROFILE
    filled = profile.filled(text, Pair("CERTIFICATE\n", "KEY\n"))
    assert "<cert>\nCERTIFICATE\n</cert>\n<key>\nKEY\n</key>" in filled
    assert "$" not in filled


def test_the_log_file_of_azures_profile_is_no_problem() -> None:
    text = PROFILE.replace("proto tcp", "proto tcp\nlog openvpn.log")
    found = profile.template_in(archive(**{MEMBER: text}))
    assert found == text
    assert profile_problems(found) == profile_problems(PROFILE)


@pytest.mark.parametrize(
    "case",
    {
        "no archive": b"x",
        "damaged": damaged(zipfile.ZIP_DEFLATED),
        "damaged, packed with lzma": damaged(zipfile.ZIP_LZMA),
        "damaged, packed with bzip2": damaged(zipfile.ZIP_BZIP2),
        "encrypted": encrypted(),
        "no profile": archive(**{"Generic/VpnSettings.xml": "x"}),
        "a name that leads out": archive(**{f"../{MEMBER}": PROFILE}),
        "an absolute name": archive(**{f"/{MEMBER}": PROFILE}),
        "a bomb": archive(**{MEMBER: b"a" * (2 << 20)}),
        "no text": archive(**{MEMBER: b"\xff\xfe\x00"}),
        "no place for the key": archive(**{MEMBER: PROFILE.replace("$PRIVATEKEY", "")}),
        "two places for the key": archive(**{MEMBER: f"{PROFILE}$PRIVATEKEY"}),
        "no gateway": archive(**{MEMBER: PROFILE.replace("remote", "#remote")}),
        "no ca": archive(**{MEMBER: PROFILE.replace("<ca>", "")}),
    }.items(),
    ids=lambda case: case[0],
)
def test_what_is_no_profile_is_refused(case: tuple[str, bytes]) -> None:
    with pytest.raises(ProfileUnusable) as caught:
        profile.template_in(case[1])
    assert caught.value.code == "FLEX-1725"


Serve = Callable[[Request], Answer]


def fetched(pki: Pki, directory: Path, handler: Serve) -> bytes:
    bundle = directory / "ca.pem"
    bundle.write_text(pki.ca_pem)
    with serving(handler, pki.server_context()) as server:
        return profile.fetch(f"{server.url}/vpn.zip?sig=planted", str(bundle))


def test_the_signature_is_the_only_credential(
    pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return Answer(b"archive")

    (tmp_path / ".netrc").write_text("default login planted password planted\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert fetched(pki, tmp_path, answer) == b"archive"
    assert "Authorization" not in seen[0].headers


@pytest.mark.parametrize(
    "answer",
    [Answer(b"", 403), Answer(b"", 302, {"Location": "https://elsewhere.example.com/"}), Answer(b"a" * 64)],
    ids=["refused", "redirected", "too large"],
)
def test_what_can_not_be_downloaded(
    pki: Pki, tmp_path: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(profile, "LARGEST_ARCHIVE", 32)
    with pytest.raises(ProfileUnusable) as caught:
        fetched(pki, tmp_path, lambda _request: answer)
    assert "planted" not in str(caught.value)


def test_only_https_and_no_signature_in_errors() -> None:
    for url in ("http://blob.example.com/vpn.zip?sig=planted", "file:///etc/passwd", ""):
        with pytest.raises(ProfileUnusable) as caught:
            profile.fetch(url)
        assert "planted" not in str(caught.value)
    with pytest.raises(ProfileUnusable) as caught:
        profile.fetch("https://127.0.0.1:9/vpn.zip?sig=planted")
    assert "planted" not in str(caught.value)
    assert caught.value.__cause__ is None
