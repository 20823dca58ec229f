# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kernel's state and units: modules, sysctls, swap, fstab, what runs."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import (
    Restored,
    restore_host,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    CommandFailed,
    ForeignPath,
    KernelLacks,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.fstab import (
    FSTAB_NOTE,
    FstabSwap,
    without_swap,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.modules import (
    MODULES_FILE,
    KernelModule,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.settings import Sysctl
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.swap import SwapOff
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit, unit_states
from tests.unit.node.fakes import SWAPS_HEADER, Machine, swap_row


def difference(resource: Resource, machine: Machine) -> str | None:
    change = resource.difference(resource.observe(machine.host))
    return change.sentence if change else None


def apply(resource: Resource, machine: Machine) -> None:
    machine.path("/var/lib/aks-flex-node").mkdir(parents=True, exist_ok=True)
    machine.store.journal.record([resource])
    resource.apply(machine.host)


# -- modules -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "file", "content", "loaded"),
    [
        ("overlay", "/sys/module/overlay/refcnt", "0", True),
        ("overlay", "/proc/filesystems", "nodev\toverlay\n", True),
        ("overlay", "/proc/filesystems", "nodev\toverlayfs-like\n", False),
        ("overlay", "/lib/modules/6.1.0-test/modules.builtin", "kernel/fs/overlayfs/overlay.ko\n", True),
        ("overlay", "/lib/modules/5.0.0/modules.builtin", "kernel/fs/overlayfs/overlay.ko\n", False),
        ("br_netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables", "1", True),
        ("br_netfilter", "/sys/module/bridge/refcnt", "0", False),
        ("other", "/proc/filesystems", "\tother\n", False),
    ],
)
def test_a_module_counts_as_loaded_however_it_came(
    machine: Machine, module: str, file: str, content: str, loaded: bool
) -> None:
    machine.put("/proc/sys/kernel/osrelease", "6.1.0-test\n")
    machine.put(file, content)
    assert (difference(KernelModule(module), machine) is None) == loaded


def test_a_module_is_loaded_and_unloaded(machine: Machine) -> None:
    """Loaded, br_netfilter changes what the bridges of others forward: it must not outlive the node."""
    machine.put(MODULES_FILE, "overlay\n")
    assert difference(KernelModule("overlay"), machine) == "load kernel module overlay"
    apply(KernelModule("overlay"), machine)
    assert machine.commands.calls == [("modprobe", "--", "overlay")]
    assert difference(KernelModule("overlay"), machine) is None
    restore_host(machine.host, machine.store)
    assert machine.commands.calls[1:] == [("rmmod", "overlay")]
    assert not machine.path("/sys/module/overlay").exists()


@pytest.mark.parametrize(
    ("module", "file", "content", "user"),
    [
        ("overlay", "/sys/module/overlay/refcnt", "2\n", "2 users of module overlay"),
        ("br_netfilter", "/sys/class/net/virbr0/bridge/bridge_id", "", "bridge virbr0"),
        ("overlay", "/usr/lib/modules-load.d/a.conf", "# ours\noverlay\n", "/usr/lib/modules-load.d/a.conf"),
    ],
)
def test_a_module_that_others_use_by_now_stays(
    machine: Machine, module: str, file: str, content: str, user: str
) -> None:
    apply(KernelModule(module), machine)
    machine.put(file, content)
    (left,) = restore_host(machine.host, machine.store)
    assert (left.outcome, left.why.endswith(user)) == ("left", True)
    assert machine.commands.times("rmmod") == 0


def test_a_module_that_was_loaded_before_stays(machine: Machine) -> None:
    machine.put("/sys/module/overlay/refcnt", "0\n")
    apply(KernelModule("overlay"), machine)
    restore_host(machine.host, machine.store)
    assert machine.commands.times("rmmod") == 0


def test_a_module_that_the_kernel_keeps_is_reported(machine: Machine) -> None:
    apply(KernelModule("overlay"), machine)
    machine.commands.statuses["rmmod"] = 1
    assert [one.outcome for one in restore_host(machine.host, machine.store)] == ["left"]


def test_a_kernel_without_the_module(machine: Machine) -> None:
    machine.put("/proc/sys/kernel/osrelease", "6.1.0-test\n")
    machine.commands.statuses["modprobe"] = 1
    with pytest.raises(KernelLacks) as caught:
        apply(KernelModule("overlay"), machine)
    assert (caught.value.where, caught.value.why) == ("kernel 6.1.0-test", "modprobe: it went wrong")


# -- sysctls -----------------------------------------------------------------------------------------------


def test_a_sysctl_is_set_and_given_back(machine: Machine) -> None:
    machine.put("/proc/sys/net/ipv4/ip_forward", "0\n")
    resource = Sysctl("net.ipv4.ip_forward", "1")
    assert difference(resource, machine) == "set net.ipv4.ip_forward = 1"
    apply(resource, machine)
    assert difference(resource, machine) is None
    assert restore_host(machine.host, machine.store) == [Restored("sysctl:net.ipv4.ip_forward", "restored")]
    assert machine.text("/proc/sys/net/ipv4/ip_forward").strip() == "0"


def test_a_sysctl_that_someone_changed_since_is_left(machine: Machine) -> None:
    setting = machine.put("/proc/sys/kernel/panic", "0\n")
    apply(Sysctl("kernel.panic", "10"), machine)
    setting.write_text("30\n")
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, setting.read_text()) == ("left", "30\n")


def test_a_kernel_without_the_setting(machine: Machine) -> None:
    with pytest.raises(KernelLacks, match="no setting"):
        apply(Sysctl("net.bridge.bridge-nf-call-iptables", "1"), machine)


def test_a_setting_whose_module_has_gone_is_no_trouble(machine: Machine) -> None:
    setting = machine.put("/proc/sys/net/bridge/x", "0\n")
    apply(Sysctl("net.bridge.x", "1"), machine)
    setting.unlink()
    restore_host(machine.host, machine.store)
    assert not setting.exists()


# -- swap --------------------------------------------------------------------------------------------------


def test_swap_goes_off_and_comes_back_with_its_priority(machine: Machine) -> None:
    rows = swap_row("/swapfile") + swap_row("/with\\040space", "5")
    machine.put("/proc/swaps", SWAPS_HEADER + rows)
    assert difference(SwapOff(), machine) == "turn off swap on /swapfile, /with space"
    machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile") + swap_row("/dev/zram0", "100"))
    apply(SwapOff(), machine)
    assert difference(SwapOff(), machine) is None
    assert restore_host(machine.host, machine.store) == [Restored("swap:active", "restored")]
    assert [call for call in machine.commands.calls if call[0] == "swapon"] == [
        ("swapon", "--", "/swapfile"),
        ("swapon", "--priority", "100", "--", "/dev/zram0"),
    ]
    assert restore_host(machine.host, machine.store) == []


def test_swap_in_compressed_memory_is_created_again_by_its_service(machine: Machine) -> None:
    """The machine was rebooted meanwhile, with the service masked: there is no device to swap to."""
    machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/dev/zram0", "100"))
    machine.commands.units["zramswap.service"] = "active"
    apply(SwapOff(("dphys-swapfile.service", "zramswap.service")), machine)
    machine.commands.statuses["swapon"] = 255

    def creates() -> None:
        machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/dev/zram0", "100"))

    machine.commands.on_start["zramswap.service"] = creates
    assert restore_host(machine.host, machine.store) == [Restored("swap:active", "restored")]
    assert machine.commands.times("systemctl", "restart") == 1
    assert ("systemctl", "restart", "zramswap.service") in machine.commands.calls


def test_swap_that_does_not_come_back_is_reported(machine: Machine) -> None:
    machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile"))
    apply(SwapOff(), machine)
    machine.commands.statuses["swapon"] = 255
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, taken.why) == (
        "left",
        "still in use, or not created by this collection: swap on /swapfile",
    )


def test_swap_that_can_not_go_off_is_an_error(machine: Machine) -> None:
    machine.put("/proc/swaps", SWAPS_HEADER + swap_row("/swapfile"))
    machine.commands.statuses["swapoff"] = 1
    with pytest.raises(CommandFailed, match="swapoff"):
        apply(SwapOff(), machine)


def test_no_swap_no_difference(machine: Machine) -> None:
    assert difference(SwapOff(), machine) is None
    machine.put("/proc/swaps", SWAPS_HEADER)
    assert difference(SwapOff(), machine) is None


@pytest.mark.parametrize(
    ("line", "is_swap"),
    [
        ("/swapfile none swap sw 0 0", True),
        ("  UUID=1\tswap\tswap\tdefaults 0 0", True),
        ("/dev/sda2 none swap", True),
        ("#/swapfile none swap sw 0 0", False),
        ("  # /swapfile none swap sw 0 0", False),
        ("/dev/sda1 /swap ext4 defaults 0 1", False),
        ("/dev/sda1 /mnt swapfs defaults 0 1", False),
        ("", False),
    ],
)
def test_which_lines_of_fstab_are_swap(line: str, is_swap: bool) -> None:
    table = f"UUID=0 / ext4 defaults 0 1\n{line}\n"
    assert (without_swap(table) != table) == is_swap
    assert without_swap(without_swap(table)) == without_swap(table)


LINES = st.sampled_from(
    [
        b"/swapfile none swap sw 0 0\n",
        b"UUID=1\tswap swap defaults\n",
        b"UUID=2 / ext4 defaults 0 1\n",
        b"# a note\n",
        b"# gr\xfc\xdfe\n",  # not UTF-8: an old editor's
        b"\n",
        b"/last none swap sw",
        b"\r\n",
    ]
)
FSTABS = st.lists(LINES | st.binary(max_size=20), max_size=6).map(b"".join)


@given(before=FSTABS, mode=st.sampled_from([0o644, 0o600]))
def test_any_fstab_comes_back_to_the_byte(before: bytes, mode: int) -> None:
    with Machine.temporary() as machine:
        os.chown(machine.put("/etc/fstab", before, mode), 1, 2)
        was = machine.snapshot("/etc")
        if difference(FstabSwap(), machine) is None:
            return
        apply(FstabSwap(), machine)
        assert difference(FstabSwap(), machine) is None
        assert machine.path("/etc/fstab").read_bytes().replace(FSTAB_NOTE.encode(), b"") == before
        restore_host(machine.host, machine.store)
        assert machine.snapshot("/etc") == was


def test_an_fstab_that_others_edited_only_loses_our_notes(machine: Machine) -> None:
    fstab = machine.put("/etc/fstab", "/swapfile none swap sw 0 0\n", 0o640)
    apply(FstabSwap(), machine)
    with fstab.open("a") as file:
        file.write("UUID=9 /data ext4 defaults 0 2\n")
    restore_host(machine.host, machine.store)
    assert fstab.read_text() == "/swapfile none swap sw 0 0\nUUID=9 /data ext4 defaults 0 2\n"
    assert machine.host.stat("/etc/fstab").mode == 0o640


def test_swap_that_someone_entered_again_is_left(machine: Machine) -> None:
    fstab = machine.put("/etc/fstab", "/swapfile none swap sw 0 0\n")
    apply(FstabSwap(), machine)
    fstab.write_text("/other none swap sw 0 0\n")
    (taken,) = restore_host(machine.host, machine.store)
    assert (taken.outcome, fstab.read_text()) == ("left", "/other none swap sw 0 0\n")


def test_an_fstab_that_is_a_link_stays_one_and_its_file_comes_back_to_the_byte(machine: Machine) -> None:
    machine.put(
        "/etc/fstab.d/site", "//nas/x /mnt cifs password=s3cret 0 0\n/swapfile none swap sw 0 0\n", 0o640
    )
    machine.path("/etc/fstab").symlink_to("fstab.d/site")
    before = machine.snapshot("/etc")
    apply(FstabSwap(), machine)
    assert machine.host.stat("/etc/fstab").target == "fstab.d/site"
    assert FSTAB_NOTE in machine.text("/etc/fstab.d/site")
    assert machine.host.stat("/etc/fstab.d/site").mode == 0o640
    assert FstabSwap().difference(FstabSwap().observe(machine.host)) is None
    assert [item.outcome for item in restore_host(machine.host, machine.store)] == ["restored"]
    assert machine.snapshot("/etc") == before
    assert restore_host(machine.host, machine.store) == []


def test_an_fstab_whose_link_was_changed_only_loses_our_notes(machine: Machine) -> None:
    machine.put("/etc/fstab.d/site", "/swapfile none swap sw 0 0\n")
    machine.path("/etc/fstab").symlink_to("fstab.d/site")
    apply(FstabSwap(), machine)
    copy = machine.put("/etc/fstab.d/copy", machine.text("/etc/fstab.d/site"), 0o600)
    machine.path("/etc/fstab").unlink()
    machine.path("/etc/fstab").symlink_to("fstab.d/copy")
    restore_host(machine.host, machine.store)
    assert copy.read_text() == "/swapfile none swap sw 0 0\n"
    assert machine.host.stat("/etc/fstab.d/copy").mode == 0o600


def test_an_fstab_that_is_a_link_to_a_file_of_another_user_is_not_written(machine: Machine) -> None:
    place = machine.put("/srv/edge/fstab", "UUID=1 / ext4 defaults 0 1\n")
    os.chown(place, 1000, 1000)
    machine.path("/etc").mkdir()
    machine.path("/etc/fstab").symlink_to(place)
    assert difference(FstabSwap(), machine) is None
    place.write_text("/swapfile none swap sw 0 0\n")
    with pytest.raises(ForeignPath, match="is a link to something"):
        FstabSwap().observe(machine.host)
    with pytest.raises(ForeignPath, match="root does not own it"):
        apply(FstabSwap(), machine)
    assert FSTAB_NOTE not in place.read_text()


def test_a_difference_shows_the_swap_lines_and_nothing_else_of_fstab(machine: Machine) -> None:
    machine.put("/etc/fstab", "//nas/x /mnt cifs password=s3cret 0 0\n/swapfile none swap sw 0 0\n")
    change = FstabSwap().difference(FstabSwap().observe(machine.host))
    assert change
    assert change.before == "/swapfile none swap sw 0 0\n"
    assert change.after == f"{FSTAB_NOTE}/swapfile none swap sw 0 0\n"


def test_no_fstab_no_difference(machine: Machine) -> None:
    assert difference(FstabSwap(), machine) is None


# -- units -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "running"),
    [
        ("active", True),
        ("activating", True),
        ("reloading", True),
        ("inactive", False),
        ("failed", False),
        ("deactivating", False),
    ],
)
def test_which_states_count_as_running(machine: Machine, state: str, running: bool) -> None:
    machine.commands.units["app.service"] = state
    assert (difference(Unit("app.service"), machine) is None) == running


def test_states_of_several_units_from_one_call(machine: Machine) -> None:
    machine.commands.units = {"a.service": "active", "c.service": "failed"}
    states = unit_states(machine.host, ("a.service", "b.service", "c.service"))
    assert [state["ActiveState"] for state in states.values()] == ["active", "inactive", "failed"]
    assert machine.commands.times("systemctl", "show") == 1
    assert unit_states(machine.host, ()) == {}


def test_a_machine_without_systemctl_has_no_running_unit(machine: Machine) -> None:
    machine.commands.statuses["systemctl"] = 127
    assert unit_states(machine.host, ("a.service",))["a.service"]["ActiveState"] == "inactive"


def test_a_unit_is_not_started_by_its_own_apply_and_stopped_only_if_we_started_it(machine: Machine) -> None:
    apply(Unit("app.service"), machine)
    assert machine.commands.changing() == []
    machine.commands.units["app.service"] = "active"
    assert restore_host(machine.host, machine.store) == [Restored("unit:app.service", "restored")]
    assert machine.commands.changing() == [("systemctl", "stop", "app.service")]
