# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Certificates as OpenVPN and Azure take them."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.certificates import (
    Pair,
    given_root,
    new_client,
    new_root,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.vpn.errors import RecordUnusable
from tests.unit.controller.fake_network import FakeClock

NOW = FakeClock().now()


@pytest.fixture(scope="module")
def root() -> Pair:
    return new_root("plant", NOW)


def openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, timeout=30, check=False)
    return done.stdout + done.stderr


def test_openssl_accepts_a_client_of_the_root(root: Pair, tmp_path: Path) -> None:
    client = new_client(root, "edge-1.plant.example.com", NOW, 30)
    (tmp_path / "ca.pem").write_text(root.certificate)
    (tmp_path / "client.pem").write_text(client.certificate)
    said = openssl(
        "verify", "-purpose", "sslclient", "-x509_strict", "-attime", str(int(NOW)),
        "-CAfile", str(tmp_path / "ca.pem"), str(tmp_path / "client.pem"),
    )  # fmt: skip
    assert said.strip().endswith("OK"), said
    server = openssl(
        "verify", "-purpose", "sslserver", "-attime", str(int(NOW)),
        "-CAfile", str(tmp_path / "ca.pem"), str(tmp_path / "client.pem"),
    )  # fmt: skip
    assert "OK" not in server, "a machine can't pose as the gateway"
    printed = openssl(
        "x509", "-in", str(tmp_path / "client.pem"), "-noout", "-fingerprint", "-sha1", "-subject"
    )
    assert client.thumbprint in printed.replace(":", "")
    assert "edge-1.plant.example.com" in printed


def test_the_data_of_a_gateway_is_base64_of_der(root: Pair) -> None:
    assert "\n" not in root.public_data
    assert "BEGIN" not in root.public_data
    assert x509.load_der_x509_certificate(base64.b64decode(root.public_data)).subject.rfc4514_string() == (
        "CN=aks-flexnode VPN plant"
    )


def test_a_client_never_outlives_its_root(root: Pair) -> None:
    assert new_client(root, "edge-1", NOW, 100_000).expires == root.expires
    assert new_client(root, "edge-1", NOW, 30).expires == NOW + 30 * 86400


def test_a_name_that_is_too_long_for_a_subject_is_told_apart(root: Pair) -> None:
    names = [f"{'a' * 60}.{end * 60}" for end in "bc"]
    found = [
        x509.load_pem_x509_certificate(new_client(root, name, NOW, 1).certificate.encode()) for name in names
    ]
    assert len({one.subject.rfc4514_string() for one in found}) == 2
    full = found[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert full.get_values_for_type(x509.DNSName) == [names[0]]


def test_keys_are_not_shown(root: Pair) -> None:
    assert "PRIVATE" not in repr(root)


def encrypted(pair: Pair, passphrase: str) -> str:
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(passphrase.encode()),
    ).decode()


def test_a_given_root(root: Pair) -> None:
    assert given_root(root.certificate, root.key, "", NOW) == root
    assert given_root(root.certificate, encrypted(root, "secret words"), "secret words", NOW) == root


@pytest.mark.parametrize("case", ["no pem", "wrong passphrase", "another key", "no authority", "expired"])
def test_a_given_root_that_is_no_good(root: Pair, case: str) -> None:
    client = new_client(root, "edge-1", NOW, 30)
    given = {
        "no pem": ("x", root.key, "", NOW),
        "wrong passphrase": (root.certificate, encrypted(root, "secret words"), "other words", NOW),
        "another key": (root.certificate, client.key, "", NOW),
        "no authority": (client.certificate, client.key, "", NOW),
        "expired": (root.certificate, root.key, "", NOW + 4000 * 86400),
    }[case]
    with pytest.raises(RecordUnusable) as caught:
        given_root(*given)
    assert "PRIVATE" not in str(caught.value)
