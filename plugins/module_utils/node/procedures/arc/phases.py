# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of a registration with Azure Arc, in state.json: before the first change, and after the last."""

from __future__ import annotations

from ...engine.records.state import Phase, Store
from ...errors import FlexNodeError

ARC_PHASES = frozenset(
    phase.value for phase in (Phase.ARC_REGISTERING, Phase.ARC_REGISTERED, Phase.ARC_FAILED)
)


class ArcPhase:
    """The phase of one run. A machine that is a node already stays one: afterwards it is NodeJoined again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before = store.state()

    def begin(self) -> None:
        """Changes begin."""
        self._store.enter(Phase.ARC_REGISTERING, **self._leaving)

    def failed(self, error: FlexNodeError) -> None:
        """Record the failure, unless nothing was begun, now or earlier: then nothing is recorded here."""
        if self._store.state()["phase"] != Phase.NOT_STARTED.value:
            self._store.enter(Phase.ARC_FAILED, code=error.code, message=error.what, **self._leaving)

    def done(self) -> None:
        """The machine is registered, and its agent works."""
        phase = self._store.state()["phase"]
        if self._store.applied_if_intact() is not None:
            if phase in ARC_PHASES:
                self._store.enter(Phase.NODE_JOINED, **self._leaving)
        elif phase in (*ARC_PHASES, Phase.NOT_STARTED.value):
            self._store.enter(Phase.ARC_REGISTERED, **self._leaving)

    @property
    def _leaving(self) -> dict[str, bool]:
        """An unbootstrap was interrupted: its cordon stays recorded until the join undoes it."""
        left = self._before["phase"] == Phase.RESETTING.value or self._before.get("leaving")
        return {"leaving": True} if left else {}


def forget_phase(store: Store) -> None:
    """The machine is not registered any more. One that is no node has no phase left."""
    if store.state()["phase"] not in ARC_PHASES:
        return
    if store.applied_if_intact() is not None:
        store.enter(Phase.NODE_JOINED)
    elif store.remembered()[0] is None:
        store.forget_state()
    else:
        store.enter(Phase.NOT_STARTED)
