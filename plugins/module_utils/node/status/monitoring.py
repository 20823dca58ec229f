# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How this machine follows its configuration."""

from __future__ import annotations

from typing import Any

from ..engine.records.state import Store
from ..errors import StateCorrupt
from ..net.answer import shown
from ..sources.machines import cluster_and_pool, is_machine, pool_of
from ..sources.watched import Watched

FAILING, BLOCKED, WAITING = "Failing", "Blocked", "Waiting"


def monitoring_of(store: Store, now: str) -> dict[str, Any]:
    """The URL that is polled, and the last error. now: since when, of an error that no poll has recorded."""
    try:
        watched = Watched.of(store.source())
    except StateCorrupt as error:
        unknown = {"status": FAILING, "url": "", "version": None, "blockedVersion": None}
        return {**unknown, **damaged(store, error, now)}
    if watched is None:
        return {"status": "NotConfigured"}
    failure, blocked = store.monitoring(), watched.blocked
    return {
        "status": BLOCKED if blocked else FAILING if failure else WAITING if watched.waiting else "Ok",
        **kind_of(watched),
        "url": shown(watched.url),
        "version": watched.version,
        "blockedVersion": blocked.version if blocked else None,
        **({"waiting": watched.waiting} if watched.waiting else {}),
        **({"olderVersion": watched.older} if watched.older else {}),
        **(failure or {"ok": True}),
    }


def damaged(store: Store, error: StateCorrupt, now: str) -> dict[str, Any]:
    """The record of what is polled is damaged: the failure, as polls record it."""
    known = store.monitoring()
    return {
        "ok": False,
        "code": error.code,
        "message": f"{error.where}, the record of what this machine polls, is damaged: {error.why}",
        "since": known["since"] if known.get("code") == error.code else now,
    }


def kind_of(watched: Watched) -> dict[str, str]:
    """What is polled: the machine of a FlexNodes pool, a flexNodeConfig resource, or a URL."""
    if not watched.resource:
        return {"kind": "url"}
    if not is_machine(watched.resource):
        return {"kind": "flexNodeConfig", "resource": watched.resource}
    pool = cluster_and_pool(pool_of(watched.resource))[1]
    return {"kind": "machine", "resource": watched.resource, "pool": pool}
