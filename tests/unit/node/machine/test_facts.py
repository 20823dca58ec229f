# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Facts of a machine, and what on it belongs to others."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.other_owners import (
    RIVALS,
    VENDOR_AGENT,
    check_foreign,
    foreign_units,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ForeignRuntime,
    UnsupportedPlatform,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import (
    check_platform,
    gather,
    memory_of,
    os_release,
    swap_units,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fakes import Machine


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ('ID=ubuntu\nVERSION_ID="24.04"\n', {"ID": "ubuntu", "VERSION_ID": "24.04"}),
        ("ID='debian'\n\n# comment\nNAME=\"a=b\"\n", {"ID": "debian", "NAME": "a=b"}),
        ("", {}),
    ],
)
def test_os_release(text: str, pairs: dict[str, str]) -> None:
    assert os_release(text) == pairs


@pytest.mark.parametrize(
    ("text", "size"), [("MemTotal:  2048 kB\n", 2 << 20), ("MemFree: 1 kB\nMemTotal: 1 kB\n", 1024), ("", 0)]
)
def test_memory(text: str, size: int) -> None:
    assert memory_of(text) == size


def test_a_debian_as_it_is(debian: Machine) -> None:
    facts = gather(debian.host, "aarch64")
    assert facts.platform == "debian 12 arm64"
    assert (facts.hostname, facts.memory, facts.cgroup_v2) == ("edge-1", 8134224 << 10, True)
    assert (facts.resolv_conf, facts.swap_units) == ("/etc/resolv.conf", ())
    check_platform(facts, debian.host)
    assert debian.commands.calls == []


def test_a_resolver_stub_and_an_old_cgroup_are_seen(debian: Machine) -> None:
    debian.put("/run/systemd/resolve/resolv.conf")
    debian.path("/sys/fs/cgroup/cgroup.controllers").unlink()
    facts = gather(debian.host, "x86_64")
    assert (facts.resolv_conf, facts.cgroup_v2) == ("/run/systemd/resolve/resolv.conf", False)


@pytest.mark.parametrize("machine_type", ["riscv64", "i686", "armv7l"])
def test_a_processor_that_nothing_is_built_for(debian: Machine, machine_type: str) -> None:
    with pytest.raises(UnsupportedPlatform, match=machine_type):
        gather(debian.host, machine_type)


@pytest.mark.parametrize(
    ("release", "accepted"),
    [
        ('ID=ubuntu\nVERSION_ID="22.04"', True),
        ('ID=ubuntu\nVERSION_ID="24.04"', True),
        ('ID=debian\nVERSION_ID="13"', True),
        ('ID=debian\nVERSION_ID="11"', False),
        ('ID=fedora\nVERSION_ID="42"', False),
        ("", False),
    ],
)
def test_platforms(debian: Machine, release: str, accepted: bool) -> None:
    debian.put("/etc/os-release", release)
    facts = gather(debian.host, "x86_64")
    if accepted:
        check_platform(facts, debian.host)
    else:
        with pytest.raises(UnsupportedPlatform, match="this is"):
            check_platform(facts, debian.host)


def test_a_machine_without_systemd(debian: Machine) -> None:
    debian.path("/run/systemd/system").rmdir()
    with pytest.raises(UnsupportedPlatform, match="systemd is not running"):
        check_platform(gather(debian.host, "x86_64"), debian.host)


def test_units_that_bring_swap_back(debian: Machine) -> None:
    debian.put("/etc/systemd/system/dev-sda2.swap")
    debian.put("/usr/lib/systemd/system/zramswap.service")
    debian.put("/usr/lib/systemd/system/swap.target")
    debian.put("/usr/lib/systemd/system/dev-sda2.swap")
    assert swap_units(debian.host) == ("dev-sda2.swap", "zramswap.service")


# -- foreign owners ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("directory", ["/etc/systemd/system", "/usr/lib/systemd/system"])
@pytest.mark.parametrize("unit", [unit for unit in RIVALS if unit != VENDOR_AGENT])
def test_another_owners_unit_is_found_unless_we_may_take_over(
    debian: Machine, unit: str, directory: str
) -> None:
    config = parse(joining())
    check_foreign(debian.host, debian.store, config, joined=False)
    debian.put(f"{directory}/{unit}")
    assert foreign_units(debian.host, debian.store) == [f"{directory}/{unit}"]
    with pytest.raises(ForeignRuntime) as caught:
        check_foreign(debian.host, debian.store, config, joined=False)
    assert caught.value.where == f"{directory}/{unit}"
    check_foreign(debian.host, debian.store, config, joined=True)
    check_foreign(debian.host, debian.store, parse(joining({"takeover": True})), joined=False)
    debian.put("/etc/systemd/system/aks-flex-node-agent.service")
    with pytest.raises(ForeignRuntime) as caught:  # a daemon that would replace what we install
        check_foreign(debian.host, debian.store, parse(joining({"takeover": True})), joined=True)
    assert "aks-flex-node reset" in caught.value.fix


def test_our_own_unit_is_not_foreign_but_one_that_was_there_stays_so(debian: Machine) -> None:
    unit = File("/etc/systemd/system/containerd.service", "ours")
    debian.store.journal.record([unit])
    unit.apply(debian.host)
    assert foreign_units(debian.host, debian.store) == []
    debian.store.forget()
    debian.store.journal.record([unit])
    assert foreign_units(debian.host, debian.store) == ["/etc/systemd/system/containerd.service"]
