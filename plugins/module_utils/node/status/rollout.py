# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rollouts in the status: the ring of this node, what it waits for, what the cluster's record says now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..engine.records.state import Store
from ..errors import FlexNodeError
from ..machine.clock import iso
from ..node_object.this_node import ThisNode
from ..rollout.errors import RolloutUnknown
from ..rollout.local import HOLDS, STOPPED, UNKNOWN, Local
from ..rollout.record import Shared
from ..rollout.semaphore import failed, read_shared

NEEDS_SOMEONE = (STOPPED, UNKNOWN)  # states in which an administrator has to do something


def rollout_of(store: Store) -> dict[str, Any]:
    """What this machine remembers; empty: it takes no part in rollouts."""
    local = Local.of(store)
    if not (local.software or local.slot or local.waiting):
        return {}
    found: dict[str, Any] = {"ring": local.ring, "state": "", "message": ""}
    if local.waiting:
        found |= {key: local.waiting.get(key, "") for key in ("state", "code", "message", "what", "since")}
    elif local.slot:
        found |= {"state": HOLDS, "what": local.slot.change.what}
    return found


def cluster_now(node: ThisNode) -> dict[str, Any]:
    """The cluster's record as it is now: who is being changed, and how far the newest rollout got."""
    try:
        shared, _found, _now = read_shared(node.api(attempts=2))
    except FlexNodeError as error:
        found = error if isinstance(error, RolloutUnknown) else failed("read", error)
        return {"unknown": f"{found.code} {found.what}: {found.why}"}
    return in_short(shared)


def in_short(shared: Shared) -> dict[str, Any]:
    """The part of the record that concerns all nodes."""
    newest = max(shared.rollouts.values(), key=lambda one: one.started, default=None)
    return {
        "nodes": len(shared.nodes),
        "holders": {
            name: {"what": held.what, "since": iso(held.since)}
            for name, held in sorted(shared.holders.items())
        },
        "rollout": newest
        and {
            "what": newest.what,
            "started": iso(newest.started),
            "done": {ring or "-": part.nodes for ring, part in sorted(newest.done.items())},
            "rolledBack": {name: back.code for name, back in sorted(newest.rolled_back.items())},
            "stopped": newest.stopped,
        },
    }


def rollout_lines(rollout: Mapping[str, Any]) -> list[str]:
    """The same for people; no lines: this machine takes no part in rollouts."""
    if not rollout:
        return []
    ring = f"ring {rollout['ring']}" if rollout["ring"] else "no ring"
    mine = f"; {rollout['message']}" if rollout["message"] else ""
    if rollout["state"] == HOLDS:
        mine = f"; it is being changed ({rollout['what']})"
    lines = [f"{ring}{mine}"]
    seen = rollout.get("cluster") or {}
    if seen.get("unknown"):
        lines.append(str(seen["unknown"]))
    for name, held in (seen.get("holders") or {}).items():
        lines.append(f"being changed: {name} ({held['what']}, since {held['since']})")
    if newest := seen.get("rollout"):
        parts = [
            f"{nodes} done in {'ring ' + ring if ring != '-' else 'no ring'}"
            for ring, nodes in newest["done"].items()
        ]
        parts += [f"{name} rolled back ({code})" for name, code in newest["rolledBack"].items()]
        parts += ["stopped"] if newest["stopped"] else []
        lines.append(
            f"{newest['what']}, started {newest['started']}: {', '.join(parts) or 'nothing done yet'}"
        )
    return lines
