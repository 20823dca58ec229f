# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which units a plan starts or restarts, in which order, and how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..machine.host import Host
from ..resources.units import RUNNING, SYSTEMCTL_SECONDS, Unit, unit_states
from .orphans import Orphan
from .plan import Plan

Progress = Callable[[str], None]  # receives one line for each step of a run


def silent(_line: str) -> None:
    """Discard the progress of a run."""


def running_units(plan: Plan, host: Host) -> frozenset[str]:
    """The units named by a plan that run now."""
    named = {unit for step in plan.steps for unit in step.resource.restarts} | set(plan.restarts)
    states = unit_states(host, tuple(sorted(named)))
    return frozenset(unit for unit, state in states.items() if state["ActiveState"] in RUNNING)


def restart_order(plan: Plan, running: frozenset[str]) -> tuple[list[str], list[str]]:
    """Units to start or restart, once each, in plan order; and those that start after the gates.

    A changed file restarts a unit only if that unit runs: preparing a machine image starts nothing.
    """
    ordered: dict[str, None] = {}
    last = [
        step.resource.name for step in plan.steps if isinstance(step.resource, Unit) and step.resource.last
    ]
    stopped = [step.resource.name for step in plan.steps if isinstance(step.resource, Orphan)]
    for step in plan.steps:
        for unit in step.resource.restarts:
            if (unit in running and unit not in stopped) or isinstance(step.resource, Unit):
                ordered[unit] = None
    return [unit for unit in ordered | dict.fromkeys(plan.restarts) if unit not in last], last


def reload_and_restart(host: Host, reload: bool, units: Sequence[str], progress: Progress) -> None:
    """One daemon-reload, one restart for all units. The gates report failed units, with their log."""
    if reload:
        host.run(["systemctl", "daemon-reload"], timeout=SYSTEMCTL_SECONDS)
    if units:
        progress(f"start {', '.join(units)}")
        host.run(["systemctl", "restart", *units], timeout=SYSTEMCTL_SECONDS, check=False)
