# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the machine: reads files, runs no command, changes nothing. Fast enough for every join."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...components.exec_plugin import uses_tokens
from ...config.model import NodeConfig
from ...dataclass import dataclass, replace
from ...drift.other_owners import foreign_units
from ...engine.records.name import own_name
from ...engine.records.state import Store, store_of
from ...errors import FlexNodeError
from ...machine.facts import memory_of, os_release
from ...machine.host import Host, unescaped
from ...machine.layout import KUBELET, PROGRAM_DIR
from ...resources.kernel.modules import KernelModule
from ..seen import Disk, Machine, Swap
from .network import default_mtus, links, listeners, nameservers, owner_of, ports_of
from .parallel import together

MODULES = ("overlay", "br_netfilter", "nf_conntrack")
TOOLS = ("mount", "umount", "modprobe", "iptables", "nft", "openvpn")
TUN_DEVICE, SOURCES = "/dev/net/tun", "/etc/apt/sources.list"
TOOL_DIRS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin")
# Names of processes that would conflict, however they were started (a snap, a script, another unit).
RIVALS = frozenset(("dockerd", "containerd", "kubelet", "crio", "k3s-server", "k3s-agent", "rke2"))
PROXY_NAMES = ("http_proxy", "https_proxy", "no_proxy")
KUBELET_DIR, CNI_DIR = "/var/lib/kubelet", "/etc/cni/net.d"
DISK_SECONDS = 2.0  # a network file system that hangs never answers

StatVfs = Callable[[str], os.statvfs_result]


@dataclass(frozen=True)
class Ways:
    """Sources of what is not in a file; tests replace them."""

    machine: str = ""  # uname -m
    euid: int | None = None
    statvfs: StatVfs = os.statvfs
    disk_seconds: float = DISK_SECONDS


def probe_machine(host: Host, config: NodeConfig | None, ways: Ways | None = None) -> Machine:
    """Everything that the checks need to know about the machine itself."""
    ways = ways or Ways()
    root = (os.geteuid() if ways.euid is None else ways.euid) == 0
    release = os_release(host.text("/etc/os-release"))
    meminfo = host.text("/proc/meminfo")
    to_load = tuple(name for name in MODULES if not loaded(host, name))
    machine = Machine(
        machine=ways.machine or os.uname().machine,
        os_id=release.get("ID", "unknown"),
        os_version=release.get("VERSION_ID", "unknown"),
        hostname=own_name(host),
        root=root,
        systemd=host.exists("/run/systemd/system"),
        cgroup_v2=host.exists("/sys/fs/cgroup/cgroup.controllers"),
        controllers=controllers(host),
        cpus=os.cpu_count() or 1,
        memory=memory_of(meminfo),
        memory_available=memory_available(meminfo),
        swaps=swaps(host),
        listeners=tuple(owner_of(host, item) for item in listeners(host) if item.port in ports_of(config)),
        foreign=(),
        ours=frozenset(),
        processes=processes(host),
        joined=False,
        identity_left="",
        cni_files=cni_files(host, config.paths.cni.conf_dir if config else CNI_DIR),
        nameservers=nameservers(host),
        links=links(host),
        mtus=default_mtus(host),
        tools=frozenset(name for name in TOOLS if any(host.exists(f"{at}/{name}") for at in TOOL_DIRS)),
        modules_missing=tuple(name for name in to_load if not loadable(host, name)),
        modules_to_load=to_load,
        environment=proxy_environment(host),
        refused_token="",
        state_error="" if root else "only root can read them",
        tun_device=host.exists(TUN_DEVICE),
        package_sources=host.exists(SOURCES) or bool(host.names(f"{SOURCES}.d")),
    )
    if root:
        machine = with_records(machine, host, config)
    answers, _late = together({"disks": lambda: disks(host, config, ways.statvfs)}, ways.disk_seconds)
    return replace(machine, disks=answers.get("disks"))


def with_records(machine: Machine, host: Host, config: NodeConfig | None) -> Machine:
    """The same with the state of this collection: what it installed on this machine."""
    identity = (
        f"{config.paths.kubernetes.kubelet_dir if config else KUBELET_DIR}/pki/kubelet-client-current.pem"
    )
    identity_there = host.exists(identity)
    try:
        store: Store = store_of(host)
        entries = store.journal.entries()
        foreign, join = foreign_units(host, store), store.join()
        applied = store.applied_config() is not None
    except FlexNodeError as failure:
        return replace(machine, state_error=f"{failure.where}: {failure.why}", state_fix=failure.fix)
    ours = frozenset(
        entry.name.rpartition("/")[2]
        for entry in entries
        if entry.name.endswith(".service") and entry.origin.get("is") == "absent"
    )
    # A kubelet with tokens has no certificate: that the configuration was applied shows that it joined.
    has_identity = identity_there or bool(applied and config and uses_tokens(config))
    joined = has_identity and KUBELET in ours
    return replace(
        machine,
        foreign=tuple(foreign),
        ours=ours,
        joined=joined,
        # An interrupted run of this collection has a journal; a kubelet of another owner has none.
        identity_left=identity if identity_there and not entries else "",
        refused_token=join.get("digest", "") if join.get("outcome") == "refused" else "",
    )


def controllers(host: Host) -> frozenset[str]:
    """The usable cgroup controllers: one that is built in can be disabled."""
    if unified := host.text("/sys/fs/cgroup/cgroup.controllers").split():
        return frozenset(unified)
    rows = (line.split() for line in host.text("/proc/cgroups").splitlines() if not line.startswith("#"))
    return frozenset(row[0] for row in rows if len(row) == 4 and row[3] == "1")


def memory_available(meminfo: str) -> int:
    """Bytes that are available without swapping."""
    rows = (line.split() for line in meminfo.splitlines() if line.startswith("MemAvailable:"))
    return next((int(row[1]) << 10 for row in rows), 0)


def swaps(host: Host) -> tuple[Swap, ...]:
    """The active swap areas."""
    rows = (line.split() for line in host.text("/proc/swaps").splitlines()[1:])
    return tuple(Swap(row[0], int(row[3]) << 10) for row in rows if len(row) == 5)


def processes(host: Host) -> frozenset[str]:
    """Names of container software among the machine's processes, without those inside containers."""
    found = set()
    for number in (name for name in host.names("/proc") if name.isdecimal()):
        try:
            name = host.text(f"/proc/{number}/comm").strip()
            if name in RIVALS and not contained(host.text(f"/proc/{number}/status")):
                found.add(name)
        except OSError:  # it has exited meanwhile
            continue
    return frozenset(found)


def contained(status: str) -> bool:
    """Whether a process runs in a PID namespace of its own."""
    rows = (line.split() for line in status.splitlines() if line.startswith("NSpid:"))
    return any(len(row) > 2 for row in rows)


def cni_files(host: Host, directory: str) -> tuple[str, ...]:
    """CNI configuration files that exist already; the runtime uses the first by name."""
    endings = (".conf", ".conflist", ".json")
    try:
        names = host.names(directory)
    except PermissionError:  # not root, which has its own finding
        return ()
    return tuple(f"{directory}/{name}" for name in names if name.endswith(endings))


def loaded(host: Host, module: str) -> bool:
    """Whether a kernel module is loaded or built in."""
    return KernelModule.mark_now(host, module) == "loaded" or (
        module == "nf_conntrack" and host.exists("/proc/sys/net/netfilter/nf_conntrack_max")
    )


def loadable(host: Host, module: str) -> bool:
    """Whether a kernel module can be loaded."""
    release = host.text("/proc/sys/kernel/osrelease").strip()
    return f"/{module}.ko" in host.text(f"/lib/modules/{release}/modules.dep")


def proxy_environment(host: Host) -> dict[str, str]:
    """The system's proxy settings."""
    found = {}
    for line in host.text("/etc/environment").splitlines():
        name, _equals, value = line.removeprefix("export ").partition("=")
        if name.strip().lower() in PROXY_NAMES and value.strip().strip("\"'"):
            found[name.strip().lower()] = value.strip().strip("\"'")
    return found


def shut_down(host: Host) -> set[int]:
    """Devices that the kernel writes no more after an error; since 6.12 it does not call them read-only."""
    rows = (line.split() for line in host.text("/proc/mounts").splitlines())
    places = [unescaped(row[1]) for row in rows if len(row) > 3 and "emergency_ro" in row[3].split(",")]
    return {os.stat(host.path(place)).st_dev for place in places if host.exists(place)}


def disks(host: Host, config: NodeConfig | None, statvfs: StatVfs) -> tuple[Disk, ...]:
    """The file systems of all directories that a node writes to."""
    data, kubelet = (
        (config.paths.data_dir, config.paths.kubernetes.kubelet_dir)
        if config
        else ("/var/lib/aks-flex-node", KUBELET_DIR)
    )
    found, shut = [], shut_down(host)
    for path in ("/etc", PROGRAM_DIR, "/usr/local/bin", data, "/var/lib/containerd", kubelet):
        there = path
        while not host.exists(there) and there != "/":
            there = os.path.dirname(there)
        seen, device = statvfs(host.path(there)), os.stat(host.path(there)).st_dev
        found.append(
            Disk(
                path,
                device,
                seen.f_blocks * seen.f_frsize,
                seen.f_bavail * seen.f_frsize,
                seen.f_files,
                seen.f_favail,
                bool(seen.f_flag & os.ST_RDONLY) or device in shut,
                bool(seen.f_flag & os.ST_NOEXEC),
            )
        )
    return tuple(found)
