# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine that can join: with a mirror and an API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import Site, a_site


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    debian.path("/var/lib").mkdir(parents=True)
    debian.path("/var/log").mkdir()
    debian.path("/opt").mkdir()
    with a_site(debian, pki) as made:
        yield made
