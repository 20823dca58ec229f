# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures of the node's tests."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import Site, a_site

GOLDEN = Path(__file__).parent / "golden"
Golden = Callable[[str, str], None]


@pytest.fixture(scope="session", autouse=True)
def _no_public_ca() -> Iterator[None]:
    """The tests' own CA is the only one: reading all of the system's for each client takes long."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SSL_CERT_FILE", os.devnull)
        environment.setenv("SSL_CERT_DIR", os.devnull)
        yield


@pytest.fixture
def machine() -> Iterator[Machine]:
    """An empty machine. Its files belong to root, as on a real one."""
    assert os.geteuid() == 0, "run the tests as root: what is written belongs to root"
    with Machine.temporary() as made:
        yield made


@pytest.fixture
def debian(machine: Machine) -> Machine:
    """A Debian 12 with systemd, before we come."""
    return machine.furnish()


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    """A CA with a server's and a client's certificate."""
    return Pki.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    """A machine that can join: with a mirror and an API server."""
    debian.path("/var/lib").mkdir(parents=True)
    debian.path("/var/log").mkdir()
    debian.path("/opt").mkdir()
    with a_site(debian, pki) as made:
        yield made


@pytest.fixture
def golden() -> Golden:
    """Compare a text with the golden file of that name; UPDATE_GOLDEN=1 writes the files anew."""

    def compare(name: str, text: str) -> None:
        file = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text(), f"golden/{name} differs; UPDATE_GOLDEN=1 pytest ... writes it anew"

    return compare
