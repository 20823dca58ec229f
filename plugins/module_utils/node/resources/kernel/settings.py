# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings (sysctls)."""

from __future__ import annotations

from typing import ClassVar

from ...dataclass import dataclass
from ...errors import KernelLacks
from ...machine.host import Host
from ..base import Change, Drift, Origin, Vault

FORWARDING = "net.ipv4.ip_forward"
INTERFACES = "/proc/sys/net/ipv4/conf"


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
        """The original value, and those that the kernel resets with it."""
        resets = reset_with(host, self.setting)
        return {"value": self.mark_now(host, self.setting), **({"resets": resets} if resets else {})}

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
        """Restore the original value, then those that the kernel has reset with it."""
        if origin["value"] and not host.stat(sysctl_path(name)).absent:
            host.set_value(sysctl_path(name), origin["value"])
            for path, value in still_reset(host, origin).items():
                host.set_value(path, value)
        return []


def sysctl_path(setting: str) -> str:
    """net.ipv4.ip_forward -> /proc/sys/net/ipv4/ip_forward."""
    return "/proc/sys/" + setting.replace(".", "/")


def reset_with(host: Host, setting: str) -> dict[str, str]:
    """Values that the kernel resets when a setting changes, by their paths.

    ip_forward, and no other setting of a node, has such: `forwarding` of each interface and of future ones
    (`default`) becomes the same, and `accept_redirects` of all the opposite. all/forwarding is ip_forward.
    """
    if setting != FORWARDING:
        return {}
    paths = [f"{INTERFACES}/{name}/forwarding" for name in host.names(INTERFACES) if name != "all"]
    values = {path: host.text(path).strip() for path in (f"{INTERFACES}/all/accept_redirects", *paths)}
    return {path: value for path, value in values.items() if value}


def still_reset(host: Host, origin: Origin) -> dict[str, str]:
    """Original values that were reset with a setting; not of interfaces that are gone.

    An origin of an earlier version has none.
    """
    resets: dict[str, str] = origin.get("resets", {})
    return {path: value for path, value in resets.items() if host.text(path).strip() not in ("", value)}
