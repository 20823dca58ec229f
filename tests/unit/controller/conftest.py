# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The servers of these tests, and a login to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure import transport
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arm import Arm
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import (
    Login,
    sign_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.settings import settings_of
from tests.unit.controller.fake_azure import VERSION, FakeAzure
from tests.unit.node.servers import Pki


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries as many as ever, without the pauses that nobody asked for."""
    monkeypatch.setitem(transport.RETRIES, "retry_backoff_factor", 0.01)


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def azure(pki: Pki, tmp_path: Path) -> Iterator[FakeAzure]:
    with FakeAzure().running(pki, tmp_path) as running:
        yield running


@pytest.fixture
def login(azure: FakeAzure) -> Login:
    return sign_in(settings_of({}, azure.environment))


@pytest.fixture
def arm(login: Login) -> Arm:
    return Arm(login, VERSION, poll_interval=0)
