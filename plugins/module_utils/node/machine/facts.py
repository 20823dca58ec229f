# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the configuration of a node depends on, besides its document: a few facts of the machine."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

from ..config.types.values import Arch
from ..errors import UnsupportedPlatform
from .host import Host

ARCHITECTURES: dict[str, Arch] = {"x86_64": "amd64", "aarch64": "arm64"}
PLATFORMS = frozenset((("ubuntu", "22.04"), ("ubuntu", "24.04"), ("debian", "12"), ("debian", "13")))
UNIT_DIRS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# Services that make swap without a .swap unit of their own (zram-tools, Raspberry Pi OS).
SWAP_SERVICES = frozenset(("zramswap.service", "dphys-swapfile.service", "systemd-zram-setup@.service"))


@dataclass(frozen=True, slots=True)
class Facts:
    """The machine, as far as components need to know it."""

    arch: Arch
    os_id: str
    os_version: str
    hostname: str
    cpus: int
    memory: int  # bytes
    cgroup_v2: bool
    may_lower_oom_score: bool
    resolv_conf: str
    swap_units: tuple[str, ...]
    joined: bool = False  # the kubelet has a certificate of its own

    @property
    def platform(self) -> str:
        """For people: `debian 12 amd64`."""
        return f"{self.os_id} {self.os_version} {self.arch}"


def gather(host: Host, machine: str | None = None) -> Facts:
    """Look at the machine; cheap, read-only. A processor that nothing is built for ends it here."""
    machine = machine or platform.machine()
    if machine not in ARCHITECTURES:
        raise UnsupportedPlatform("this machine can't become a node", why=f"its processor is {machine}")
    release = os_release(host.text("/etc/os-release"))
    stub = "/run/systemd/resolve/resolv.conf"
    return Facts(
        arch=ARCHITECTURES[machine],
        os_id=release.get("ID", "unknown"),
        os_version=release.get("VERSION_ID", "unknown"),
        hostname=hostname(host),
        cpus=os.cpu_count() or 1,
        memory=memory_of(host.text("/proc/meminfo")),
        cgroup_v2=host.exists("/sys/fs/cgroup/cgroup.controllers"),
        may_lower_oom_score=host.may_lower_oom_score(),
        resolv_conf=stub if host.exists(stub) else "/etc/resolv.conf",
        swap_units=swap_units(host),
    )


def hostname(host: Host) -> str:
    """The host name, as a Node name: in lower case."""
    return host.text("/proc/sys/kernel/hostname").strip().lower()


def check_platform(facts: Facts, host: Host) -> None:
    """Refuse a machine that this was not made for, before anything is touched."""
    why = ""
    if (facts.os_id, facts.os_version) not in PLATFORMS:
        why = f"this is {facts.os_id} {facts.os_version}"
    elif not host.exists("/run/systemd/system"):
        why = "systemd does not run here"
    if why:
        raise UnsupportedPlatform("this machine can't become a node", where=facts.hostname, why=why)


def os_release(text: str) -> dict[str, str]:
    """The pairs of /etc/os-release."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip().strip("\"'") for key, value in pairs}


def memory_of(meminfo: str) -> int:
    """Bytes of memory."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def swap_units(host: Host) -> tuple[str, ...]:
    """Units that would bring swap back at boot; those made from fstab go when fstab has no swap."""
    found = {name for directory in UNIT_DIRS for name in host.names(directory)}
    return tuple(sorted(name for name in found if name.endswith(".swap") or name in SWAP_SERVICES))
