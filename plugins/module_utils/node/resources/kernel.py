# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel state: modules, sysctls, swap."""

from __future__ import annotations

import re
from os.path import basename
from typing import ClassVar

from ..dataclass import dataclass
from ..errors import ForeignPath, KernelLacks
from ..machine.host import Host, unescaped
from ..machine.links import real_path
from .base import Change, Drift, Origin, Vault
from .paths import capture_path, path_mark, restore_path
from .units import SYSTEMCTL_SECONDS, unit_states

FSTAB = "/etc/fstab"
FSTAB_NOTE = "# off for Kubernetes (aks-flex-node): "
MODULES_LOAD = tuple(
    f"{directory}/modules-load.d" for directory in ("/etc", "/run", "/usr/local/lib", "/usr/lib")
)
MODULES_FILE = "/etc/modules-load.d/aks-flex-node.conf"  # ours
SWAP_LINE = re.compile(r"^\s*[^#\s]\S*\s+\S+\s+swap(\s|$)")


@dataclass(frozen=True)
class KernelModule:
    """A kernel module, loaded or built in. At boot it is loaded by a file in /etc/modules-load.d."""

    kind: ClassVar[str] = "module"
    content_addressed: ClassVar[bool] = False

    module: str
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The module's name."""
        return self.module

    @property
    def mark(self) -> str:
        """A module has no other state."""
        return "loaded"

    def observe(self, host: Host) -> str:
        """loaded or absent; built into the kernel counts as loaded."""
        return self.mark_now(host, self.module)

    def difference(self, seen: str) -> Change | None:
        """Anything but loaded is a difference."""
        return None if seen == "loaded" else Change(f"load kernel module {self.module}", "", "loaded\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """Whether it was loaded originally."""
        return {"is": self.mark_now(host, self.module)}

    def apply(self, host: Host) -> None:
        """Load it."""
        done = host.run(["modprobe", "--", self.module], check=False)
        if done.status != 0:
            raise KernelLacks(
                what=f"kernel module {self.module} can't be loaded",
                where=f"kernel {host.text('/proc/sys/kernel/osrelease').strip()}",
                why=(done.stderr or "modprobe printed no reason").strip(),
                fix="install the kernel's modules (linux-modules-extra on Ubuntu) or boot another kernel",
            )

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Loaded, built in (both have a directory or an entry), or absent."""
        if host.exists(f"/sys/module/{name}") or provided(host, name):
            return "loaded"  # without the list of built-in modules, which a hardened service can't read
        release = host.text("/proc/sys/kernel/osrelease").strip()
        built_in = host.text(f"/lib/modules/{release}/modules.builtin")
        return "loaded" if f"/{name}.ko" in built_in else "absent"

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Unload it if it was not loaded before and nobody uses it by now; the next boot does not load it."""
        if origin["is"] != "absent":
            return []
        users = module_users(host, name)
        if users or host.run(["rmmod", name], check=False).status == 0:
            return users
        return ["the kernel, which refuses to unload it"]


def module_users(host: Host, module: str) -> list[str]:
    """Who would miss a module; one that is built in can't be unloaded.

    Only bridges show who uses br_netfilter: loaded, it makes the packet filter see what they forward.
    """
    count = host.text(f"/sys/module/{module}/refcnt").strip()
    users = [] if count == "0" else [f"{count or 'all'} users of module {module}"]
    if module == "br_netfilter":
        links = host.names("/sys/class/net")
        users += [f"bridge {link}" for link in links if host.exists(f"/sys/class/net/{link}/bridge")]
    files = (f"{directory}/{name}" for directory in MODULES_LOAD for name in host.names(directory))
    users += [file for file in files if file != MODULES_FILE and module in host.text(file).split()]
    return users


def provided(host: Host, module: str) -> bool:
    """Without module files, a built-in module is detected by what it provides."""
    if module == "overlay":
        return "\toverlay\n" in host.text("/proc/filesystems")
    if module == "br_netfilter":
        return host.exists("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return False


@dataclass(frozen=True)
class Sysctl:
    """A kernel setting as it is now. At boot it is set by a file in /etc/sysctl.d."""

    kind: ClassVar[str] = "sysctl"
    content_addressed: ClassVar[bool] = False

    setting: str
    value: str
    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.setting

    @property
    def mark(self) -> str:
        """Its value."""
        return self.value

    def observe(self, host: Host) -> str:
        """The present value, empty where the kernel has no such setting."""
        return self.mark_now(host, self.setting)

    def difference(self, seen: str) -> Change | None:
        """Compare the value."""
        if seen == self.value:
            return None
        return Change(f"set {self.setting} = {self.value}", f"{seen}\n" if seen else "", f"{self.value}\n")

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The original value."""
        return {"value": self.mark_now(host, self.setting)}

    def apply(self, host: Host) -> None:
        """Set it now."""
        path = sysctl_path(self.setting)
        if host.stat(path).absent:
            raise KernelLacks(
                what=f"the kernel has no setting {self.setting}",
                where=path,
                why="the module that provides it is not loaded or not built",
                fix="check `modprobe br_netfilter` and the kernel's configuration",
            )
        host.set_value(path, self.value)

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """The present value."""
        return host.text(sysctl_path(name)).strip()

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Restore the original value."""
        if origin["value"] and not host.stat(sysctl_path(name)).absent:
            host.set_value(sysctl_path(name), origin["value"])
        return []


def sysctl_path(setting: str) -> str:
    """net.ipv4.ip_forward -> /proc/sys/net/ipv4/ip_forward."""
    return "/proc/sys/" + setting.replace(".", "/")


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


@dataclass(frozen=True)
class FstabSwap:
    """No swap in fstab: swap lines are commented out with a note, all other lines stay."""

    kind: ClassVar[str] = "fstab"
    content_addressed: ClassVar[bool] = False
    name: ClassVar[str] = FSTAB
    mark: ClassVar[str] = "no swap"

    drift: Drift = Drift.REPAIR
    restarts: tuple[str, ...] = ()

    def observe(self, host: Host) -> str:
        """The table as it is; a table that needs a change, but must not be written, is an error."""
        table = host.text(FSTAB)
        if without_swap(table) != table:
            table_file(host)
        return table

    def difference(self, seen: str) -> Change | None:
        """Any swap line that is not a comment is a difference. Other lines may contain passwords."""
        swap = "".join(line for line in seen.splitlines(keepends=True) if SWAP_LINE.match(line))
        return Change(f"comment out swap in {FSTAB}", swap, without_swap(swap)) if swap else None

    def capture(self, host: Host, vault: Vault) -> Origin:
        """The whole file, so that an otherwise unchanged one can be restored byte for byte."""
        place = table_file(host)
        return {**capture_path(host, place, vault), "real": place}

    def apply(self, host: Host) -> None:
        """Comment the lines out, keep mode and owner."""
        place = table_file(host)
        _write(host, place, without_swap(_text(host.read(place) or b"")))

    @classmethod
    def mark_now(cls, host: Host, name: str) -> str:
        """Whether swap lines are commented out."""
        table = host.text(name)
        return cls.mark if without_swap(table) == table else path_mark(host, real_path(host, name))

    @classmethod
    def restore(cls, host: Host, name: str, origin: Origin, vault: Vault) -> list[str]:
        """Byte for byte if nothing else changed; otherwise only remove the notes from the present text."""
        place = table_file(host)
        before = _text(vault.kept(origin["content"]))
        now = _text(host.read(place) or b"")
        if now == without_swap(before) and place == origin.get("real", FSTAB):
            return restore_path(host, place, origin, vault)
        _write(host, place, now.replace(FSTAB_NOTE, ""))
        return []


def table_file(host: Host) -> str:
    """The file itself: if /etc/fstab is a link, the link stays, and the file behind it is written."""
    if host.stat(FSTAB).is_ != "link":
        return FSTAB
    place = real_path(host, FSTAB)
    state = host.stat(place)
    if state.is_ != "file" or state.uid != 0:
        raise ForeignPath(
            what=f"{FSTAB} is a link to something that is not changed",
            where=place,
            why=f"it is a {state.is_}" if state.is_ != "file" else "root does not own it",
            fix=f"turn swap off in it by hand, or replace {FSTAB} by a file",
        )
    return place


def without_swap(table: str) -> str:
    """An fstab whose swap lines are comments that say why."""
    return "".join(
        FSTAB_NOTE + line if SWAP_LINE.match(line) else line for line in table.splitlines(keepends=True)
    )


def _text(content: bytes) -> str:
    """A table of any encoding as text that encodes to the same bytes."""
    return content.decode(errors="surrogateescape")


def _write(host: Host, place: str, table: str) -> None:
    """Write the table atomically, with the mode and owner that it has."""
    state = host.stat(place)
    content = table.encode(errors="surrogateescape")
    host.write(place, content, state.mode, uid=state.uid, gid=state.gid)
