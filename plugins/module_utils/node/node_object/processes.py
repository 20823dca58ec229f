# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes behind units: since when each runs, and how often systemd had to restart it."""

from __future__ import annotations

from ..dataclass import dataclass
from ..machine.host import Host
from ..resources.units import unit_states


@dataclass(frozen=True)
class Process:
    """The main process of a unit."""

    state: str  # ActiveState
    restarts: int
    age: float  # seconds since its start; 0: there is no process
    started: float  # by this machine's clock as it is now, which is also the kubelet's


def processes(host: Host, units: tuple[str, ...]) -> dict[str, Process]:
    """The process of each unit, from one call."""
    states = unit_states(host, units)
    now, clock = host.clock.monotonic(), host.clock.now()
    found = {}
    for unit in units:
        state = states[unit]
        start = int(state["ExecMainStartTimestampMonotonic"] or 0) / 1e6
        age = max(now - start, 0.0) if state["ActiveState"] == "active" else 0.0
        found[unit] = Process(state["ActiveState"], int(state["NRestarts"] or 0), age, clock - (now - start))
    return found
