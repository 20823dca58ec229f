# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of the machine itself: platform, memory, disks, kernel, tools. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine.facts import ARCHITECTURES, PLATFORMS
from ...machine.layout import PROGRAM_DIR
from ..finding import Finding, Outcome, Unchecked, error, listed, warning
from ..seen import Disk, Situation

GIB = 1 << 30
MIB = 1 << 20
# A machine of "1 GB" has a little less: the kernel and the firmware take their part first.
LEAST_MEMORY, LITTLE_MEMORY = 900 * MIB, 1800 * MIB
# Archives of about 400 MB are downloaded, and 700 MB of programs kept beside those of the version before.
NEEDED = {"opt": 1 * GIB, "data": 1 * GIB, "containers": 2 * GIB}
SMALL_DISK = 20 * GIB
CONTROLLERS = ("cpu", "memory", "pids")
LINE_WITHOUT_V1 = (1, 35)  # from here the kubelet refuses cgroup v1 unless told otherwise


def platform(now: Situation) -> Iterator[Outcome]:
    """The distributions that this was made for."""
    machine = now.machine
    if (machine.os_id, machine.os_version) not in PLATFORMS:
        names = ", ".join(f"{name} {version}" for name, version in sorted(PLATFORMS))
        yield error(
            "platform",
            f"this is {machine.os_id} {machine.os_version}",
            "nothing here was tried on it",
            f"install one of: {names}",
        )


def architecture(now: Situation) -> Iterator[Outcome]:
    """Kubernetes is published for these processors."""
    if now.machine.machine not in ARCHITECTURES:
        yield error(
            "architecture",
            f"the processor is {now.machine.machine}",
            "the programs of a node are published for amd64 and arm64 only",
            f"use a 64-bit machine and system: {', '.join(sorted(ARCHITECTURES))} (uname -m)",
        )


def systemd(now: Situation) -> Iterator[Outcome]:
    """Units need systemd."""
    if not now.machine.systemd:
        yield error(
            "systemd",
            "systemd does not run here",
            "containerd and the kubelet are units of systemd",
            "boot with systemd as init (apt-get install systemd-sysv, then reboot)",
        )


def root(now: Situation) -> Iterator[Outcome]:
    """A join writes to all of the system."""
    if not now.machine.root:
        yield error(
            "root",
            "this does not run as root",
            "a join writes to /etc, /usr/local and /var/lib, and starts units",
            "use sudo, or become: true",
        )


def cgroup(now: Situation) -> Iterator[Outcome]:
    """cgroup v2 is what Kubernetes is made for; on v1 every new version is the last one."""
    machine, version = now.machine, now.config.kubernetes.version
    if not machine.cgroup_v2:
        # The kubelet's file says failCgroupV1: false, so it starts still.
        refused = " and refuses it unless told otherwise" if version.line >= LINE_WITHOUT_V1 else ""
        yield warning(
            "cgroup",
            "this machine runs cgroup v1",
            f"the kubelet {version} treats it as outdated{refused}; memory limits work worse there",
            "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line",
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
    """Room for the kubelet, containerd and some pods."""
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
            "what is reserved for the system leaves little for pods",
            "use a machine with 2 GiB or more, or lower node.maxPods and node.kubelet.kubeReserved",
        )


def processors(now: Situation) -> Iterator[Outcome]:
    """One core is shared between everything."""
    if now.machine.cpus < 2:
        yield warning(
            "processors",
            "1 processor",
            "pods compete with the kubelet and containerd for it",
            "use a machine with 2 or more",
        )


def swap(now: Situation) -> Iterator[Outcome]:
    """Swap is switched off by the join, if there is room for what is in it."""
    machine = now.machine
    if not machine.swaps:
        return
    names, used = listed(item.name for item in machine.swaps), sum(item.used for item in machine.swaps)
    if used > machine.memory_available:
        yield error(
            "swap-in-use",
            f"{used // MIB} MiB are swapped out, and {machine.memory_available // MIB} MiB are free",
            "the join switches swap off, which would leave the machine without memory",
            "stop what uses the memory, then try: swapoff --all",
        )
    else:
        yield warning(
            "swap",
            f"swap is on: {names}",
            "the kubelet does not start with swap: the join switches it off, unbootstrap brings it back",
            "nothing to do; to do it yourself: swapoff --all, and remove it from /etc/fstab",
        )


def disks(now: Situation) -> Iterator[Outcome]:
    """Room, inodes and rights on every file system that a node writes to."""
    seen = now.machine.disks
    if seen is None:
        yield error(
            "disk-answer",
            "a file system under /etc, /opt, /usr/local or /var/lib does not answer",
            "whatever writes to it hangs",
            "look for a network file system whose server is gone: findmnt --types nfs,nfs4,cifs",
        )
        return
    for disk in seen:
        if disk.read_only:
            yield error(
                "read-only",
                f"{disk.path} is on a read-only file system",
                "the node's files go there",
                f"mount --options remount,rw $(findmnt --noheadings --output TARGET --target {disk.path})",
            )
    for disk in seen:
        if disk.path == PROGRAM_DIR and disk.noexec:
            yield error(
                "noexec",
                f"{disk.path} is on a file system that is mounted noexec",
                "the kubelet and containerd are started from there",
                f"mount --options remount,exec $(findmnt --noheadings --output TARGET --target {disk.path})",
            )
    yield from _space(now, seen)
    yield from _pressure(now, seen)


def _space(now: Situation, seen: tuple[Disk, ...]) -> Iterator[Finding]:
    """What a join needs, summed up where several places share a file system."""
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
        if free < needed and not now.machine.joined:  # a node that works has what it needs
            yield error(
                "disk-space",
                f"{free / GIB:.1f} GiB are free for {listed(disk.path for disk in shared)}",
                f"programs and the first images need {needed / GIB:.0f} GiB",
                f"free some space or enlarge the disk: df -h {shared[0].path}",
            )
    for disk in seen:
        if disk.path == "/var/lib/containerd" and disk.total < SMALL_DISK:
            yield warning(
                "disk-small",
                f"{disk.path} is on a disk of {disk.total / GIB:.0f} GiB",
                "images, logs and volumes of pods live there; the kubelet evicts pods when it fills up",
                "give /var (or /var/lib/containerd and the kubelet's directory) a disk of 20 GiB or more",
            )


def _pressure(now: Situation, seen: tuple[Disk, ...]) -> Iterator[Finding]:
    """A kubelet that starts below its own thresholds evicts at once."""
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
            # Some file systems (btrfs) count no inodes: there is no shortage of them then.
            if limit.endswith("%") and total and free * 100 < float(limit[:-1]) * total:
                yield error(
                    "disk-pressure",
                    f"{what} of {disk.path} is {free * 100 // total}%, and pods are evicted below {limit}",
                    "the Node would have DiskPressure from its first minute, and take no pods",
                    f"free some space: df -h {disk.path}, df -i {disk.path}; see node.kubelet.evictionHard",
                )


def kernel_modules(now: Situation) -> Iterator[Outcome]:
    """Modules that pods need; what the join loads itself has to be there."""
    uses = {
        "overlay": "containers are made of it",
        "br_netfilter": "Services can't be reached from pods of the same node without it",
        "nf_conntrack": "kube-proxy follows connections with it",
    }
    for name in now.machine.modules_missing:
        finding = warning if name == "nf_conntrack" else error
        yield finding(
            "kernel-module",
            f"the running kernel has no module {name}",
            uses[name],
            "reboot, if the kernel was updated since the last boot; "
            "else: apt-get install linux-modules-extra-$(uname -r) (Ubuntu), or another kernel",
        )


def tools(now: Situation) -> Iterator[Outcome]:
    """Programs that the kubelet and the pods' network call."""
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
                "neither iptables nor nft is here",
                "the bridge of cni.mode bridge masquerades pods with one of them",
                "apt-get install iptables",
            )
        else:
            yield warning(
                "tool-missing",
                "neither iptables nor nft is here",
                "most pod networks and the kubelet's own rules need one of them",
                "apt-get install iptables",
            )


def records(now: Situation) -> Iterator[Outcome]:
    """Our own records tell what is ours; without them nothing else can."""
    machine = now.machine
    if not machine.state_trouble:
        return
    if machine.root:
        yield error(
            "records",
            f"our own records can't be read: {machine.state_trouble}",
            "they tell what is ours on this machine, and how to give it back",
            "restore the file from a backup, or remove it and run bootstrap or `aks-flex-node join` again",
        )
    else:
        for id_ in ("foreign-runtime", "token-refused"):
            yield Unchecked(id_, "only root can read our records")
