# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Active swap."""

from __future__ import annotations

from os.path import basename
from typing import ClassVar

from ...dataclass import dataclass
from ...machine.host import Host, unescaped
from ..base import Change, Drift, Origin, Vault
from ..units import SYSTEMCTL_SECONDS, unit_states


@dataclass(frozen=True)
class SwapOff:
    """No active swap."""

    kind: ClassVar[str] = "swap"
    content_addressed: ClassVar[bool] = False
    name: ClassVar[str] = "active"
    mark: ClassVar[str] = ""

    units: tuple[str, ...] = ()  # those that create swap at boot
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    def observe(self, host: Host) -> list[tuple[str, str]]:
        """Active swap areas and their priorities."""
        return active_swap(host)

    def difference(self, seen: list[tuple[str, str]]) -> Change | None:
        """Any active area is a difference."""
        if not seen:
            return None
        areas = [area for area, _priority in seen]
        return Change(f"turn off swap on {', '.join(areas)}", "\n".join(areas) + "\n", "")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Which areas were active, and which units that create some."""
        areas = active_swap(host)
        devices = [basename(area) for area, _priority in areas]
        instances = {unit.replace("@.", f"@{device}.") for unit in self.units for device in devices}
        states = unit_states(host, tuple(sorted(instances)))
        return {
            "areas": areas,
            "units": [unit for unit, now in states.items() if now["ActiveState"] == "active"],
        }

    def apply(self, host: Host) -> None:
        """Turn each area off."""
        for area, _priority in active_swap(host):
            host.run(["swapoff", "--", area], timeout=600)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The active areas as one text."""
        return ",".join(area for area, _priority in active_swap(host))

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Turn the original areas on again, with their priority, unless other swap is active by now."""
        active = {area for area, _priority in active_swap(host)}
        if others := active - {area for area, _priority in origin["areas"]}:
            return [f"swap on {area}" for area in sorted(others)]
        gone = [
            area
            for area, priority in origin["areas"]
            if area not in active and not _swap_on(host, area, priority)
        ]
        if gone and origin.get("units"):
            # Compressed memory does not outlive a boot: whatever created it was masked, and creates it again.
            host.run(["systemctl", "daemon-reload"], timeout=SYSTEMCTL_SECONDS, check=False)
            host.run(["systemctl", "restart", *origin["units"]], timeout=SYSTEMCTL_SECONDS, check=False)
            back = {area for area, _priority in active_swap(host)}
            gone = [area for area in gone if area not in back]
        return [f"swap on {area}" for area in gone]


def _swap_on(host: Host, area: str, priority: str) -> bool:
    option = [] if priority.startswith("-") else ["--priority", priority]
    return host.run(["swapon", *option, "--", area], timeout=600, check=False).status == 0


def active_swap(host: Host) -> list[tuple[str, str]]:
    """Active swap areas with their priorities, as the kernel lists them."""
    rows = [line.split() for line in host.text("/proc/swaps").splitlines()[1:]]
    return [(unescaped(row[0]), row[4]) for row in rows if len(row) >= 5]
