# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Monitors: the programs are run, and the patterns are tried on what kernels log."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.npd.monitors import (
    AWK,
    EVENTS,
    HUNG,
    SHELL,
    condition_types,
    filesystems,
    monitors,
    rendered,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.annotation import CONDITION
from tests.unit.node.components.npd.test_detector import ON, configured
from tests.unit.node.conftest import Golden

MOUNTS = """22 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 {root}
23 22 0:21 / /proc rw,nosuid shared:5 - proc proc rw
24 22 253:2 / /var/log {log} shared:9 - xfs /dev/vdb1 rw,attr2
25 22 253:3 / /var/lib/kubelet rw - ext4 /dev/vdc1 {kubelet}
26 22 7:1 / /snap/core/1 ro,nodev shared:7 - squashfs /dev/loop1 ro,errors=continue
27 22 253:4 / /var/lib/containerdx ro - ext4 /dev/vde1 ro
"""
# As kernels write them, after the time.
MESSAGES = {
    "OOMKilling": [
        "Out of memory: Killed process 812 (stress) total-vm:81236kB, anon-rss:7kB, file-rss:0kB",
        "Memory cgroup out of memory: Killed process 77 (java) total-vm:1kB, anon-rss:1kB UID:0 pgtables:1kB",
    ],
    "TaskHung": ["INFO: task jbd2/vda1-8:120 blocked for more than 120 seconds."],
    "SoftLockup": ["watchdog: BUG: soft lockup - CPU#3 stuck for 23s! [kworker/3:1:88]"],
    "KernelOops": [
        "BUG: unable to handle page fault for address: ffffffffffffffd8",
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "general protection fault, probably for non-canonical address 0xdead: 0000 [#1] SMP",
    ],
    "UnregisterNetDevice": ["unregister_netdevice: waiting for veth1 to become free. Usage count = 1"],
    "FilesystemError": [
        "EXT4-fs error (device vda1): ext4_find_entry:1455: inode #2: comm ls: reading directory lblock 0",
        "XFS (sda1): Metadata corruption detected; Shutting down filesystem.",
    ],
    "FilesystemReadOnly": ["EXT4-fs (vda1): Remounting filesystem read-only"],
    "IOError": [
        "Buffer I/O error on dev sdb, logical block 0, async page read",
        "blk_update_request: I/O error, dev sdb, sector 2048 op 0x0:(READ)",
    ],
    "HardwareError": ["mce: [Hardware Error]: Machine check events logged"],
}
HARMLESS = (
    "EXT4-fs (vda1): mounted filesystem with ordered data mode",
    "task kubelet:1 is fine",
    "systemd[1]: Started kubelet.service",
)


def test_monitors(golden: Golden) -> None:
    shown = "".join(
        f"{name} ({kind})\n{rendered(text)}" for name, (kind, text) in monitors(configured(ON)).items()
    )
    golden("node-problem-detector.txt", shown)


def test_conditions_have_the_rules_of_one_kind_only() -> None:
    """Two rules of one condition would undo each other's answer; log rules only ever set it."""
    types = condition_types(configured(ON))
    assert len(types) == len(set(types))
    for kind, document in monitors(configured(ON)).values():
        ruled = [rule["condition"] for rule in document["rules"] if rule["type"] == "permanent"]
        assert set(ruled) == {condition["type"] for condition in document["conditions"]}
        assert kind == "system-log-monitor" or len(ruled) == len(set(ruled))


def test_conditions_are_not_those_of_the_kubelet_or_of_this_collection() -> None:
    others = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", CONDITION}
    assert not others & set(condition_types(configured(ON)))


@pytest.mark.parametrize("reason", EVENTS)
def test_messages_of_the_kernel(reason: str) -> None:
    for message in MESSAGES[reason]:
        assert re.search(EVENTS[reason] + r"\Z", message), message
    for message in HARMLESS:
        assert not re.search(EVENTS[reason] + r"\Z", message), message


@pytest.mark.parametrize(
    ("task", "is_ours"),
    [
        ("kubelet", True),
        ("containerd", True),
        ("containerd-shim", True),
        ("runc:[2:INIT]", True),
        ("dd", False),
    ],
)
def test_a_task_of_the_node_that_hangs(task: str, is_ours: bool) -> None:
    message = f"INFO: task {task}:4711 blocked for more than 122 seconds."
    assert bool(re.search(HUNG + r"\Z", message)) is is_ours


# -- file systems ------------------------------------------------------------------------------------------


def looked(
    tmp_path: Path, *, root: str = "rw", log: str = "rw", kubelet: str = "rw,errors=remount-ro"
) -> Any:
    (tmp_path / "mountinfo").write_text(MOUNTS.format(root=root, log=log, kubelet=kubelet))
    script = tmp_path / "filesystems.awk"
    script.write_text(AWK)
    (rule,) = filesystems(configured(ON))["rules"]
    places = {
        "/etc/node-problem-detector/filesystems.awk": str(script),
        "/proc/1/mountinfo": f"{tmp_path}/mountinfo",
    }
    words = [rule["path"], *(places.get(word, word) for word in rule["args"])]
    assert words[-1] != "/proc/1/mountinfo"
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip() + done.stderr


def test_writable_file_systems(tmp_path: Path) -> None:
    assert looked(tmp_path) == (0, "")


@pytest.mark.parametrize(
    ("where", "point"),
    [
        ({"root": "ro"}, "/"),
        ({"log": "ro,noatime"}, "/var/log"),
        ({"kubelet": "ro,errors=remount-ro"}, "/var/lib/kubelet"),
        ({"kubelet": "rw,emergency_ro,errors=remount-ro"}, "/var/lib/kubelet"),
        ({"root": "ro", "log": "ro"}, "/, /var/log"),
    ],
)
def test_read_only_file_systems_are_named_once_each(
    tmp_path: Path, where: dict[str, str], point: str
) -> None:
    assert looked(tmp_path, **where) == (1, f"mounted read-only: {point}")


def test_a_mount_above_another_counts(tmp_path: Path) -> None:
    over = "28 24 0:55 / /var/log rw - tmpfs tmpfs rw\n"
    assert looked(tmp_path, log="ro")[0] == 1
    (tmp_path / "mountinfo").write_text((tmp_path / "mountinfo").read_text() + over)
    script, directories = tmp_path / "filesystems.awk", "directories=/var/log"
    words = ["awk", "-v", directories, "-f", str(script), f"{tmp_path}/mountinfo"]
    assert subprocess.run(words, check=False).returncode == 0


def test_nobody_knows_without_mounts(tmp_path: Path) -> None:
    (tmp_path / "filesystems.awk").write_text(AWK)
    words = ["awk", "-v", "directories=/", "-f", f"{tmp_path}/filesystems.awk", f"{tmp_path}/none"]
    assert subprocess.run(words, capture_output=True, check=False).returncode == 2


# -- restarts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("times", "status"), [(0, 0), (4, 0), (5, 1), (12, 1)])
def test_restarts(tmp_path: Path, times: int, status: int) -> None:
    (tmp_path / "restarts.sh").write_text(SHELL)
    journal = tmp_path / "journalctl"
    journal.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\nseq {times}\n')
    journal.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", f"{tmp_path}/restarts.sh", "kubelet.service"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert ("kubelet.service was restarted" in done.stdout) is bool(status)
    asked = (tmp_path / "asked").read_text().split()
    assert "UNIT=kubelet.service" in asked
    assert "--since=-20min" in asked


def test_nobody_knows_without_a_journal(tmp_path: Path) -> None:
    (tmp_path / "restarts.sh").write_text(SHELL)
    words = ["/bin/sh", f"{tmp_path}/restarts.sh", "kubelet.service"]
    assert subprocess.run(words, env={"PATH": str(tmp_path)}, check=False).returncode == 2


def test_a_monitor_is_json() -> None:
    for _kind, document in monitors(configured(ON)).values():
        assert json.loads(rendered(document)) == document
