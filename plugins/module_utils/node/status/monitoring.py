# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How this machine follows its configuration."""

from __future__ import annotations

from typing import Any

from ..engine.records.state import Store
from ..net.answer import shown
from ..sources.watched import Watched

FAILING, BLOCKED = "Failing", "Blocked"


def monitoring_of(store: Store) -> dict[str, Any]:
    """The URL that is polled, and the last error."""
    watched = Watched.of(store.source())
    if watched is None:
        return {"status": "NotConfigured"}
    failure, blocked = store.monitoring(), watched.blocked
    return {
        "status": BLOCKED if blocked else FAILING if failure else "Ok",
        "url": shown(watched.url),
        "version": watched.version,
        "blockedVersion": blocked.version if blocked else None,
        **(failure or {"ok": True}),
    }
