# SPDX-License-Identifier: GPL-3.0-or-later
"""What a join changes in a kernel, and that it is restored: swap of every kind, modules, sysctls, cgroups."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet
from tests.e2e.photograph import differences
from tests.e2e.updating import Group
from tests.vm.acts import CASE
from tests.vm.lab import (
    Lab,
    is_ready,
    machine_of,
    photographed,
    pod_works,
    touched_by_refusal,
    unchanged,
    uninstall,
)
from tests.vm.seen import Seen

DISK, FILE, ZRAM = "/dev/disk/by-id/virtio-swap", "/swapfile", "/dev/zram0"
PARTITION, UUID = f"{DISK}-part1", "2b8a1c64-5f0e-4a3d-9c57-0d6e1f2a3b4c"
# A machine with a past: swap on a partition and in a file by fstab, and in memory by a unit of its own;
# settings of its own; and a drop-in that another owner (a GPU operator, say) put beside containerd's unit.
FSTAB = f"UUID={UUID} none swap sw,pri=3 0 0\n{FILE} none swap sw 0 0\n"
# Runs on the machine: a table with one partition for swap, as sfdisk would write it.
TABLE = """
import struct, sys
with open(sys.argv[1], "r+b") as disk:
    sectors, far = disk.seek(0, 2) // 512, b"\\xfe\\xff\\xff"
    disk.seek(446)
    disk.write(struct.pack("<B3sB3sII", 0, far, 0x82, far, 2048, sectors - 2048))
    disk.seek(510)
    disk.write(b"\\x55\\xaa")
"""
ZRAM_UNIT = """[Unit]
Description=Swap in compressed memory
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/sbin/modprobe zram num_devices=1
ExecStart=/bin/sh -c 'echo 64M > /sys/block/zram0/disksize'
ExecStart=/sbin/mkswap /dev/zram0
ExecStart=/sbin/swapon --priority 100 /dev/zram0
[Install]
WantedBy=multi-user.target
"""
SETTINGS = """kernel.panic = 30
vm.overcommit_memory = 2
net.ipv4.conf.all.accept_redirects = 0
net.ipv4.conf.eth0.forwarding = 1
"""
DROP_IN_DIRECTORY = "/etc/systemd/system/containerd.service.d"
DROP_IN = "[Service]\nEnvironment=GPU_OPERATOR=here\n"
# And what it adds later, where containerd's own configuration lets it.
RUNTIME_FILE = "/etc/containerd/conf.d/99-gpu.toml"
RUNTIME = """version = 3
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gpu]
runtime_type = "io.containerd.runc.v2"
"""


def put(machine: VirtualMachine, path: str, content: str) -> None:
    """A file of the machine's owner."""
    machine.run(["mkdir", "-p", path.rpartition("/")[0]])
    machine.run(["tee", path], input=content)
    machine.run(["touch", "-d", "2019-05-06 07:08:09.123456789", path])


@pytest.fixture(scope="module")
def node(bed: Testbed, lab: Lab) -> Group:
    """That machine, not joined yet."""
    machine = lab.machine("lived-in", "debian12", Hardware(paths.arch(), disks={"swap": "128M"}))
    machine.run(["python3", "-c", TABLE, DISK])
    machine.run(["blockdev", "--rereadpt", DISK])
    machine.run(["udevadm", "settle"])
    machine.run(["mkswap", "--quiet", "--uuid", UUID, PARTITION])
    machine.run(["fallocate", "--length", "96M", FILE])
    machine.run(["chmod", "600", FILE])
    machine.run(["mkswap", "--quiet", FILE])
    put(machine, "/etc/fstab", FSTAB)
    put(machine, "/etc/systemd/system/zram-swap.service", ZRAM_UNIT)
    put(machine, "/etc/sysctl.d/10-site.conf", SETTINGS)
    put(machine, f"{DROP_IN_DIRECTORY}/10-gpu.conf", DROP_IN)
    machine.run(["systemctl", "enable", "--quiet", "zram-swap.service"])
    machine.reboot()
    return lab.group(machine, fleet.join_document(bed))


def swaps(machine: VirtualMachine) -> set[str]:
    """What is swapped to now."""
    lines = machine.read("/proc/swaps").splitlines()[1:]
    return {machine.run(["realpath", line.split()[0]]).stdout.strip() for line in lines}


def names(machine: VirtualMachine, *paths: str) -> set[str]:
    """Devices by their real names."""
    return {machine.run(["realpath", path]).stdout.strip() for path in paths}


def stats(bed: Testbed, machine: VirtualMachine) -> dict[str, Any]:
    """The kubelet's configuration, as it runs."""
    found: dict[str, Any] = json.loads(
        bed.cluster.kubectl("get", "--raw", f"/api/v1/nodes/{machine.name}/proxy/configz")
    )["kubeletconfig"]
    return found


def test_swap_modules_sysctls_and_cgroups(bed: Testbed, node: Group, seen: Seen) -> None:
    machine = machine_of(node)
    with seen.act(
        machine,
        versions.KUBERNETES,
        part=CASE,
        act=(
            "swap on a partition, in a file and in memory, modules, sysctls, cgroups: changed and restored; "
            "drop-ins of a GPU operator stay"
        ),
    ):
        areas = names(machine, PARTITION, FILE, ZRAM)
        assert swaps(machine) == areas
        before = photographed(machine)
        assert before["modules"] == []
        assert (before["sysctls"]["kernel.panic"], before["sysctls"]["vm.overcommit_memory"]) == ("30", "2")

        fleet.succeeded(node.play("bootstrap", node.document))
        joined = photographed(machine)
        assert joined["swaps"] == []
        assert joined["modules"] == ["overlay", "br_netfilter"]
        assert joined["sysctls"]["vm.overcommit_memory"] == "1"
        assert stats(bed, machine)["cgroupDriver"] == "systemd"
        assert "kubepods.slice" in machine.run(["ls", "/sys/fs/cgroup"]).stdout
        pod_works(bed, machine, "in-a-slice")
        placed = machine.run(["systemd-cgls", "--no-pager", "/kubepods.slice"]).stdout
        assert "cri-containerd-" in placed, placed
        shown = machine.run(["systemctl", "show", "--property=Environment", "containerd.service"]).stdout
        assert "GPU_OPERATOR=here" in shown
        machine.run(["tee", RUNTIME_FILE], input=RUNTIME)

        machine.reboot()
        is_ready(bed, machine)
        unchanged(node.play("bootstrap", node.document), machine)
        assert machine.read(RUNTIME_FILE) == RUNTIME
        assert "runtimes.gpu" in machine.run(["containerd", "config", "dump"]).stdout
        assert swaps(machine) == set(), "swap came back at boot"
        assert photographed(machine)["modules"] == ["overlay", "br_netfilter"]

        uninstall(node, node.document)
        left = differences(before, photographed(machine))
        assert left == []
        assert swaps(machine) == areas
        machine.reboot()
        assert swaps(machine) == areas, "the machine's own swap does not start at boot"
        assert differences(before, photographed(machine)) == []


def test_a_module_that_is_not_there(bed: Testbed, node: Group, seen: Seen) -> None:
    """As after a kernel upgrade without a reboot: found before anything is touched."""
    machine = machine_of(node)
    release = machine.run(["uname", "-r"]).stdout.strip()
    modules = f"/lib/modules/{release}"
    before = photographed(machine)
    with seen.act(machine, versions.KUBERNETES, part=CASE, act="a kernel module is missing"):
        machine.run(["mv", modules, f"{modules}.away"])
        try:
            refused = node.play("bootstrap", node.document)
            assert refused.status != 0
            assert "ERROR kernel-module" in refused.output, refused.output
            assert "the running kernel has no module br_netfilter" in refused.output, refused.output
        finally:
            machine.run(["mv", f"{modules}.away", modules])
        assert touched_by_refusal(before, photographed(machine)) == []


def test_apparmor_confines_pods(bed: Testbed, node: Group, seen: Seen) -> None:
    """On a kernel that enforces it, a pod has the runtime's profile. A module of the machine's own stays."""
    machine = machine_of(node)
    act = "AppArmor confines pods; a module that was loaded before the join stays loaded"
    with seen.act(machine, versions.KUBERNETES, part=CASE, act=act):
        machine.run(["modprobe", "overlay"])
        fleet.succeeded(node.play("bootstrap", node.document))
        pod_works(bed, machine, "confined")
        read = ("busybox", "cat", "/proc/self/attr/current")
        profile = bed.cluster.kubectl("exec", "confined", "--", *read, timeout=120)
        assert profile.strip() == "cri-containerd.apparmor.d (enforce)"
        uninstall(node, node.document)
        assert photographed(machine)["modules"] == ["overlay"]
