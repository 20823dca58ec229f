# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Arc agent of a node did not work when a run ended, and does now: no other run would look again."""

from __future__ import annotations

from ...engine.records.state import Phase, Store
from ...errors import FlexNodeError
from ...machine.host import Host
from .errors import ArcUnhealthy
from .registration import healthy


def recover(host: Host, store: Store) -> bool:
    """End the failure if the agent works; True: it does. The caller holds the lease.

    Whatever else failed, as a refused registration, needs the run that wanted it.
    """
    state = store.state()
    if (state["phase"], state.get("code")) != (Phase.ARC_FAILED.value, ArcUnhealthy.code):
        return False
    if state.get("leaving") or store.applied_if_intact() is None:
        return False
    try:
        healthy(host, 0)
    except FlexNodeError:
        return False
    store.enter(Phase.NODE_JOINED)
    return True
