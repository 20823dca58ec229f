# SPDX-License-Identifier: GPL-3.0-or-later
"""Node machines of both kinds: what they share, and what a virtual one is started with."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.artifacts.archive import tar_bytes
from testbed.basics import paths
from testbed.basics.clock import wait_for
from testbed.basics.errors import TestbedError
from testbed.bed import Machine
from testbed.images import recipes
from testbed.layout import network
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.machine import disk
from testbed.machine.container import ContainerMachine
from testbed.machine.qemu import ARCHITECTURES, Hardware, architecture
from testbed.machine.vm import VirtualMachine


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")


def virtual(site: Site, hardware: Hardware) -> VirtualMachine:
    return VirtualMachine(
        name="vm-1",
        ip="10.213.7.20",
        platform="debian13",
        pod_cidr="10.244.20.0/24",
        ssh_key=site.directory / "ssh" / "id_ed25519",
        known_hosts=site.directory / "ssh" / "known_hosts",
        site=site,
        hardware=hardware,
    )


def option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_virtual_machine_has_its_own_kernel_disk_and_address(site: Site, arch: str) -> None:
    machine = virtual(site, Hardware(arch, memory_mib=1024, cores=4, disks={"swap": "64M"}))
    plan = machine._start_plan()
    argv = plan.argv()
    assert argv[0] == ARCHITECTURES[arch].program
    assert (option(argv, "-m"), option(argv, "-smp")) == ("1024", "4")
    assert option(argv, "-accel").startswith("tcg"), "hardware support is not the same on every machine"
    base = disk.base(recipes.vm("debian13", arch))
    assert (option(argv, "-kernel"), option(argv, "-initrd")) == (str(base.kernel), str(base.initrd))
    drives = [argv[i + 1] for i, word in enumerate(argv) if word == "-drive"]
    assert [drive.split(",")[0] for drive in drives] == [
        f"file={machine.directory}/{name}" for name in ("root.qcow2", "seed.tar", "swap.qcow2")
    ]
    assert "readonly=on" in drives[1]
    assert not [drive for drive in drives if "cache=unsafe" in drive], "what was synced would be lost too"
    assert f"mac={site.plan.mac(machine.ip)}" in ",".join(argv)
    kernel = option(argv, "-append").split()
    assert f"console={ARCHITECTURES[arch].console}" in kernel
    assert f"systemd.machine_id={machine._machine_id()}" in kernel
    assert machine.kind == f"debian13 {arch} VM 1024 MiB 4 cores disk swap of 64M"


def test_a_virtual_machine_keeps_its_kernel_when_the_recipe_changes(site: Site, tmp_path: Path) -> None:
    """The modules on its disk are of that kernel."""
    machine = virtual(site, Hardware("amd64"))
    machine.directory.mkdir(parents=True)
    (machine.directory / "root.qcow2").touch()
    (machine.directory / "base").symlink_to(tmp_path / "of-last-year")
    assert machine._start_plan().kernel == tmp_path / "of-last-year" / "vmlinuz"
    with pytest.raises(TestbedError, match=r"of-last-year, which vm-1 was made from, is gone: remove"):
        machine.start()


def test_an_unknown_architecture_is_named() -> None:
    with pytest.raises(TestbedError, match="'riscv64' is unknown: choose one of amd64, arm64"):
        architecture("riscv64")


def test_the_seed_holds_what_makes_a_machine_itself(site: Site) -> None:
    machine = virtual(site, Hardware("amd64"))
    with tarfile.open(fileobj=io.BytesIO(tar_bytes(machine._identity()))) as seed:
        names = seed.getnames()
        configured = seed.extractfile("etc/systemd/network/testbed.network")
        assert configured
        text = configured.read().decode()
    assert {"etc/ssh/ssh_host_ed25519_key", "home/flex/.ssh/authorized_keys", "etc/hosts"} <= set(names)
    assert f"MACAddress={site.plan.mac(machine.ip)}" in text
    assert "Address=10.213.7.20/24" in text
    assert "Destination=10.244.21.0/24\nGateway=10.213.7.21\n" in text
    assert "Destination=10.244.20.0/24" not in text, "its own pods are not behind another node"


def test_the_name_of_a_network_card_fits_the_kernel_and_its_address() -> None:
    assert network.tap_name("10.213.7.20") == "tb0ad50714"
    assert len(network.tap_name("10.213.255.250")) < 16


def test_a_recipe_of_another_architecture_is_another_image() -> None:
    assert recipes.vm("debian12", "amd64").digest() != recipes.vm("debian12", "arm64").digest()
    assert "linux-image-cloud-arm64" in recipes.vm("debian12", "arm64").packages
    assert "linux-image-virtual" in recipes.vm("ubuntu2404", "amd64").packages


def test_only_containers_leave_the_outer_machine_alone() -> None:
    """A virtual machine has a udev, a console and binfmt entries of its own."""
    outer = {f"etc/systemd/system/{unit}" for unit in recipes.OUTER_UNITS}
    assert outer <= set(recipes.NODE_OVERLAY)
    assert not outer & set(recipes.VM_OVERLAY)
    assert "etc/systemd/system/systemd-binfmt.service" in outer


@pytest.fixture
def sleeper(site: Site) -> Iterator[tuple[VirtualMachine, int]]:
    """A process under the id that a machine's record names."""
    machine = virtual(site, Hardware("amd64"))
    name = machine._start_plan().name
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", name]) as process:
        machine.directory.mkdir(parents=True)
        machine._start_plan().pid_file.write_text(f"{process.pid}\n", encoding="utf-8")
        wait_for("the program", machine.is_running, 20)
        yield machine, process.pid
        process.kill()


def test_a_machine_is_off_when_its_power_is_cut(sleeper: tuple[VirtualMachine, int]) -> None:
    machine, _pid = sleeper
    assert machine.is_running()
    machine.stop()
    assert not machine.is_running()


def test_the_process_of_another_program_is_not_ended(sleeper: tuple[VirtualMachine, int]) -> None:
    machine, pid = sleeper
    machine._start_plan().pid_file.write_text(f"{os.getpid()}\n", encoding="utf-8")
    assert not machine.is_running()
    machine.stop()
    os.kill(pid, 0)


def test_a_machine_that_is_on_is_not_copied(sleeper: tuple[VirtualMachine, int]) -> None:
    machine, _pid = sleeper
    with pytest.raises(TestbedError, match="is on"):
        machine.snapshot("one")


def test_a_record_makes_the_same_machine_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bed = Testbed("unit")
    directory = paths.state("unit")
    (directory / "nodes").mkdir(parents=True)
    (directory / "site.json").write_text(json.dumps({"subnet": "10.213.7.0/24", "network": "n"}))
    hardware = Hardware("arm64", memory_mib=1024, disks={"swap": "1G"})
    made: list[Machine] = [
        bed._plan_node("vm", "debian12", False, hardware),
        bed._plan_node("box", "debian13", False, None),
    ]
    assert made[::-1] == bed.nodes()
    assert isinstance(made[0], VirtualMachine)
    assert isinstance(made[1], ContainerMachine)
    assert made[0].hardware == hardware


def test_a_platform_that_is_unknown_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    bed = Testbed("unit")
    directory = paths.state("unit")
    (directory / "nodes").mkdir(parents=True)
    (directory / "site.json").write_text(json.dumps({"subnet": "10.213.7.0/24", "network": "n"}))
    with pytest.raises(TestbedError, match="platform 'gentoo' is unknown"):
        bed.node("x", "gentoo")
    assert bed.nodes() == []


def test_where_virtual_machines_can_not_run_is_said_before_a_disk_is_made(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "TUN", tmp_path / "tun")
    with pytest.raises(TestbedError, match="modprobe tun"):
        virtual(site, Hardware("amd64")).prepare()
