# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Paths without links, on a machine below a temporary root and on a real one."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.links import real_path
from tests.unit.node.fakes import Machine


def test_below_a_temporary_root(machine: Machine) -> None:
    machine.path("/disk/kubelet").mkdir(parents=True)
    machine.path("/var/lib").mkdir(parents=True)
    machine.path("/var/lib/kubelet").symlink_to("../../disk/kubelet")
    assert real_path(machine.host, "/var/lib/kubelet/pods") == "/disk/kubelet/pods"
    assert real_path(machine.host, "/etc/fstab") == "/etc/fstab"


def test_on_a_real_machine_the_path_stays_absolute(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk")
    assert real_path(Host(), f"{tmp_path}/link/pods") == f"{tmp_path}/disk/pods"
    assert real_path(Host(), "/etc/passwd") == "/etc/passwd"
