# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules."""

from __future__ import annotations

import os
from typing import ClassVar

from ...dataclass import dataclass
from ...errors import KernelLacks
from ...machine.host import Host
from ..base import Change, Drift, Origin, Vault

MODULES_LOAD = tuple(
    f"{directory}/modules-load.d" for directory in ("/etc", "/run", "/usr/local/lib", "/usr/lib")
)
MODULES_FILE = "/etc/modules-load.d/aks-flex-node.conf"  # ours


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
    users += [file for file in boot_files(host) if file != MODULES_FILE and module in host.text(file).split()]
    return users


def boot_files(host: Host) -> list[str]:
    """The files that name modules to load at boot. A directory beside them is a place to park some."""
    entries = (f"{directory}/{name}" for directory in MODULES_LOAD for name in host.names(directory))
    return [path for path in entries if path.endswith(".conf") and os.path.isfile(host.path(path))]


def provided(host: Host, module: str) -> bool:
    """Without module files, a built-in module is detected by what it provides."""
    if module == "overlay":
        return "\toverlay\n" in host.text("/proc/filesystems")
    if module == "br_netfilter":
        return host.exists("/proc/sys/net/bridge/bridge-nf-call-iptables")
    return False
