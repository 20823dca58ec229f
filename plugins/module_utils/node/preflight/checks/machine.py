# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the machine itself: platform, memory, disks, kernel, tools. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...components.exec_plugin import identity_method
from ...machine.facts import ARCHITECTURES, PLATFORMS
from ...machine.layout import PROGRAM_DIR
from ..finding import Finding, Outcome, Unchecked, error, listed, warning
from ..seen import Disk, Situation

GIB = 1 << 30
MIB = 1 << 20
# A machine of "1 GB" has a little less: kernel and firmware reserve a part.
LEAST_MEMORY, LITTLE_MEMORY = 900 * MIB, 1800 * MIB
# About 400 MB of archives are downloaded, and 700 MB of binaries kept beside those of the previous version.
NEEDED = {"opt": 1 * GIB, "data": 1 * GIB, "containers": 2 * GIB}
SMALL_DISK = 20 * GIB
CONTROLLERS = ("cpu", "memory", "pids")
LINE_WITHOUT_V1 = (1, 35)  # from here the kubelet refuses cgroup v1 by default


def platform(now: Situation) -> Iterator[Outcome]:
    """Supported distributions."""
    machine = now.machine
    if (machine.os_id, machine.os_version) not in PLATFORMS:
        names = ", ".join(f"{name} {version}" for name, version in sorted(PLATFORMS))
        yield error(
            "platform",
            f"this is {machine.os_id} {machine.os_version}",
            "it is not supported",
            f"install one of: {names}",
        )


def architecture(now: Situation) -> Iterator[Outcome]:
    """Supported processors."""
    if now.machine.machine not in ARCHITECTURES:
        yield error(
            "architecture",
            f"the processor is {now.machine.machine}",
            "the binaries of a node are published for amd64 and arm64 only",
            f"use a 64-bit machine and system: {', '.join(sorted(ARCHITECTURES))} (uname -m)",
        )


def systemd(now: Situation) -> Iterator[Outcome]:
    """systemd runs."""
    if not now.machine.systemd:
        yield error(
            "systemd",
            "systemd is not running",
            "containerd and the kubelet are systemd units",
            "boot with systemd as init (apt-get install systemd-sysv, then reboot)",
        )


def root(now: Situation) -> Iterator[Outcome]:
    """A join needs root."""
    if not now.machine.root:
        yield error(
            "root",
            "preflight does not run as root",
            "a join writes to /etc, /usr/local and /var/lib, and starts units",
            "use sudo, or become: true",
        )


def cgroup(now: Situation) -> Iterator[Outcome]:
    """cgroup v2; Kubernetes is dropping v1."""
    machine, version = now.machine, now.config.kubernetes.version
    if not machine.cgroup_v2:
        # The kubelet's configuration sets failCgroupV1: false, so it still starts.
        line = f"{version.major}.{version.minor}"
        why = (
            f"kubelet {line} refuses cgroup v1 by default; this collection sets failCgroupV1: false, so "
            "this does not block the join. Switch to cgroup v2 soon: later releases will not start"
            if version.line >= LINE_WITHOUT_V1
            else f"kubelet {line} works with cgroup v1; kubelet 1.35 and later refuse it by default. "
            "This does not block the join; switch to cgroup v2 before upgrading"
        )
        yield warning(
            "cgroup",
            "this machine runs cgroup v1",
            why,
            "in /etc/default/grub add systemd.unified_cgroup_hierarchy=1 to GRUB_CMDLINE_LINUX, run "
            "`update-grub`, then reboot",
        )
    if missing := [name for name in CONTROLLERS if name not in machine.controllers]:
        flags = " ".join(f"cgroup_enable={name}" for name in missing)
        yield error(
            "cgroup-controllers",
            f"the kernel has no cgroup controller {listed(missing)}",
            "the kubelet does not start without it",
            f"add {flags} to the kernel's command line (/etc/default/grub; cmdline.txt), reboot",
        )


def memory(now: Situation) -> Iterator[Outcome]:
    """Enough memory for the kubelet, containerd and some pods."""
    size = now.machine.memory
    if size < LEAST_MEMORY:
        yield error(
            "memory",
            f"{size // MIB} MiB of memory",
            "kubelet, containerd and the system leave nothing for pods",
            "use a machine with 2 GiB or more",
        )
    elif size < LITTLE_MEMORY:
        yield warning(
            "memory",
            f"{size // MIB} MiB of memory",
            "after the system's reservation little is left for pods",
            "use a machine with 2 GiB or more, or lower node.maxPods and node.kubelet.kubeReserved",
        )


def processors(now: Situation) -> Iterator[Outcome]:
    """Enough processor cores."""
    if now.machine.cpus < 2:
        yield warning(
            "processors",
            "1 processor",
            "pods compete with the kubelet and containerd for it",
            "use a machine with 2 or more",
        )


def swap(now: Situation) -> Iterator[Outcome]:
    """The join turns swap off, if its content fits into memory."""
    machine = now.machine
    if not machine.swaps:
        return
    names, used = listed(item.name for item in machine.swaps), sum(item.used for item in machine.swaps)
    if used > machine.memory_available:
        yield error(
            "swap-in-use",
            f"{used // MIB} MiB are swapped out, and {machine.memory_available // MIB} MiB are free",
            "the join turns swap off, which would leave the machine without memory",
            "stop what uses the memory, then try: swapoff --all",
        )
    else:
        yield warning(
            "swap",
            f"swap is on: {names}",
            "the kubelet does not start with swap: the join turns it off, unbootstrap restores it",
            "nothing to do; to do it yourself: swapoff --all, and remove it from /etc/fstab",
        )


def disks(now: Situation) -> Iterator[Outcome]:
    """Space, inodes and mount options of every file system that a node writes to."""
    seen = now.machine.disks
    if seen is None:
        yield error(
            "disk-answer",
            "a file system under /etc, /opt, /usr/local or /var/lib does not answer",
            "every process that writes to it hangs",
            "find a network file system whose server is down: findmnt --types nfs,nfs4,cifs",
        )
        return
    for disk in seen:
        if disk.read_only:
            yield error(
                "read-only",
                f"{disk.path} is on a read-only file system",
                "the node's files are written there",
                f"mount --options remount,rw $(findmnt --noheadings --output TARGET --target {disk.path})",
            )
    started = {PROGRAM_DIR: "the kubelet and containerd are started from there"}
    if identity_method(now.config):
        kubelet = now.config.paths.kubernetes.kubelet_dir
        started[kubelet] = "the kubelet starts token.sh there, which gets the tokens of its Azure identity"
    for disk in seen:
        if disk.path in started and disk.noexec:
            yield error(
                "noexec",
                f"{disk.path} is on a file system that is mounted noexec",
                started[disk.path],
                f"mount --options remount,exec $(findmnt --noheadings --output TARGET --target {disk.path})",
            )
    yield from _space(now, seen)
    yield from _pressure(now, seen)


def _space(now: Situation, seen: tuple[Disk, ...]) -> Iterator[Finding]:
    """The space that a join needs, added up for directories that share a file system."""
    needs = {
        PROGRAM_DIR: NEEDED["opt"],
        now.config.paths.data_dir: NEEDED["data"],
        "/var/lib/containerd": NEEDED["containers"],
    }
    by_device: dict[int, list[Disk]] = {}
    for disk in seen:
        if disk.path in needs:
            by_device.setdefault(disk.device, []).append(disk)
    for shared in by_device.values():
        needed, free = sum(needs[disk.path] for disk in shared), shared[0].free
        if free < needed and not now.machine.joined:  # a joined node has what it needs
            yield error(
                "disk-space",
                f"{free / GIB:.1f} GiB are free for {listed(disk.path for disk in shared)}",
                f"binaries and the first images need {needed / GIB:.0f} GiB",
                f"free some space or enlarge the disk: df -h {shared[0].path}",
            )
    for disk in seen:
        if disk.path == "/var/lib/containerd" and disk.total < SMALL_DISK:
            yield warning(
                "disk-small",
                f"{disk.path} is on a disk of {disk.total / GIB:.0f} GiB",
                "images, logs and volumes of pods are stored there; the kubelet evicts pods when it is full",
                "use a disk of 20 GiB or more for /var (or /var/lib/containerd and the kubelet's directory)",
            )


def _pressure(now: Situation, seen: tuple[Disk, ...]) -> Iterator[Finding]:
    """A kubelet that starts below its eviction thresholds evicts pods at once."""
    limits = now.config.node.kubelet.eviction_hard
    kubelet = now.config.paths.kubernetes.kubelet_dir
    for disk in seen:
        if disk.path != kubelet:
            continue
        for what, free, total in (
            ("nodefs.available", disk.free, disk.total),
            ("nodefs.inodesFree", disk.inodes_free, disk.inodes),
        ):
            limit = limits.get(what, "")
            # Some file systems (btrfs) do not count inodes.
            if limit.endswith("%") and total and free * 100 < float(limit[:-1]) * total:
                yield error(
                    "disk-pressure",
                    f"{what} of {disk.path} is {free * 100 // total}%, and pods are evicted below {limit}",
                    "the Node would have DiskPressure at once, and run no pods",
                    f"free some space: df -h {disk.path}, df -i {disk.path}; see node.kubelet.evictionHard",
                )


def kernel_modules(now: Situation) -> Iterator[Outcome]:
    """Kernel modules that pods need, also those that the join loads."""
    uses = {
        "overlay": "container file systems need it",
        "br_netfilter": "Services can't be reached from pods of the same node without it",
        "nf_conntrack": "kube-proxy tracks connections with it",
    }
    for name in now.machine.modules_missing:
        finding = warning if name == "nf_conntrack" else error
        yield finding(
            "kernel-module",
            f"the running kernel has no module {name}",
            uses[name],
            "reboot, if the kernel was updated since the last boot; "
            "otherwise: apt-get install linux-modules-extra-$(uname -r) (Ubuntu), or another kernel",
        )


def tools(now: Situation) -> Iterator[Outcome]:
    """Tools that the kubelet and the pod network call."""
    there = now.machine.tools
    needed = [("mount", "mount", "volumes are mounted"), ("umount", "mount", "volumes are unmounted")]
    if now.machine.modules_to_load:
        needed.append(("modprobe", "kmod", f"{listed(now.machine.modules_to_load)}: loaded"))
    for name, package, use in needed:
        if name not in there:
            yield error("tool-missing", f"{name} is missing", f"{use} with it", f"apt-get install {package}")
    if not there & {"iptables", "nft"}:
        if now.config.cni.mode == "bridge":
            yield error(
                "tool-missing",
                "neither iptables nor nft is installed",
                "cni.mode bridge masquerades pods with one of them",
                "apt-get install iptables",
            )
        else:
            yield warning(
                "tool-missing",
                "neither iptables nor nft is installed",
                "most pod networks and the kubelet's rules need one of them",
                "apt-get install iptables",
            )


def records(now: Situation) -> Iterator[Outcome]:
    """The state of this collection can be read."""
    machine = now.machine
    if not machine.state_error:
        return
    if machine.root:
        yield error(
            "records",
            f"the state of aks-flex-node can't be read: {machine.state_error}",
            "it records what was changed on this machine, and how to restore it",
            machine.state_fix,  # one file may be removed, another must not
        )
    else:
        for id_ in ("foreign-runtime", "token-refused"):
            yield Unchecked(id_, "only root can read the state of aks-flex-node")
