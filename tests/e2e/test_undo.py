# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the node, and the machine is what it was: to the byte, on clean and on lived-in machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testbed import Fault, Testbed
from testbed.machine import Machine
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph

FSTAB = """# /etc/fstab: somebody's own, with odd   spacing
UUID=0a1b /        ext4    errors=remount-ro 0       1
/swapfile  none\tswap    sw              0       0
tmpfs /scratch tmpfs size=1m,noauto 0 0
"""
SYSCTL_FILE = "net.ipv4.ip_forward = 0\nkernel.panic=30\n"
CONTAINERD_CONFIG = 'version = 2\n# ours since 2019, do not touch\nroot = "/srv/containerd"\n'
FOREIGN_UNIT = """[Unit]
Description=the runtime that was here before
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""


def inventory_of(bed: Testbed, machine: Machine, path: Path, **over: Any) -> Path:
    document = {**fleet.join_document(bed), **over}
    return fleet.write_inventory(bed, [machine], path / "hosts.yml", flexnode_config=document)


def write(machine: Machine, path: str, content: str, mode: str = "0644") -> None:
    machine.run(["mkdir", "-p", path.rpartition("/")[0]])
    machine.run(["tee", path], input=content)
    machine.run(["chmod", mode, path])
    machine.run(["touch", "-d", "2019-05-06 07:08:09.123456789", path])


@pytest.fixture
def lived_in(machines: MachineMaker) -> Iterator[Machine]:
    """A machine with a past: containerd of its own, swap in fstab, sysctl files, a directory with content."""
    (machine,) = machines(("lived-in", "debian12"))
    write(machine, "/etc/fstab", FSTAB, "0600")
    write(machine, "/etc/sysctl.d/99-zz-aks-flex-node.conf", "# someone took our name\n", "0640")
    write(machine, "/etc/sysctl.d/10-site.conf", SYSCTL_FILE)
    write(machine, "/etc/containerd/config.toml", CONTAINERD_CONFIG, "0640")
    write(machine, "/etc/systemd/system/containerd.service", FOREIGN_UNIT)
    write(machine, "/var/lib/containerd/precious/layer", "kept since 2019\n")
    write(machine, "/etc/cni/net.d/99-site.conf", "{}\n")
    write(machine, "/usr/local/bin/kubectl", "#!/bin/sh\necho an old kubectl\n", "0755")
    machine.run(["chown", "daemon:daemon", "/etc/containerd/config.toml"])
    machine.run(["ln", "-sf", "/bin/true", "/usr/local/bin/kubeadm"])
    machine.run(["sysctl", "-w", "net.ipv4.ip_forward=0"])
    machine.run(["systemctl", "daemon-reload"])
    machine.run(["systemctl", "enable", "--now", "containerd.service"])
    yield machine
    machine.remove()


def test_clean_machine_comes_back_twice(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    (machine,) = machines(("clean", "debian13"))
    inventory = inventory_of(bed, machine, tmp_path)
    before = photograph(machine)
    for _ in range(2):
        fleet.succeeded(fleet.play("bootstrap", inventory))
        assert differences(before, photograph(machine))
        fleet.succeeded(fleet.play("unbootstrap", inventory))
        assert differences(before, photograph(machine)) == []


def test_pods_that_outlived_containerd_end(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    """Their shims run on when it is down, and it can't be asked to end them."""
    (machine,) = machines(("orphans", "debian13"))
    inventory = inventory_of(bed, machine, tmp_path)
    before = photograph(machine)
    fleet.succeeded(fleet.play("bootstrap", inventory))
    fleet.eventually("a pod", lambda: any("shim" in name for name in photograph(machine)["programs"]))
    machine.run(["systemctl", "stop", "containerd.service"])
    fleet.succeeded(fleet.play("unbootstrap", inventory, "-e", "flexnode_drain_seconds=0"))
    assert differences(before, photograph(machine)) == []


@pytest.mark.smoke
def test_lived_in_machine_comes_back(bed: Testbed, lived_in: Machine, tmp_path: Path) -> None:
    before = photograph(lived_in)
    refused = fleet.play("bootstrap", inventory_of(bed, lived_in, tmp_path))
    assert refused.status != 0
    assert "foreign-runtime" in refused.output
    touched = differences(before, photograph(lived_in))
    assert [line for line in touched if "/var/lib/aks-flex-node" not in line] == []

    inventory = inventory_of(bed, lived_in, tmp_path, takeover=True)
    fleet.succeeded(fleet.play("bootstrap", inventory))
    assert fleet.is_ready(fleet.node(bed, "lived-in"))
    assert "precious" in lived_in.run(["ls", "/var/lib/containerd"]).stdout
    fleet.succeeded(fleet.play("unbootstrap", inventory))
    assert differences(before, photograph(lived_in)) == []


def test_half_done_bootstrap_is_taken_back(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    (machine,) = machines(("half-done", "debian12"))
    before = photograph(machine)

    bed.mirror.fail(Fault("*/kubelet", corrupt=True))
    try:
        run = fleet.play("bootstrap", inventory_of(bed, machine, tmp_path))
    finally:
        bed.mirror.heal()
    assert "FLEX-1203" in run.output
    fleet.succeeded(fleet.play("unbootstrap", inventory_of(bed, machine, tmp_path)))
    assert differences(before, photograph(machine)) == []

    document = fleet.join_document(bed)
    document["azure"]["bootstrapToken"]["token"] = "abcdef.0123456789abcdef"
    inventory = fleet.write_inventory(bed, [machine], tmp_path / "dead.yml", flexnode_config=document)
    run = fleet.play("bootstrap", inventory)
    assert "FLEX-1503" in run.output
    fleet.succeeded(fleet.play("unbootstrap", inventory))
    assert differences(before, photograph(machine)) == []


def test_what_others_changed_since_is_left_and_reported(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    (machine,) = machines(("edited", "debian12"))
    inventory = inventory_of(bed, machine, tmp_path)
    fleet.succeeded(fleet.play("bootstrap", inventory))
    write(machine, "/etc/containerd/config.toml", "version = 3\n# a GPU operator was here\n")
    run = fleet.play("unbootstrap", inventory)
    assert run.status != 0
    assert "file:/etc/containerd/config.toml: changed outside this collection" in run.output
    assert "GPU operator" in machine.read("/etc/containerd/config.toml")
    assert machine.run(["test", "-e", "/etc/containerd/certs.d"], check=False).returncode != 0


def test_mounted_directories_lose_nothing(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    (machine,) = machines(("mounted", "debian13"))
    # Then the kernel knows what is mounted below it by another name.
    machine.run(["sh", "-c", "mv /opt /srv/opt && ln -s /srv/opt /opt"])
    inventory = inventory_of(bed, machine, tmp_path)
    fleet.succeeded(fleet.play("bootstrap", inventory))
    write(machine, "/srv/precious/data", "irreplaceable\n")
    for place in (
        "/var/lib/kubelet/bound",
        "/var/lib/kubelet/pods/left-over/volumes/bound",
        "/opt/cni/bin/bound",
        "/opt/cni/bin/$(printf 'donn\\351es')",  # in the encoding of another time
    ):
        # At once: the kubelet removes empty directories of pods that it does not know.
        machine.run(["sh", "-c", f'mkdir -p "{place}" && mount --bind /srv/precious "{place}"'])
    machine.run(["mkdir", "-p", "/var/lib/kubelet/scratch"])
    machine.run(["mount", "-t", "tmpfs", "tmpfs", "/var/lib/kubelet/scratch"])
    write(machine, "/var/lib/kubelet/scratch/data", "in memory only\n")
    machine.run(["ln", "-s", "/srv/precious", "/var/lib/kubelet/link"])

    run = fleet.play("unbootstrap", inventory)
    assert run.status != 0
    assert machine.read("/srv/precious/data") == "irreplaceable\n"
    assert machine.read("/var/lib/kubelet/scratch/data") == "in memory only\n"
    for place in ("/var/lib/kubelet/scratch", "/opt/cni/bin/bound", "/opt/cni/bin/donn"):
        assert place in run.output
    assert "mounted" not in fleet.node_names(bed)


def test_another_user_of_our_containerd_keeps_its_data(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    """As nerdctl and docker do: a namespace of their own, with an image and a container that runs."""
    (machine,) = machines(("shared", "debian12"))
    inventory = inventory_of(bed, machine, tmp_path)
    fleet.succeeded(fleet.play("bootstrap", inventory))
    image, theirs = bed.registry.workload_image, ("ctr", "--namespace=default")
    machine.run([*theirs, "images", "pull", "--hosts-dir=/etc/containerd/certs.d", image])
    machine.run([*theirs, "run", "--detach", image, "theirs", "/bin/sleep", "4321"])
    pid = machine.read("/run/containerd/io.containerd.runtime.v2.task/default/theirs/init.pid")

    run = fleet.play("unbootstrap", inventory)

    assert run.status != 0
    assert "namespaces default" in run.output
    assert "not stopped: default/theirs" in run.output
    assert machine.read(f"/proc/{pid}/cmdline").split("\0")[:2] == ["/bin/sleep", "4321"]
    assert "shared" not in fleet.node_names(bed)
    # The next join finds the runtime's data, and the container in it.
    fleet.succeeded(fleet.play("bootstrap", inventory))
    assert "theirs" in machine.run([*theirs, "containers", "ls", "--quiet"]).stdout
    assert "k8s.io" in machine.run(["ctr", "namespaces", "ls", "--quiet"]).stdout
