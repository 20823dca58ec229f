# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints of a joined Node. A node may not change its own: it reports what the controller must change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..config.model import NodeConfig

Taint = dict[str, str]


def taint_changes(
    config: NodeConfig, known: Sequence[Taint], node: Mapping[str, Any]
) -> tuple[dict[str, list[Taint]], list[Taint]]:
    """What must be changed on the Node; and the taints to remember as ours: until they are gone.

    known: the taints that were remembered last time.
    """
    wanted = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in config.node.taints
    ]
    present = [_plain(taint) for taint in node.get("spec", {}).get("taints") or ()]
    keys = {_key(taint) for taint in wanted}
    there = {_key(taint) for taint in present}
    unwanted = [taint for taint in known if _key(taint) not in keys and _key(taint) in there]
    changes = {
        "set": [taint for taint in wanted if taint not in present],
        "remove": [{"key": taint["key"], "effect": taint["effect"]} for taint in unwanted],
    }
    return changes, wanted + unwanted


def _plain(taint: Mapping[str, Any]) -> Taint:
    return {"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]}


def _key(taint: Mapping[str, str]) -> tuple[str, str]:
    return taint["key"], taint["effect"]
