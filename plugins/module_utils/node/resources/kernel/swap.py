# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Active swap."""

from __future__ import annotations

import re
from typing import ClassVar

from ...dataclass import dataclass
from ...machine.host import Host, unescaped
from ...machine.links import real_path
from ..base import Change, Drift, Origin, Vault
from ..units import SYSTEMCTL_SECONDS, unit_states
from .fstab import FSTAB, SWAP_LINE

# Where devices have names that outlive a boot. /dev/mapper first: swap with a random key gets another UUID
# at each boot.
STABLE_NAMES = ("/dev/mapper", "/dev/disk/by-uuid")
TAGS = ("UUID", "LABEL", "PARTUUID", "PARTLABEL")  # instead of a path, in fstab
DISCARD = re.compile(r"discard(=once|=pages)?")
IN_MEMORY = re.compile(r"/dev/(zram\d+)")


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
        """Which areas were active, their names after another boot, and which units that create some."""
        areas = active_swap(host)
        states = unit_states(host, creators(self.units, [area for area, _priority in areas]))
        return {
            "areas": areas,
            "stable": {area: name for area, _priority in areas if (name := stable_name(host, area))},
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
        areas = {present_name(host, area, origin): priority for area, priority in origin["areas"]}
        if others := active - set(areas):
            return [f"swap on {area}" for area in sorted(others)]
        gone = [
            area
            for area, priority in areas.items()
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
    options = [] if priority.startswith("-") else ["--priority", priority]
    options += discard_option(host, area)
    return host.run(["swapon", *options, "--", area], timeout=600, check=False).status == 0


def active_swap(host: Host) -> list[tuple[str, str]]:
    """Active swap areas with their priorities, as the kernel lists them."""
    rows = [line.split() for line in host.text("/proc/swaps").splitlines()[1:]]
    return [(unescaped(row[0]), row[4]) for row in rows if len(row) >= 5]


def creators(units: tuple[str, ...], areas: list[str]) -> tuple[str, ...]:
    """The units that may have created some of these areas; a template has an instance per zram device."""
    devices = [match[1] for area in areas if (match := IN_MEMORY.fullmatch(area))]
    plain = {unit for unit in units if "@." not in unit}
    instances = {unit.replace("@.", f"@{device}.") for unit in units for device in devices}
    return tuple(sorted(plain | instances)) if areas else ()


def stable_name(host: Host, area: str) -> str:
    """A name of a device that outlives a boot, which may number devices anew; empty: it has none."""
    names = (f"{directory}/{name}" for directory in STABLE_NAMES for name in host.names(directory))
    return next((name for name in names if real_path(host, name) == area), "")


def present_name(host: Host, area: str, origin: Origin) -> str:
    """The kernel's present name of an original area; if its device is gone, the name that led to it.

    An origin of an earlier version has the kernel's original name only.
    """
    stable: dict[str, str] = origin.get("stable", {})
    return real_path(host, stable[area]) if area in stable else area


def discard_option(host: Host, area: str) -> list[str]:
    """Whether freed blocks are discarded, which /proc/swaps does not show: as fstab says, restored by now."""
    for line in host.text(FSTAB).splitlines():
        if SWAP_LINE.match(line) and real_path(host, fstab_path(line.split()[0])) == area:
            options = [option for field in line.split()[3:4] for option in field.split(",")]
            return [f"--{option}" for option in options if DISCARD.fullmatch(option)]
    return []


def fstab_path(device: str) -> str:
    """The path of a device in fstab: UUID=x -> /dev/disk/by-uuid/x."""
    tag, _equals, value = device.partition("=")
    name = value.strip('"')
    return f"/dev/disk/by-{tag.lower()}/{name}" if tag in TAGS else unescaped(device)
