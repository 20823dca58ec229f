# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a machine for people. Programs read the status document, whose values stay as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.records.state import Phase
from ..errors import counted

NOTHING = "-"
WELL = (Phase.NOT_STARTED.value, Phase.NODE_JOINED.value)  # phases that need no reason


def in_words(status: Mapping[str, Any]) -> dict[str, str]:
    """What the table of playbook status and `aks-flex-node status` show."""
    node, drift, reason = status["node"], status["drift"], status["reason"]
    return {
        "status": "NotJoined" if node["status"] == "NotConfigured" else node["status"],
        # A machine that is no node has nothing that could differ.
        "drift": NOTHING if "name" not in node else counted(len(drift), "item") if drift else "none",
        "reason": NOTHING if reason == status["phase"] and reason in WELL else reason,
    }
