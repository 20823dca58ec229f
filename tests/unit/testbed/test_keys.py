# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that several machines share, made while all of them ask: everyone must get the one that stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from testbed.azure.sign_in import tokens
from testbed.basics import files
from testbed.layout import pki, ssh

ASKING = 4


def at_once(ask: Callable[[], object]) -> list[object]:
    """What each of several gets that ask at the same time."""
    start = threading.Barrier(ASKING)

    def one(_: int) -> object:
        start.wait(30)
        return ask()

    with ThreadPoolExecutor(ASKING) as pool:
        return list(pool.map(one, range(ASKING)))


def test_all_get_what_the_first_one_made(tmp_path: Path) -> None:
    """Each has made its own before the first one is there."""
    path, made = tmp_path / "new" / "key", threading.Barrier(ASKING)

    def make() -> str:
        made.wait(30)
        return f"made by {threading.get_ident()}"

    answers = at_once(lambda: files.once(path, make))
    assert answers == [path.read_bytes()] * ASKING
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["key"]  # nothing is left beside it


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("first")
    assert files.once(path, lambda: pytest.fail("made again")) == b"first"


@pytest.mark.parametrize("turn", range(20))
def test_machines_that_start_together_let_the_same_user_in(tmp_path: Path, turn: int) -> None:
    path = tmp_path / "ssh" / "id_ed25519"
    lines = at_once(lambda: ssh.ensure_key(path, "user"))
    assert set(lines) == {ssh.ensure_key(path, "user")}


def test_tokens_are_signed_with_one_key(tmp_path: Path) -> None:
    path = tmp_path / "entra.key"
    numbers = at_once(lambda: tokens.ensure_key(path).private_numbers())
    assert numbers == [tokens.ensure_key(path).private_numbers()] * ASKING


@pytest.mark.parametrize("turn", range(20))
def test_a_certificate_belongs_to_its_key(tmp_path: Path, turn: int) -> None:
    authority = pki.Authority(tmp_path, "ca", "authority")
    at_once(authority.ensure)
    pair = authority.pair
    at_once(lambda: authority.issue("server", "server", names=["127.0.0.1"]))
    issued = authority.issue("server", "server")
    for one in (pair, issued):
        certificate = x509.load_pem_x509_certificate(one.cert.read_bytes())
        key = serialization.load_pem_private_key(one.key.read_bytes(), None)
        assert certificate.public_key() == key.public_key()
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(pair.cert.read_bytes()))


def test_without_its_key_a_ca_signs_nothing(tmp_path: Path) -> None:
    """A new key would sign what nobody trusts."""
    authority = pki.Authority(tmp_path, "ca", "authority")
    authority.ensure()
    authority.pair.key.unlink()
    with pytest.raises(FileNotFoundError):
        authority.issue("server", "server")
