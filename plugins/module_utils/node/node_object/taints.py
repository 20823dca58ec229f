# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Taints of a joined Node. A node may not change its own: it reports what the controller must change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config.model import NodeConfig
from ..engine.state import Store

Taint = dict[str, str]


def taint_changes(config: NodeConfig, store: Store, node: Mapping[str, Any]) -> dict[str, list[Taint]]:
    """What must be changed on the Node; and remember which taints are ours, until they are gone."""
    wanted = [
        {"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in config.node.taints
    ]
    present = [_plain(taint) for taint in node.get("spec", {}).get("taints") or ()]
    keys = {_key(taint) for taint in wanted}
    ours = [taint for taint in store.state().get("taints") or () if _key(taint) not in keys]
    there = {_key(taint) for taint in present}
    gone = [taint for taint in ours if _key(taint) in there]
    remembered = wanted + gone
    if remembered != (store.state().get("taints") or []):
        store.note(taints=remembered or None)
    return {
        "set": [taint for taint in wanted if taint not in present],
        "remove": [{"key": taint["key"], "effect": taint["effect"]} for taint in gone],
    }


def taint_commands(name: str, changes: Mapping[str, list[Taint]]) -> list[str]:
    """The kubectl commands that make these changes."""
    pairs = [f"{taint['key']}={taint['value']}:{taint['effect']}" for taint in changes.get("set", ())]
    pairs += [f"{taint['key']}:{taint['effect']}-" for taint in changes.get("remove", ())]
    return [f"kubectl taint nodes {name} --overwrite {pair}" for pair in pairs]


def _plain(taint: Mapping[str, Any]) -> Taint:
    return {"key": taint["key"], "value": taint.get("value") or "", "effect": taint["effect"]}


def _key(taint: Mapping[str, str]) -> tuple[str, str]:
    return taint["key"], taint["effect"]
