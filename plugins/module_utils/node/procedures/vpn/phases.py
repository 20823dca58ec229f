# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The phases of the VPN, in state.json: before the first change, and after the tunnel works or does not."""

from __future__ import annotations

from ...engine.records.state import Phase, Store
from ...errors import FlexNodeError

VPN_PHASES = frozenset(
    phase.value for phase in (Phase.VPN_BOOTSTRAPPING, Phase.VPN_CONNECTED, Phase.VPN_FAILED)
)


class VpnPhase:
    """The phase of one run. A machine that is a node already stays one: afterwards it is as it was before."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before = store.state()

    @property
    def was_connected(self) -> bool:
        """Whether an earlier run brought the tunnel up, and nothing came after it."""
        return bool(self._before["phase"] == Phase.VPN_CONNECTED.value)

    def begin(self) -> None:
        """Changes begin."""
        self._store.enter(Phase.VPN_BOOTSTRAPPING, **self._leaving)

    def failed(self, error: FlexNodeError) -> None:
        """The tunnel does not work, and neither does what was there before."""
        self._store.enter(Phase.VPN_FAILED, code=error.code, message=error.what, **self._leaving)

    def unchanged(self) -> None:
        """Nothing was changed in the end: the phase is as before, whether that worked or not."""
        details = {name: self._before[name] for name in ("code", "message") if name in self._before}
        self._store.enter(Phase(self._before["phase"]), **details, **self._leaving)

    def done(self) -> None:
        """The tunnel works. A node that did not work before has to show that it does now."""
        if self._store.applied_if_intact() is None:
            self._store.enter(Phase.VPN_CONNECTED, **self._leaving)
            return
        before = str(self._before["phase"])
        if before in (Phase.NODE_FAILED.value, Phase.NODE_BOOTSTRAPPING.value):
            self.unchanged()
        else:
            self._store.enter(Phase.NODE_JOINED, **self._leaving)

    @property
    def _leaving(self) -> dict[str, bool]:
        """An unbootstrap was interrupted: its cordon stays recorded until the join undoes it."""
        left = self._before["phase"] == Phase.RESETTING.value or self._before.get("leaving")
        return {"leaving": True} if left else {}
