# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Swap on a device comes back by a name that outlives a boot, and as fstab says."""

from __future__ import annotations

import json

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import (
    Restored,
    restore_host,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.fstab import FstabSwap
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.swap import SwapOff
from tests.unit.node.fakes import SWAPS_HEADER, Machine, swap_row

BACK = [Restored("swap:active", "restored")]


def apply(resource: Resource, machine: Machine) -> None:
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True, exist_ok=True)
    machine.store.journal.record([resource])
    resource.apply(machine.host)


def active(machine: Machine, *rows: str) -> None:
    machine.put("/proc/swaps", SWAPS_HEADER + "".join(rows))


def device(machine: Machine, name: str, *links: str) -> None:
    """A device, and the links to it as udev makes them; a link that was there leads to it from now on."""
    machine.put(name)
    for link in links:
        place = machine.path(link)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to("../" * (link.count("/") - 2) + name.removeprefix("/dev/"))


def swapons(machine: Machine) -> list[tuple[str, ...]]:
    return [call[1:] for call in machine.commands.calls if call[0] == "swapon"]


@pytest.mark.parametrize(
    ("before", "after", "links"),
    [
        ("/dev/sda5", "/dev/sdb5", ["/dev/disk/by-uuid/0a1b-2c3d"]),
        ("/dev/dm-1", "/dev/dm-2", ["/dev/mapper/vg-swap", "/dev/disk/by-uuid/0a1b-2c3d"]),
    ],
)
def test_a_device_that_a_boot_gave_another_number(
    machine: Machine, before: str, after: str, links: list[str]
) -> None:
    device(machine, before, *links)
    device(machine, "/dev/sdc1", "/dev/disk/by-uuid/data")
    active(machine, swap_row(before, "5"))
    apply(SwapOff(), machine)
    device(machine, before, "/dev/disk/by-uuid/other")
    device(machine, after, *links)
    assert restore_host(machine.host, machine.store) == BACK
    assert swapons(machine) == [("--priority", "5", "--", after)]
    restore_host(machine.host, machine.store)
    assert len(swapons(machine)) == 1, "it is active, under its new name"


def test_swap_with_a_random_key_has_another_uuid_after_each_boot(machine: Machine) -> None:
    device(machine, "/dev/dm-0", "/dev/mapper/cryptswap1", "/dev/disk/by-uuid/first")
    active(machine, swap_row("/dev/dm-0"))
    apply(SwapOff(), machine)
    machine.path("/dev/disk/by-uuid/first").unlink()
    device(machine, "/dev/dm-3", "/dev/mapper/cryptswap1", "/dev/disk/by-uuid/second")
    assert restore_host(machine.host, machine.store) == BACK
    assert swapons(machine) == [("--", "/dev/dm-3")]


def test_a_device_that_is_gone_is_named_and_no_other_takes_its_place(machine: Machine) -> None:
    device(machine, "/dev/sda5", "/dev/disk/by-uuid/0a1b")
    active(machine, swap_row("/dev/sda5"))
    apply(SwapOff(), machine)
    machine.path("/dev/disk/by-uuid/0a1b").unlink()  # /dev/sda5 is another disk's now
    machine.commands.statuses["swapon"] = 255
    (left,) = restore_host(machine.host, machine.store)
    assert (left.outcome, left.why.endswith("swap on /dev/disk/by-uuid/0a1b")) == ("left", True)
    assert swapons(machine) == [("--", "/dev/disk/by-uuid/0a1b")]


def test_other_swap_under_the_number_of_ours_is_not_ours(machine: Machine) -> None:
    device(machine, "/dev/dm-1", "/dev/disk/by-uuid/ours")
    active(machine, swap_row("/dev/dm-1"))
    origin = SwapOff().capture(machine.host, machine.store.journal)
    device(machine, "/dev/dm-2", "/dev/disk/by-uuid/ours")
    assert SwapOff.restore(machine.host, "active", origin, machine.store.journal) == ["swap on /dev/dm-1"]
    assert swapons(machine) == []


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("UUID=0a1b none swap sw,discard,pri=5 0 0", ["--discard"]),
        ('UUID="0a1b" none swap discard=once', ["--discard=once"]),
        ("LABEL=swap none swap nofail,discard=pages 0 0", ["--discard=pages"]),
        ("/dev/mapper/vg-swap none swap sw,discard,nofail 0 0", ["--discard"]),
        ("/dev/dm-1 none swap sw 0 0", []),
        ("/dev/dm-1 none swap", []),
        ("/dev/dm-1 none swap x-discard,discard=all", []),
        ("/dev/dm-2 none swap discard 0 0", []),
        ("UUID=0a1b /mnt ext4 discard 0 0", []),
    ],
)
def test_discard_is_as_in_fstab(machine: Machine, line: str, options: list[str]) -> None:
    """The kernel does not tell; priorities it tells. `nofail` would hide that a device is gone."""
    device(machine, "/dev/dm-1", "/dev/mapper/vg-swap", "/dev/disk/by-uuid/0a1b", "/dev/disk/by-label/swap")
    machine.put("/etc/fstab", f"UUID=1 / ext4 discard 0 1\n{line}\n")
    active(machine, swap_row("/dev/dm-1", "5"))
    apply(SwapOff(), machine)
    apply(FstabSwap(), machine)
    restore_host(machine.host, machine.store)
    assert swapons(machine) == [("--priority", "5", *options, "--", "/dev/dm-1")]


def test_discard_of_a_file_with_a_space_in_its_name(machine: Machine) -> None:
    machine.put("/etc/fstab", "/swap\\040file none swap discard 0 0\n")
    active(machine)
    SwapOff.restore(machine.host, "active", {"areas": [["/swap file", "-2"]]}, machine.store.journal)
    assert swapons(machine) == [("--discard", "--", "/swap file")]


def test_an_origin_of_an_earlier_version_restores_by_the_kernels_name(machine: Machine) -> None:
    device(machine, "/dev/sda5", "/dev/disk/by-uuid/0a1b")
    line = {"areas": [["/dev/sda5", "5"], ["/swapfile", "-2"]]}
    entry = {"key": "swap:active", "mark": "", "was": "/dev/sda5,/swapfile", "origin": line}
    machine.put("/var/lib/aks-flex-node/journal", json.dumps(entry) + "\n")
    active(machine)
    assert restore_host(machine.host, machine.store) == BACK
    assert swapons(machine) == [("--priority", "5", "--", "/dev/sda5"), ("--", "/swapfile")]


def test_only_devices_in_memory_are_instances_of_the_service_that_creates_them(machine: Machine) -> None:
    active(machine, *map(swap_row, ("/dev/zram0", "/srv/zram1", "/--now", "/dev/sda5")))
    SwapOff(("dphys-swapfile.service", "systemd-zram-setup@.service")).capture(
        machine.host, machine.store.journal
    )
    (shown,) = (call for call in machine.commands.calls if call[:2] == ("systemctl", "show"))
    assert shown[3:] == ("dphys-swapfile.service", "systemd-zram-setup@zram0.service")
