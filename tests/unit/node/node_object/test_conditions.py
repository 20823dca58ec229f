# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a Node reports."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.conditions import (
    ready_condition,
)
from tests.unit.node.fake_api import a_node


@pytest.mark.parametrize(
    ("node", "ready", "message"),
    [
        ({}, False, "the kubelet has not reported yet"),
        ({"status": {"conditions": []}}, False, "the kubelet has not reported yet"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, False, ""),
        (a_node(), True, "kubelet is posting ready status"),
    ],
)
def test_readiness(node: dict[str, Any], ready: bool, message: str) -> None:
    assert ready_condition(node) == (ready, message)
