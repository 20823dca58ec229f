# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""How long a run of the node itself may take: its downloads, its drain and its gates."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.agent import GATES
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import store_of
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.own_run import DOWNLOADS, longest_run
from tests.unit.node.fakes import Machine

DEFAULT = DOWNLOADS + 300 + GATES * 120


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({}, DEFAULT),
        ({"upgrade": None}, DEFAULT),
        ({"upgrade": {"drainSeconds": 60, "gateSeconds": 30}}, DOWNLOADS + 60 + GATES * 30),
        ({"upgrade": {"drainSeconds": "600"}}, DEFAULT + 300),
        ({"upgrade": {"drainSeconds": None, "gateSeconds": "soon"}}, DEFAULT),
        ({"upgrade": {"drainSeconds": 7200}}, DEFAULT + 6900),
    ],
    ids=str,
)
def test_it_follows_from_the_document(document: dict[str, Any], expected: float) -> None:
    with Machine.temporary() as machine:
        store = store_of(machine.host)
        assert longest_run(store) == DEFAULT, "no document is stored yet"
        store.set_current_config(document, None)
        assert longest_run(store) == expected
