# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long a run that a node makes by itself may take, for a push that finds it at work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..node.components.agent import GATES
from ..node.config.model import UpgradePolicy
from ..node.engine.records.state import Store

DOWNLOADS = 900.0  # seconds: 200 MB by a line of 2 Mbit/s


def longest_run(store: Store) -> float:
    """Seconds for downloads, the drain and all gates, as the document says that is stored now.

    A run stores its document before it downloads or drains anything.
    """
    return seconds_of((store.remembered()[0] or {}).get("upgrade"))


def seconds_of(upgrade: object) -> float:
    """The same of the section `upgrade`, which nobody has parsed."""
    given: Mapping[str, Any] = upgrade if isinstance(upgrade, Mapping) else {}
    known = UpgradePolicy()
    drain = _whole(given.get("drainSeconds"), known.drain_seconds)
    gate = _whole(given.get("gateSeconds"), known.gate_seconds)
    return DOWNLOADS + drain + GATES * gate


def _whole(value: object, default: int) -> int:
    text = str(value).strip()  # quoted digits are numbers, too
    return int(text) if text.isascii() and text.isdigit() else default
