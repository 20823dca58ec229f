# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad days of a real disk and a real clock: each gives a clear error, and the next run completes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.e2e.updating import Group, changed
from tests.vm.acts import CASE
from tests.vm.lab import (
    Lab,
    is_ready,
    machine_of,
    photographed,
    reports,
    touched_by_refusal,
    unchanged,
    uninstall,
)
from tests.vm.seen import Seen

FILL, WRONG = "/var/tmp/fill", "2021-03-04T05:06:07"
YEAR = 365 * 24 * 3600


@pytest.fixture(scope="module")
def node(bed: Testbed, lab: Lab) -> Group:
    """A machine that is not joined yet."""
    return lab.group(lab.machine("unlucky", "debian13", Hardware(paths.arch())), fleet.join_document(bed))


@pytest.fixture
def joined(node: Group) -> Group:
    """It is a node, also if the test before left it otherwise."""
    machine = machine_of(node)
    if abs(behind(machine)) > 60:
        machine.reboot()
    fleet.succeeded(node.play("bootstrap", node.document))
    return node


def behind(machine: VirtualMachine) -> float:
    """How many seconds its clock is late."""
    return time.time() - int(machine.run(["date", "+%s"]).stdout)


def start_in_the_past(machine: VirtualMachine) -> None:
    """No battery, and no time server reached yet. systemd moves such a clock to the day of its own build."""
    machine.shut_down()
    machine.start(clock=WRONG)
    assert behind(machine) > YEAR / 2, "the clock is not far off"


@contextmanager
def full_disk(machine: VirtualMachine) -> Iterator[None]:
    """Its root file system has nothing left, not even root's reserve."""
    free = int(machine.run(["stat", "--file-system", "--format=%f", "/"]).stdout) * 4 // 1024
    machine.run(["fallocate", "--length", f"{free - 32}M", FILL])
    machine.run(["dd", "if=/dev/zero", f"of={FILL}", "oflag=append", "conv=notrunc", "bs=64K"], check=False)
    try:
        assert int(machine.run(["stat", "--file-system", "--format=%f", "/"]).stdout) * 4 < 128
        yield
    finally:
        machine.run(["rm", FILL])


def test_a_clock_that_is_years_behind_at_boot(bed: Testbed, node: Group, seen: Seen) -> None:
    """It is said before anything is touched; with the right time the machine joins."""
    machine = machine_of(node)
    with seen.act(machine, versions.KUBERNETES, part=CASE, act="clock years behind before the join"):
        start_in_the_past(machine)
        before = photographed(machine)
        refused = node.play("bootstrap", node.document)
        assert refused.status != 0
        assert "ERROR clock-skew" in refused.output, refused.output
        assert touched_by_refusal(before, photographed(machine)) == []
        machine.reboot()
        fleet.succeeded(node.play("bootstrap", node.document))
        is_ready(bed, machine)


def test_a_node_that_boots_with_a_wrong_clock_comes_back_with_the_right_one(
    bed: Testbed, joined: Group, seen: Seen
) -> None:
    machine = machine_of(joined)
    with seen.act(machine, versions.KUBERNETES, part=CASE, act="clock years behind after a boot"):
        start_in_the_past(machine)
        refused = joined.play("update", joined.document)
        assert refused.status != 0
        assert "check this machine's clock (timedatectl)" in refused.output, refused.output
        machine.run(["date", "--set", f"@{time.time():.0f}"])  # as a time server does, once it is reached
        reports(bed, machine)
        unchanged(joined.play("update", joined.document), machine)


def settled(machine: VirtualMachine) -> dict[str, Any]:
    """Its files, without those that a running node changes."""
    files = photographed(machine)["files"]
    return {"files": {path: facts for path, facts in files.items() if not path.startswith("/var/")}}


def test_a_full_disk(bed: Testbed, joined: Group, seen: Seen) -> None:
    machine = machine_of(joined)
    other = changed(joined.document, node={**joined.document["node"], "maxPods": 40})
    with seen.act(machine, versions.KUBERNETES, part=CASE, act="update and uninstall while the disk is full"):
        before = settled(machine)
        with full_disk(machine):
            run = joined.play("update", other)
            assert updating.failure(run, machine.name)[0] == "FLEX-1303", run.output
            refused = joined.play("unbootstrap", joined.document)
            assert updating.failure(refused, machine.name)[0] == "FLEX-1303", refused.output
            reports(bed, machine)
            assert differences(before, settled(machine)) == []
        fleet.succeeded(joined.play("update", other))
        unchanged(joined.play("update", other), machine)
        fleet.succeeded(joined.play("update", joined.document))


def test_a_root_that_turned_read_only(bed: Testbed, lab: Lab, seen: Seen) -> None:
    """As ext4 does after an error, provoked in the kernel: said with the way out, and over after a reboot.

    On Debian 12: the kernel of Debian 13 then refuses to read as well, so that nobody can log in any more.
    """
    machine = lab.machine("worn", "debian12", Hardware(paths.arch()))
    node = lab.group(machine, fleet.join_document(bed))
    with seen.act(machine, versions.KUBERNETES, part=CASE, act="root file system turned read-only"):
        fleet.succeeded(node.play("bootstrap", node.document))
        machine.run(["mount", "-o", "remount,errors=remount-ro", "/"])
        machine.run(["sh", "-c", "echo testbed > /sys/fs/ext4/vda/trigger_fs_error"])
        fleet.eventually("a read-only root", lambda: "Read-only file system" in touched(machine))
        other = changed(node.document, node={**node.document["node"], "maxPods": 41})
        refused = node.play("update", other)
        assert refused.status != 0
        # What was read before can be read again, the rest no more: what can still be said depends on that.
        known = "FLEX-1304" in refused.output
        print("it said", "FLEX-1304" if known else "that the module was cut short")
        assert known or "cut short on this machine" in refused.output, refused.output
        assert "fix: " in refused.output, refused.output
        machine.stop()
        machine.start()
        is_ready(bed, machine)
        fleet.succeeded(node.play("update", other))
        uninstall(node, other)


def touched(machine: VirtualMachine) -> str:
    """What the kernel says to a new file."""
    return machine.run(["touch", "/var/tmp/here"], check=False).stderr
