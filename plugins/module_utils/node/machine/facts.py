# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Facts of the machine that components depend on, besides the configuration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import Any

from ..config.types.values import Arch
from ..dataclass import dataclass
from ..errors import UnsupportedPlatform
from .host import Host
from .layout import KUBELET_DEFAULTS, SYSTEM_PYTHON

ARCHITECTURES: dict[str, Arch] = {"x86_64": "amd64", "aarch64": "arm64"}
PLATFORMS = frozenset((("ubuntu", "22.04"), ("ubuntu", "24.04"), ("debian", "12"), ("debian", "13")))
MACHINE_ID_FILES = ("/etc/machine-id", "/var/lib/dbus/machine-id")
UNIT_DIRS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# Facts that differ by who looks (a sandbox, a container) or by the moment (early at boot, after an update of
# the kernel, a new host name): stored at the join, and read from there until the machine leaves.
STORED = ("cpus", "memory", "may_lower_oom_score", "resolv_conf", "tunnel_address", "hostname")
LOST: Mapping[str, Any] = {"lost": True}  # the stored facts of a node whose state is damaged: there were some
# Services that create swap without a .swap unit.
SWAP_SERVICES = frozenset(
    (
        "armbian-zram-config.service",
        "dphys-swapfile.service",  # Raspberry Pi OS
        "nvzramconfig.service",  # NVIDIA Jetson
        "systemd-zram-setup@.service",
        "zram-config.service",  # Ubuntu
        "zram-swap.service",
        "zramswap.service",  # zram-tools
    )
)


@dataclass(frozen=True)
class Facts:
    """The facts that components use."""

    arch: Arch
    os_id: str
    os_version: str
    hostname: str  # of a node: the name of its Node, which a new host name does not change
    cpus: int
    memory: int  # bytes
    cgroup_v2: bool
    may_lower_oom_score: bool
    resolv_conf: str
    swap_units: tuple[str, ...]
    joined: bool = False  # the kubelet has its credential
    python: str = ""  # of the system, such as 3.11; never stored: a new release of the system has another
    machine_id: str = ""
    tunnel_address: str = ""  # of this machine in the VPN; empty: none, or not known yet

    @property
    def platform(self) -> str:
        """In words, e.g. `debian 12 amd64`."""
        return f"{self.os_id} {self.os_version} {self.arch}"

    @property
    def stored(self) -> dict[str, Any]:
        """The facts that are stored at the join."""
        return {name: value for name in STORED if (value := getattr(self, name)) != ""}


def gather(host: Host, machine: str | None = None, stored: Mapping[str, Any] | None = None) -> Facts:
    """Collect the facts; cheap, read-only. An unsupported processor is an error.

    stored: the facts of the join (`Facts.stored`). They decide, whatever is seen now.
    """
    arch = architecture(machine)
    release = os_release(host.text("/etc/os-release"))
    known = {name: (stored or {}).get(name) for name in STORED}
    lower = known["may_lower_oom_score"]
    return Facts(
        arch=arch,
        os_id=release.get("ID", "unknown"),
        os_version=release.get("VERSION_ID", "unknown"),
        hostname=joined_hostname(host, stored),
        cpus=known["cpus"] or os.cpu_count() or 1,
        memory=known["memory"] or memory_of(host.text("/proc/meminfo")),
        cgroup_v2=host.exists("/sys/fs/cgroup/cgroup.controllers"),
        may_lower_oom_score=host.may_lower_oom_score() if lower is None else lower,
        resolv_conf=known["resolv_conf"] or resolver_file(host),
        swap_units=swap_units(host),
        python=system_python(host),
        machine_id=machine_id(host),
        tunnel_address=known["tunnel_address"] or "",
    )


def resolver_file(host: Host) -> str:
    """The file with the real name servers: with systemd-resolved /etc/resolv.conf names only itself."""
    resolved = "/run/systemd/resolve/resolv.conf"
    return resolved if host.exists(resolved) else "/etc/resolv.conf"


def architecture(machine: str | None = None) -> Arch:
    """The processor, as artifacts name it; an unsupported one is an error."""
    machine = machine or os.uname().machine
    if machine not in ARCHITECTURES:
        raise UnsupportedPlatform("this machine can't become a node", why=f"its processor is {machine}")
    return ARCHITECTURES[machine]


def machine_id(host: Host) -> str:
    """The id of this installation of the system, from where a kubelet reads it; empty: it has none."""
    return next((found for path in MACHINE_ID_FILES if (found := host.text(path).strip())), "")


def hostname(host: Host) -> str:
    """The host name, as a Node name: in lower case."""
    return host.text("/proc/sys/kernel/hostname").strip().lower()


def joined_hostname(host: Host, stored: Mapping[str, Any] | None) -> str:
    """The host name; of a node the name of its Node, as it joined.

    The certificate of a kubelet is valid for that name only. A host name is `localhost` until DHCP has
    answered, and an administrator may change it.
    stored: the facts of the join; those of an earlier release have no name, but its kubelet runs with one.
    """
    if not stored:
        return hostname(host)
    flags = re.search(r"--hostname-override=([^\s\"']+)", host.text(KUBELET_DEFAULTS))
    return str(stored.get("hostname") or (flags[1] if flags else hostname(host)))


def system_python(host: Host) -> str:
    """The version of /usr/bin/python3, which runs the command and Ansible; a link names it."""
    named = re.fullmatch(r"(?:.*/)?python(3\.\d+)", host.stat(SYSTEM_PYTHON).target)
    return named[1] if named else f"{sys.version_info.major}.{sys.version_info.minor}"


def check_platform(facts: Facts, host: Host) -> None:
    """Refuse an unsupported platform, before anything is changed."""
    why = ""
    if (facts.os_id, facts.os_version) not in PLATFORMS:
        why = f"this is {facts.os_id} {facts.os_version}"
    elif not host.exists("/run/systemd/system"):
        why = "systemd is not running"
    if why:
        raise UnsupportedPlatform("this machine can't become a node", where=facts.hostname, why=why)


def os_release(text: str) -> dict[str, str]:
    """The fields of /etc/os-release."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip().strip("\"'") for key, value in pairs}


def memory_of(meminfo: str) -> int:
    """Bytes of memory."""
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def swap_units(host: Host) -> tuple[str, ...]:
    """Units that would enable swap at boot. Units generated from fstab disappear with their fstab line."""
    found = {name for directory in UNIT_DIRS for name in host.names(directory)}
    return tuple(sorted(name for name in found if name.endswith(".swap") or name in SWAP_SERVICES))
