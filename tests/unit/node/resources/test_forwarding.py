# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""net.ipv4.ip_forward: with it, the kernel changes settings of every interface. They are restored as well."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import (
    Restored,
    restore_host,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import KernelLacks
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.modules import KernelModule
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.settings import Sysctl
from tests.unit.node.engine.an_app import Killed, run
from tests.unit.node.fakes import Machine

IP_FORWARD = "/proc/sys/net/ipv4/ip_forward"
CONF = "/proc/sys/net/ipv4/conf"
REDIRECTS = f"{CONF}/all/accept_redirects"
NODE = Sysctl("net.ipv4.ip_forward", "1")
# Hardened (no redirects are accepted), and routes what comes in at a VLAN, not more.
HARDENED = {
    IP_FORWARD: "0",
    REDIRECTS: "0",
    f"{CONF}/all/forwarding": "0",
    f"{CONF}/default/accept_redirects": "0",
    f"{CONF}/default/forwarding": "1",
    f"{CONF}/eth0/forwarding": "0",
    f"{CONF}/eth0.100/forwarding": "1",
}


class Routing(Host):
    """A host with what Linux does when ip_forward changes (inet_forward_change); seen on 6.18."""

    killed_at = ""  # the process ends right after it wrote this file

    def set_value(self, path: str, value: str) -> None:
        changes = path == IP_FORWARD and self.text(path).strip() != value
        super().set_value(path, value)
        if changes:
            for name in self.names(CONF):
                super().set_value(f"{CONF}/{name}/forwarding", value)
            super().set_value(REDIRECTS, "0" if value == "1" else "1")
        if path == self.killed_at:
            raise Killed


@pytest.fixture
def hardened(machine: Machine) -> Machine:
    """The machine before it joins."""
    for path, value in HARDENED.items():
        machine.put(path, f"{value}\n")
    host = Routing(str(machine.root), machine.commands, machine.clock)
    return replace(machine, host=host, store=Store(host))


def settings(machine: Machine) -> dict[str, str]:
    return {path: machine.text(path).strip() for path in HARDENED if machine.path(path).exists()}


def test_what_the_kernel_resets_with_forwarding_is_restored(hardened: Machine) -> None:
    run(hardened, [NODE])
    assert settings(hardened) == {
        **{path: "1" for path in HARDENED if path.endswith(("forward", "forwarding"))},
        REDIRECTS: "0",
        f"{CONF}/default/accept_redirects": "0",
    }
    assert restore_host(hardened.host, hardened.store) == [Restored("sysctl:net.ipv4.ip_forward", "restored")]
    assert settings(hardened) == HARDENED
    assert restore_host(hardened.host, hardened.store) == []


def test_a_first_join_that_fails_does_not_leave_redirects_on(hardened: Machine) -> None:
    hardened.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks):
        run(hardened, [NODE, KernelModule("x")])
    assert settings(hardened) == HARDENED


@pytest.mark.parametrize("where", [IP_FORWARD, REDIRECTS, f"{CONF}/default/forwarding"])
def test_an_interrupted_restore_is_finished_by_the_next(hardened: Machine, where: str) -> None:
    assert isinstance(hardened.host, Routing)
    run(hardened, [NODE])
    hardened.host.killed_at = where
    with pytest.raises(Killed):
        restore_host(hardened.host, hardened.store)
    hardened.host.killed_at = ""
    restore_host(hardened.host, hardened.store)
    assert settings(hardened) == HARDENED


def test_an_interface_that_is_gone_or_new_is_no_trouble(hardened: Machine) -> None:
    run(hardened, [NODE])
    hardened.path(f"{CONF}/eth0.100/forwarding").unlink()
    hardened.path(f"{CONF}/eth0.100").rmdir()
    later = hardened.put(f"{CONF}/wg0/forwarding", "1\n")
    restore_host(hardened.host, hardened.store)
    assert settings(hardened) == {path: value for path, value in HARDENED.items() if "eth0.100" not in path}
    assert not hardened.path(f"{CONF}/eth0.100").exists()
    assert later.read_text().strip() == "0"  # as the kernel does it


def test_a_machine_that_routed_before_keeps_its_settings(hardened: Machine) -> None:
    """Nothing of it is ours: neither the setting nor what its owner did to the interfaces since."""
    hardened.host.set_value(IP_FORWARD, "1")
    run(hardened, [NODE])
    hardened.put(f"{CONF}/eth0/forwarding", "0\n")
    before = settings(hardened)
    assert restore_host(hardened.host, hardened.store) == []
    assert settings(hardened) == before


def test_other_settings_have_an_origin_of_one_value(hardened: Machine) -> None:
    hardened.put("/proc/sys/kernel/panic", "0\n")
    assert Sysctl("kernel.panic", "10").capture(hardened.host, hardened.store.journal) == {"value": "0"}


def test_an_origin_of_an_earlier_version_restores_the_setting_alone(hardened: Machine) -> None:
    line = {"key": "sysctl:net.ipv4.ip_forward", "mark": "1", "was": "0", "origin": {"value": "0"}}
    hardened.put("/var/lib/aks-flex-node/journal", json.dumps(line) + "\n")
    NODE.apply(hardened.host)
    restore_host(hardened.host, hardened.store)
    assert settings(hardened)[IP_FORWARD] == "0"
    assert settings(hardened)[REDIRECTS] == "1"
    assert restore_host(hardened.host, hardened.store) == []
