# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Two machines with one name: which of them reported the Node, and what a gate makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NodeNotReady
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.reporter import (
    BOOT_ID,
    CONTAINER,
    ONE_REPORT,
    By,
    Ids,
    NodeOfAnother,
    left_to_other,
    reported_by,
)
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.node_object.test_gates import at, gate, started
from tests.unit.node.servers import Pki

BOOT, MACHINE = "11111111-aaaa", "machine-1"
NOW = 1_800_000_000.0
VM = Ids(BOOT, MACHINE, booted=NOW - 1000, now=NOW)
CONTAINED = replace(VM, shares_kernel=True)
ANOTHER = "10.0.0.7"


def by(boot: str = BOOT, machine: str = MACHINE, *, beat: str = "", **more: Any) -> dict[str, Any]:
    """A Node as the kubelet of some machine reports it."""
    node = a_node(beat=beat, **more)
    node["status"]["nodeInfo"] |= {"bootID": boot, "machineID": machine}
    if boot != BOOT or machine != MACHINE:
        node["status"]["addresses"] = [
            {"type": "InternalIP", "address": ANOTHER},
            {"type": "Hostname", "address": "edge-1"},
        ]
    return node


def stamp(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


@pytest.mark.parametrize(
    ("ids", "boot", "machine", "age", "found"),
    [
        (VM, BOOT, MACHINE, 5, By.THIS),
        (VM, BOOT, "changed-since", 5, By.THIS),  # the kubelet reads it once
        (VM, "other-boot", "machine-2", 5, By.OTHER),
        (VM, "other-boot", "machine-2", 9999, By.OTHER),  # a machine that this one replaces
        (VM, "other-boot", MACHINE, 5, By.OTHER),  # a clone
        (VM, "other-boot", MACHINE, 1500, By.EARLIER),  # the kubelet has not reported since the boot
        (VM, "other-boot", MACHINE, -1800, By.EARLIER),  # and the clock was set back
        (VM, "", "", 5, By.UNKNOWN),
        (replace(VM, boot=""), BOOT, MACHINE, 5, By.UNKNOWN),
        (CONTAINED, BOOT, MACHINE, 5, By.THIS),
        (CONTAINED, BOOT, "machine-2", 5, By.OTHER),
        (CONTAINED, BOOT, "", 5, By.THIS),
        (replace(CONTAINED, machine=""), BOOT, "machine-2", 5, By.THIS),
    ],
)
def test_who_reported_a_node(ids: Ids, boot: str, machine: str, age: float, found: By) -> None:
    assert reported_by(by(boot, machine, beat=stamp(NOW - age)), ids) is found


def test_the_ids_of_a_machine(machine: Machine) -> None:
    assert Ids.of(machine.host) == Ids(now=machine.clock.now())
    machine.put(BOOT_ID, f"{BOOT}\n")
    machine.put("/etc/machine-id", "\n")  # an image that was prepared for copies
    machine.put("/var/lib/dbus/machine-id", f"{MACHINE}\n")
    machine.put(CONTAINER, "lxc\n")
    found = Ids.of(machine.host)
    assert (found.boot, found.machine, found.shares_kernel) == (BOOT, MACHINE, True)


# -- the gate ----------------------------------------------------------------------------------------------


@pytest.fixture
def api(pki: Pki, machine: Machine) -> Iterator[FakeApi]:
    machine.put(BOOT_ID, f"{BOOT}\n")
    machine.put("/etc/machine-id", f"{MACHINE}\n")
    with FakeApi().running(pki, client_needed=True) as running:
        running.now = machine.clock.now
        yield running


def taking_turns(api: FakeApi, machine: Machine, *, first: int, other: dict[str, Any]) -> Callable[[], None]:
    """Two kubelets that report every ten seconds; this one so many seconds before the other one."""
    began = machine.clock.time

    def passes() -> None:
        turn = (machine.clock.time - began) % 10
        api.nodes["edge-1"] = by() if turn < first else other

    return passes


def test_the_node_of_another_machine_is_not_ready(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.nodes["edge-1"] = by("other-boot", "machine-2")
    started(machine, pki)
    with pytest.raises(
        NodeOfAnother, match=r"Node edge-1 is reported by another machine \(10\.0\.0\.7\)"
    ) as e:
        gate(api, pki, machine, seconds=30).pass_(machine.host)
    assert sum(machine.clock.naps) == pytest.approx(30, abs=0.2), "the report of this one may still come"
    assert "agent.nodeName" in e.value.fix


def test_a_report_from_before_the_boot_is_waited_out(
    api: FakeApi, pki: Pki, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.clock, "monotonic", lambda: machine.clock.time - NOW + 100)
    api.nodes["edge-1"] = by("earlier-boot", beat=at(machine, -110))
    started(machine, pki)
    machine.commands.started["kubelet.service"] = machine.clock.monotonic()
    with pytest.raises(NodeNotReady, match="has not reported since it was started"):
        gate(api, pki, machine, seconds=5).pass_(machine.host)
    machine.clock.then = lambda: api.nodes.update({"edge-1": by()})
    began = machine.clock.time
    gate(api, pki, machine, seconds=30).pass_(machine.host)
    assert machine.clock.time - began < 3, "that was this machine: nobody else is waited for"


@pytest.mark.parametrize("first", [1, 3, 8])
def test_two_machines_that_take_turns_are_found(api: FakeApi, pki: Pki, machine: Machine, first: int) -> None:
    other = by("other-boot")  # a clone
    api.nodes["edge-1"] = other
    started(machine, pki)
    machine.clock.sleep(0.5)
    machine.clock.then = taking_turns(api, machine, first=first, other=other)
    with pytest.raises(NodeOfAnother):
        gate(api, pki, machine, seconds=10).pass_(machine.host)


@pytest.mark.parametrize(("new", "longer"), [(True, True), (False, False)])
def test_a_new_node_that_is_older_than_its_join_is_watched_for_another_machine(
    api: FakeApi, pki: Pki, machine: Machine, new: bool, longer: bool
) -> None:
    api.nodes["edge-1"] = by()
    api.nodes["edge-1"]["metadata"]["creationTimestamp"] = at(machine, -300)
    started(machine, pki)
    began = machine.clock.time
    replace(gate(api, pki, machine, seconds=10), new=new).pass_(machine.host)
    assert (machine.clock.time - began >= ONE_REPORT) is longer


def test_a_node_that_this_join_made_is_not_waited_for(api: FakeApi, pki: Pki, machine: Machine) -> None:
    started(machine, pki)
    began = machine.clock.time
    api.nodes["edge-1"] = by()
    api.nodes["edge-1"]["metadata"]["creationTimestamp"] = at(machine, 0)
    replace(gate(api, pki, machine, seconds=30), new=True).pass_(machine.host)
    assert machine.clock.time - began < 7


def test_a_machine_that_replaces_a_dead_one_is_not_kept_waiting(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    dead = by("other-boot", "machine-2", beat=at(machine, -900))
    dead["status"]["conditions"][1]["status"] = "Unknown"
    api.nodes["edge-1"] = dead
    started(machine, pki)
    began = machine.clock.time
    machine.clock.then = lambda: api.nodes.update({"edge-1": by()})
    replace(gate(api, pki, machine, seconds=30), new=True).pass_(machine.host)
    assert machine.clock.time - began < 7


# -- a machine that leaves ---------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [2, 5, 9])
def test_a_machine_that_leaves_finds_the_other_one(
    api: FakeApi, pki: Pki, machine: Machine, first: int
) -> None:
    api.nodes["edge-1"] = by()
    started(machine, pki)
    machine.clock.then = taking_turns(api, machine, first=first, other=by("other-boot"))
    told: list[str] = []
    assert ANOTHER in left_to_other(gate(api, pki, machine).node, told.append)
    assert told == ["checking for 12 s that no other machine reports Node edge-1"]


@pytest.mark.parametrize(("status", "seconds"), [("True", ONE_REPORT), ("Unknown", 0)])
def test_a_machine_that_leaves_alone(
    api: FakeApi, pki: Pki, machine: Machine, status: str, seconds: float
) -> None:
    api.nodes["edge-1"] = by()
    api.nodes["edge-1"]["status"]["conditions"][1]["status"] = status
    started(machine, pki)
    assert left_to_other(gate(api, pki, machine).node, lambda _line: None) == ""
    assert sum(machine.clock.naps) == pytest.approx(seconds)


def test_a_container_is_looked_at_once(api: FakeApi, pki: Pki, machine: Machine) -> None:
    machine.put(CONTAINER, "podman\n")
    api.nodes["edge-1"] = by()
    started(machine, pki)
    assert left_to_other(gate(api, pki, machine).node, lambda _line: None) == ""
    api.nodes["edge-1"] = by(machine="machine-2")
    assert left_to_other(gate(api, pki, machine).node, lambda _line: None)
    assert machine.clock.naps == []


def test_an_api_server_that_does_not_answer_is_no_other_machine(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    started(machine, pki)
    api.refuse["GET"] = 403
    assert left_to_other(gate(api, pki, machine).node, lambda _line: None) == ""
