# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m testbed node and logs: which machine does what."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed import cli
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.machine.container import ContainerMachine
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine

DONE: list[str] = []


class Virtual(VirtualMachine):
    """A virtual machine that only notes what is done with it."""

    def is_running(self) -> bool:
        return False

    def stop(self) -> None:
        DONE.append(f"stop {self.name}")

    def start(self, *_words: Any, **_options: Any) -> None:
        DONE.append(f"start {self.name}")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Virtual:
    """The virtual machine of a testbed that also has a container, edge-2."""
    site = Site("unit", tmp_path, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")
    common: dict[str, Any] = {
        "platform": "debian12",
        "pod_cidr": "10.244.1.0/24",
        "ssh_key": tmp_path / "key",
        "known_hosts": tmp_path / "known",
        "site": site,
    }
    found = Virtual("edge-1", "10.213.7.20", hardware=Hardware("amd64", disks={"swap": "8M"}), **common)
    container = ContainerMachine("edge-2", "10.213.7.21", **common)
    beds = {None: SimpleNamespace(name="unit", nodes=lambda: [found, container], node=None)}
    monkeypatch.setattr(cli, "Testbed", beds.__getitem__)
    found.directory.mkdir(parents=True)
    for name in ("root", "swap"):
        (found.directory / f"{name}.qcow2").write_text("first day")
    DONE.clear()
    return found


def test_the_power_switch(machine: Virtual) -> None:
    assert cli.main(["node", "stop", machine.name]) == 0
    assert cli.main(["node", "start", machine.name]) == 0
    assert DONE == ["stop edge-1", "start edge-1"]


def test_one_that_is_off_need_not_be_shut_down(machine: Virtual) -> None:
    assert cli.main(["node", "shutdown", machine.name]) == 0
    assert DONE == []


def test_disks_are_kept_and_put_back(machine: Virtual) -> None:
    assert cli.main(["node", "snapshot", machine.name, "clean"]) == 0
    for name in ("root", "swap"):
        (machine.directory / f"{name}.qcow2").write_text("used")
    assert cli.main(["node", "restore", machine.name, "clean"]) == 0
    assert [(machine.directory / f"{name}.qcow2").read_text() for name in ("root", "swap")] == [
        "first day"
    ] * 2


def test_a_snapshot_that_fails_leaves_the_one_before(machine: Virtual) -> None:
    assert cli.main(["node", "snapshot", machine.name, "clean"]) == 0
    (machine.directory / "root.qcow2").write_text("used")
    (machine.directory / "swap.qcow2").unlink()
    assert cli.main(["node", "snapshot", machine.name, "clean"]) != 0
    assert cli.main(["node", "restore", machine.name, "clean"]) == 0
    assert (machine.directory / "root.qcow2").read_text() == "first day"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["node", "restore", "edge-1", "clean"], "edge-1 has no snapshot clean (it has: none)"),
        (["node", "snapshot", "edge-1", "../etc"], "'../etc' can't name a snapshot"),
        (["node", "snapshot", "edge-2", "clean"], "node edge-2 is a container"),
        (["node", "shutdown", "edge-2"], "node edge-2 is a container"),
        (
            ["node", "add", "edge-4", "--memory", "1024"],
            "a container has the memory and cores of this machine",
        ),
        (["node", "add", "edge-4", "--cores", "1"], "add --vm"),
        (
            ["node", "stop", "edge-3"],
            "python -m testbed --name unit node add edge-3",
        ),
        (["logs", "etcd", "--console"], "etcd is a container without a console"),
        (["logs", "edge-2", "--console"], "node edge-2 is a container"),
        (["logs", "--console"], "name a virtual machine"),
        (["logs", "edge-1", "--console"], "edge-1 was never started"),
    ],
)
def test_what_is_not_possible_is_said(
    machine: Virtual, capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert cli.main(argv) != 0
    assert message in capsys.readouterr().err


def test_the_console_of_a_virtual_machine(machine: Virtual, capsys: pytest.CaptureFixture[str]) -> None:
    (machine.directory / "console.log").write_text("one\ntwo\nthree\n")
    assert cli.main(["logs", machine.name, "--console", "--lines", "2"]) == 0
    assert cli.main(["logs", machine.name, "--console", "--lines", "0"]) == 0
    assert capsys.readouterr().out == "two\nthree\n\n"
