# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Changes made by hand: each is found at the next check, repaired or reported by its class."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import (
    REPAIR,
    REPAIRED,
    REPORT,
    REPORTED,
    RESTART,
)
from tests.unit.node.drift.conftest import Drifting
from tests.unit.node.fakes import Machine, swap_row
from tests.unit.node.sites import CONFIG, CONTAINERD, KUBECONFIG, KUBELET

UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/multi-user.target.wants"
VERSIONS = "/opt/aks-flex-node/versions"
TOML = "/etc/containerd/config.toml"
SYSCTL = "/etc/sysctl.d/99-zz-aks-flex-node.conf"
MODULES = "/etc/modules-load.d/aks-flex-node.conf"
DROP_IN = f"{UNITS}/{KUBELET}.d/10-kubeadm.conf"
OTHER = f"{UNITS}/{KUBELET}.d/99-site.conf"
Change = Callable[[Drifting], object]


@dataclass(frozen=True)
class Row:
    """A change, the item that it is, its class, and the unit that restarts."""

    change: Change
    item: str | Callable[[Drifting], str]
    class_: str
    restarts: str = ""


def write(path: str, content: str = "edited\n") -> Change:
    return lambda on: on.machine.put(path, content, on.machine.path(path).stat().st_mode & 0o777)


def remove(path: str) -> Change:
    return lambda on: on.machine.path(path).unlink()


def point(path: str, target: str) -> Change:
    def change(on: Drifting) -> None:
        on.machine.path(path).unlink()
        on.machine.path(path).symlink_to(target)

    return change


def replace_by_file(path: str) -> Change:
    def change(on: Drifting) -> None:
        on.machine.path(path).unlink()
        on.machine.put(path, "#!/bin/sh\n", 0o755)

    return change


def tree(machine: Machine, name: str) -> Path:
    """The directory of the one version of an artifact."""
    (found,) = machine.path(f"{VERSIONS}/{name}").iterdir()
    return found


def tree_key(name: str) -> Callable[[Drifting], str]:
    return lambda on: f"tree:/{tree(on.machine, name).relative_to(on.machine.root)}"


def binary(name: str, change: Callable[[Path], object], of: str = "") -> Change:
    return lambda on: change(tree(on.machine, of or name) / name)


def program_file(on: Drifting) -> Path:
    (version,) = on.machine.path("/opt/aks-flex-node/agent").iterdir()
    return version / "flexnode/errors.py"


def program_key(on: Drifting) -> str:
    return f"program:/{program_file(on).parents[1].relative_to(on.machine.root)}"


def stop(unit: str, state: str = "inactive") -> Change:
    def change(on: Drifting) -> None:
        on.machine.commands.units[unit] = state
        on.machine.commands.ends(unit)

    return change


def runs(unit: str, exe: str) -> Change:
    def change(on: Drifting) -> None:
        on.machine.commands.ends(unit)
        on.machine.commands.begins(unit, exe)

    return change


def replaced(on: Drifting) -> None:
    """The file was replaced and repaired since; the process still runs what was replaced."""
    runs(KUBELET, f"{os.readlink(on.machine.path('/usr/local/bin/kubelet'))} (deleted)")(on)


def label(value: str | None) -> Change:
    def change(on: Drifting) -> None:
        labels = on.node["metadata"]["labels"]
        labels.pop("site") if value is None else labels.update(site=value)

    return change


def near_its_end(on: Drifting) -> None:
    """Nobody renewed it for nine tenths of its lifetime."""
    on.machine.clock.time += 3650 * 2 * 0.45 * 86400


TABLE = {
    "content": Row(write(TOML), f"file:{TOML}", RESTART, CONTAINERD),
    "mode": Row(lambda on: on.machine.path(CONFIG).chmod(0o644), f"file:{CONFIG}", RESTART, KUBELET),
    "owner": Row(lambda on: os.chown(on.machine.path(MODULES), 1000, 1000), f"file:{MODULES}", REPAIR),
    "deleted": Row(remove(SYSCTL), f"file:{SYSCTL}", REPAIR),
    "a link where a file was": Row(point(CONFIG, "/dev/null"), f"file:{CONFIG}", RESTART, KUBELET),
    "our drop-in deleted": Row(remove(DROP_IN), f"file:{DROP_IN}", RESTART, KUBELET),
    "CA replaced": Row(
        write("/etc/kubernetes/certs/ca.crt"), "file:/etc/kubernetes/certs/ca.crt", RESTART, KUBELET
    ),
    "server of the kubeconfig": Row(
        lambda on: on.machine.put(
            KUBECONFIG, on.machine.text(KUBECONFIG).replace("https://", "https://x"), 0o600
        ),
        f"kubeconfig:{KUBECONFIG}",
        RESTART,
        KUBELET,
    ),
    "masked": Row(point(f"{UNITS}/{KUBELET}", "/dev/null"), f"file:{UNITS}/{KUBELET}", RESTART, KUBELET),
    "unit edited": Row(write(f"{UNITS}/{CONTAINERD}"), f"file:{UNITS}/{CONTAINERD}", RESTART, CONTAINERD),
    "kubelet disabled": Row(remove(f"{WANTS}/{KUBELET}"), f"link:{WANTS}/{KUBELET}", REPAIR),
    "containerd disabled": Row(remove(f"{WANTS}/{CONTAINERD}"), f"link:{WANTS}/{CONTAINERD}", REPAIR),
    "kubelet stopped": Row(stop(KUBELET), f"unit:{KUBELET}", RESTART, KUBELET),
    "containerd failed": Row(stop(CONTAINERD, "failed"), f"unit:{CONTAINERD}", RESTART, CONTAINERD),
    "binary replaced while it runs": Row(replaced, f"unit:{KUBELET}", RESTART, KUBELET),
    "another binary runs": Row(
        runs(CONTAINERD, "/usr/bin/containerd"), f"unit:{CONTAINERD}", RESTART, CONTAINERD
    ),
    "link to another kubelet": Row(
        point("/usr/local/bin/kubelet", "/usr/bin/kubelet"), "link:/usr/local/bin/kubelet", RESTART, KUBELET
    ),
    "link deleted": Row(remove("/usr/local/bin/ctr"), "link:/usr/local/bin/ctr", REPAIR),
    "a file where a link was": Row(
        replace_by_file("/usr/local/sbin/runc"), "link:/usr/local/sbin/runc", REPAIR
    ),
    "CNI plugin deleted": Row(remove("/opt/cni/bin/bridge"), "link:/opt/cni/bin/bridge", REPAIR),
    "version changed": Row(
        binary("kubelet", lambda path: path.write_text("evil")), tree_key("kubelet"), RESTART, KUBELET
    ),
    "version incomplete": Row(binary("runc", Path.unlink), tree_key("runc"), REPAIR),
    "version with another mode": Row(
        binary("vlan", lambda path: path.chmod(0o4755), "cni-plugins"), tree_key("cni-plugins"), REPAIR
    ),
    "version without a manifest": Row(
        binary(".manifest.json", Path.unlink, "kubectl"), tree_key("kubectl"), REPAIR
    ),
    "sysctl": Row(
        lambda on: on.machine.put("/proc/sys/net/ipv4/ip_forward", "0\n"),
        "sysctl:net.ipv4.ip_forward",
        REPAIR,
    ),
    "sysctl of the kubelet": Row(
        lambda on: on.machine.put("/proc/sys/kernel/panic", "0\n"), "sysctl:kernel.panic", REPAIR
    ),
    "module unloaded": Row(
        lambda on: shutil.rmtree(on.machine.path("/sys/module/overlay")), "module:overlay", REPAIR
    ),
    "swap on": Row(
        lambda on: on.machine.put("/proc/swaps", on.machine.text("/proc/swaps") + swap_row("/new")),
        "swap:active",
        REPAIR,
    ),
    "swap in fstab": Row(
        lambda on: on.machine.put("/etc/fstab", on.machine.text("/etc/fstab") + "/new none swap sw 0 0\n"),
        "fstab:/etc/fstab",
        REPAIR,
    ),
    "swap unit": Row(
        lambda on: on.machine.put(f"{UNITS}/dev-zram0.swap", "[Swap]\nWhat=/dev/zram0\n"),
        f"link:{UNITS}/dev-zram0.swap",
        REPAIR,
    ),
    "directory deleted": Row(
        lambda on: shutil.rmtree(on.machine.path("/etc/kubernetes/manifests")),
        "directory:/etc/kubernetes/manifests",
        REPAIR,
    ),
    "directory for everyone": Row(
        lambda on: on.machine.path("/etc/kubernetes").chmod(0o777), "directory:/etc/kubernetes", REPAIR
    ),
    "our command edited": Row(lambda on: program_file(on).write_text("x = 1\n"), program_key, REPAIR),
    "our command deleted": Row(
        remove("/usr/local/bin/aks-flex-node"), "link:/usr/local/bin/aks-flex-node", REPAIR
    ),
    "label changed": Row(label("elsewhere"), "label:site", REPAIR),
    "label deleted": Row(label(None), "label:site", REPAIR),
    "taint deleted": Row(lambda on: on.node["spec"].pop("taints"), "taint:plant:NoSchedule", REPORT),
    "drop-in of another owner": Row(
        lambda on: on.machine.put(OTHER, "[Service]\nNice=5\n"), f"drop-in:{OTHER}", REPORT
    ),
    "certificate not renewed": Row(
        near_its_end, "certificate:/var/lib/kubelet/pki/kubelet-client-current.pem", REPORT
    ),
}


# A comment in fstab, a masked unit, another spelling than the kubelet's own.
LEAVES_TRACES = ("swap in fstab", "swap unit", "server of the kubeconfig")


@pytest.mark.parametrize("name", TABLE)
def test_a_change_is_found_at_the_next_check(drifting: Drifting, name: str) -> None:
    row, machine = TABLE[name], drifting.machine
    good, labels = machine.snapshot(times=False), dict(drifting.node["metadata"]["labels"])
    key = row.item if isinstance(row.item, str) else row.item(drifting)
    row.change(drifting)
    changed = machine.snapshot(times=False)
    machine.commands.calls.clear()

    status, said = drifting.check()
    found = drifting.item(key)
    assert (status, found.class_) == (0, row.class_), said
    assert found.what in said
    restarted = [call for call in machine.commands.calls if call[:2] == ("systemctl", "restart")]
    assert restarted == ([("systemctl", "restart", row.restarts)] if row.restarts else [])
    assert found.state == (REPORTED if row.class_ == REPORT else REPAIRED)
    after = machine.snapshot(times=False)
    if row.class_ == REPORT:
        assert without_own(after) == without_own(changed), "it is left as it is"
    else:
        assert drifting.node["metadata"]["labels"] == labels
        assert drifting.plan() == "nothing to do\n"
        if name not in LEAVES_TRACES:
            assert without_own(after) == without_own(good)

    machine.commands.calls.clear()
    assert drifting.check() == (0, ""), "the second check is quiet"
    assert machine.snapshot(times=False) == after
    assert machine.commands.changing() == []


def without_own(snapshot: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """Without our own records, log and manifests, and the kernel's end of line."""
    own = ("var/lib/aks-flex-node", "var/log/aks-flex-node", "proc/sys", "proc/swaps")
    return {
        path: seen
        for path, seen in snapshot.items()
        if not path.startswith(own) and not path.endswith((".manifest.json", "/stat"))
    }


def test_several_changes_are_one_repair(drifting: Drifting) -> None:
    for name in ("content", "kubelet stopped", "sysctl", "label changed", "taint deleted"):
        TABLE[name].change(drifting)
    drifting.machine.commands.calls.clear()
    status, said = drifting.check()
    assert status == 0, said
    assert {item.state for item in drifting.record.items} == {REPAIRED, REPORTED}
    restarts = [call for call in drifting.machine.commands.calls if call[:2] == ("systemctl", "restart")]
    assert restarts == [("systemctl", "restart", CONTAINERD, KUBELET)]
    assert drifting.plan() == "nothing to do\n"
