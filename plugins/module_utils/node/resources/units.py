# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd units that must run, and their processes. Enabling one is a Link, its unit file is a File."""

from __future__ import annotations

from os.path import basename
from typing import ClassVar

from ..dataclass import dataclass
from ..machine.host import Host
from ..machine.running import main_process, runs_installed
from .base import Change, Drift, Origin, Vault

# systemd itself gives each unit 90 s to stop and 90 s to start, and containerd and the kubelet wait for each
# other. A shorter limit would call a slow machine a broken one.
SYSTEMCTL_SECONDS = 400.0
# A systemd that reloads, or is busy otherwise, lets those who ask it time out.
TRIES, PAUSE = 5, 5.0
NO_SYSTEMCTL = 127  # no such program, so nothing of it runs
RUNNING = frozenset(("active", "activating", "reloading"))
STEADY = 30.0  # seconds: a process that exits again and again is younger
PROPERTIES = (
    "Id",
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "NRestarts",
    "UnitFileState",
    "ExecMainStatus",
    "ExecMainStartTimestampMonotonic",
)


@dataclass(frozen=True)
class Unit:
    """A unit that must run. The engine starts it, once, after everything else is in place.

    `binary` is the installed file that its main process must be; empty: it has no process of its own.
    `last` units start after the gates: the poll timer must not run before there is a node.
    """

    kind: ClassVar[str] = "unit"
    content_addressed: ClassVar[bool] = False

    unit: str
    binary: str = ""
    drift: Drift = Drift.RESTART
    last: bool = False

    @property
    def name(self) -> str:
        """The unit's full name."""
        return self.unit

    @property
    def mark(self) -> str:
        """Only that it runs."""
        return "running"

    @property
    def restarts(self) -> tuple[str, ...]:
        """A unit that is not running is started in the same pass as those that must restart."""
        return (self.unit,)

    def observe(self, host: Host) -> str:
        """running, stopped, or outdated: it runs, but not the installed binary."""
        pid = main_process(host, self.unit, basename(self.binary)) if self.binary else 0
        if not pid:
            state = unit_states(host, (self.unit,))[self.unit]
            if state["ActiveState"] not in RUNNING:
                return "stopped"
            pid = int(state["MainPID"] or 0)
        if self.binary and pid and not runs_installed(host, pid, self.binary):
            return "outdated"
        return self.mark

    def difference(self, seen: str) -> Change | None:
        """Anything but running is a difference."""
        if seen == self.mark:
            return None
        if seen == "outdated":
            return Change(
                f"restart {self.unit}: it does not run {self.binary}", "another binary\n", "running\n"
            )
        return Change(f"start {self.unit}", "stopped\n", "running\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Whether it ran originally."""
        return {"is": self.mark_now(host, self.unit)}

    def apply(self, host: Host) -> None:
        """Nothing here: starting comes after daemon-reload, in one pass for all units."""

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether it runs now."""
        return "running" if unit_states(host, (name,))[name]["ActiveState"] in RUNNING else "stopped"

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Stop it; a unit that ran originally is started again after its files are restored."""
        if origin["is"] != "running":
            host.run(["systemctl", "stop", name], timeout=SYSTEMCTL_SECONDS)
        return []


def unit_states(host: Host, units: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The state of several units from one call; an error if systemd does not answer."""
    states = {unit: dict.fromkeys(PROPERTIES, "") | {"ActiveState": "inactive"} for unit in units}
    if not units:
        return states
    shown = _answer(host, ["systemctl", "show", f"--property={','.join(PROPERTIES)}", *units])
    for unit, block in zip(units, shown.split("\n\n"), strict=False):
        states[unit] |= dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
    return states


def _answer(host: Host, question: list[str]) -> str:
    """What systemd says. Silence does not mean "stopped": it is asked again, and in the end an error."""
    for _try in range(TRIES - 1):
        done = host.run(question, check=False)
        if done.status in (0, NO_SYSTEMCTL):
            return done.stdout
        host.clock.sleep(PAUSE)
    return host.run(question).stdout


@dataclass(frozen=True)
class Process:
    """The main process of a unit."""

    state: str  # ActiveState
    restarts: int
    age: float  # seconds since its start; 0: there is no process
    started: float  # by this machine's clock as it is now, which is also the kubelet's
    sub_state: str = ""  # SubState

    @property
    def exited(self) -> bool:
        """Whether it has exited, and systemd waits a moment before it starts it again."""
        return self.sub_state.startswith("auto-restart")

    @property
    def exits(self) -> bool:
        """Whether it exits again and again. Once may happen: a kubelet can be faster than its runtime.

        The restarts are counted since someone started the unit: those alone may be of last year.
        """
        return self.exited or (self.state in RUNNING and self.restarts > 1 and self.age < STEADY)


def processes(host: Host, units: tuple[str, ...]) -> dict[str, Process]:
    """The process of each unit, from one call."""
    states = unit_states(host, units)
    now, clock = host.clock.monotonic(), host.clock.now()
    found = {}
    for unit in units:
        state = states[unit]
        start = int(state["ExecMainStartTimestampMonotonic"] or 0) / 1e6
        age = max(now - start, 0.0) if state["ActiveState"] == "active" else 0.0
        found[unit] = Process(
            state["ActiveState"], int(state["NRestarts"] or 0), age, clock - (now - start), state["SubState"]
        )
    return found
