# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""node-problem-detector at the API server: what counts as a report, and what is left when it is gone."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ApiUnreachable, UnitFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.problems import (
    ProblemsNotReported,
    ProblemsReported,
    expect_conditions,
    leftover_conditions,
    settle_conditions,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.this_node import ThisNode
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY, NPD, PROBLEMS

ON = {"npd": {"version": "1.36.0", "sha256": "ab" * 32}}
REFUSED = 'E1116 problem_client.go:100] failed to update node conditions: nodes "edge-1" is forbidden'


def stamped(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def reported(beat: str = "") -> list[dict[str, Any]]:
    """Its conditions; an empty heartbeat is always the present."""
    return [{"type": name, "status": "False", "lastHeartbeatTime": beat} for name in PROBLEMS]


@pytest.fixture
def api(pki: Pki, machine: Machine) -> Iterator[FakeApi]:
    with FakeApi(nodes={"edge-1": a_node()}, now=machine.clock.now).running(pki) as running:
        yield running


def this_node(api: FakeApi, pki: Pki, machine: Machine, *changes: dict[str, Any]) -> ThisNode:
    server = {"serverURL": api.server.url, "caCertData": b64encode(pki.ca_pem.encode()).decode()}
    document = joining({"agent": {"nodeName": "edge-1"}, "node": {"kubelet": server}}, *changes)
    machine.put(IDENTITY, pki.client.read_bytes(), 0o600)
    return ThisNode.of(machine.host, parse(document, pollable=True))


def runs(machine: Machine, seconds: float = 0) -> None:
    machine.commands.units[NPD] = "active"
    machine.commands.started[NPD] = machine.clock.time - seconds


# -- the gate ----------------------------------------------------------------------------------------------


def test_a_process_that_has_reported_passes_at_once(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine, 600)
    api.nodes["edge-1"]["status"]["conditions"] += reported(stamped(machine.clock.time - 30))
    ProblemsReported(this_node(api, pki, machine, ON)).pass_(machine.host)
    assert machine.clock.naps == []


def test_a_new_process_must_report_and_run_for_five_seconds(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine)
    began = machine.clock.time
    api.nodes["edge-1"]["status"]["conditions"] += reported()
    ProblemsReported(this_node(api, pki, machine, ON)).pass_(machine.host)
    assert 5 <= machine.clock.time - began < 7


def test_reports_of_the_process_before_do_not_count(api: FakeApi, pki: Pki, machine: Machine) -> None:
    """The state before the change would pass otherwise: conditions stay when their reporter has ended."""
    runs(machine)
    # Of the same second as the start: it has whole seconds, and may be of the old process.
    api.nodes["edge-1"]["status"]["conditions"] += reported(stamped(machine.clock.time))
    machine.commands.logs[NPD] = f"I1116 main.go:1] started\n{REFUSED}\n"
    with pytest.raises(ProblemsNotReported, match="KernelDeadlock") as caught:
        ProblemsReported(this_node(api, pki, machine, ON), seconds=20).pass_(machine.host)
    assert caught.value.code == "FLEX-1511"
    assert "is forbidden" in caught.value.why
    assert sum(machine.clock.naps) == pytest.approx(20, abs=1)


def test_one_condition_that_is_missing_is_named(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine, 60)
    api.nodes["edge-1"]["status"]["conditions"] += reported()[:-1]
    with pytest.raises(ProblemsNotReported, match="has not reported FlexNodeProblem since"):
        ProblemsReported(this_node(api, pki, machine, ON), seconds=2).pass_(machine.host)


def test_a_process_that_keeps_exiting_ends_the_wait(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine)
    machine.commands.logs[NPD] = "F1116 log_monitor.go:75] Failed to unmarshal configuration file\n"
    began = machine.clock.time

    def passes() -> None:
        machine.commands.restarts[NPD] = int((machine.clock.time - began) // 5)

    machine.clock.then = passes
    with pytest.raises(UnitFailed, match="Failed to unmarshal"):
        ProblemsReported(this_node(api, pki, machine, ON)).pass_(machine.host)
    assert machine.clock.time - began < 20


@pytest.mark.parametrize("state", ["failed", "inactive"])
def test_a_unit_that_does_not_run(api: FakeApi, pki: Pki, machine: Machine, state: str) -> None:
    machine.commands.units[NPD] = state
    with pytest.raises(UnitFailed, match=NPD):
        ProblemsReported(this_node(api, pki, machine, ON), seconds=3).pass_(machine.host)


def test_an_api_server_that_is_away_says_nothing_about_it(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine)
    api.refuse["GET"] = 503
    with pytest.raises(ApiUnreachable):
        ProblemsReported(this_node(api, pki, machine, ON), seconds=2).pass_(machine.host)


def test_something_else_that_answers_says_nothing(
    api: FakeApi, pki: Pki, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The gate before this one has trusted the API server: a captive portal is in the way since."""
    runs(machine)
    portal = Pki.make(tmp_path_factory.mktemp("portal"))
    with pytest.raises(ApiUnreachable, match="is not trusted"):
        ProblemsReported(this_node(api, portal, machine, ON), seconds=2).pass_(machine.host)


def test_a_refusal_is_quoted(api: FakeApi, pki: Pki, machine: Machine) -> None:
    runs(machine)
    api.refuse["GET"] = 403
    with pytest.raises(ProblemsNotReported, match="refused by the test"):
        ProblemsReported(this_node(api, pki, machine, ON), seconds=2).pass_(machine.host)


# -- conditions that outlive it ----------------------------------------------------------------------------


class Notes(dict[str, Any]):
    """What was written down."""

    def note(self, **values: Any) -> None:
        self.update(values)


def test_what_will_be_reported_is_written_down_first(api: FakeApi, pki: Pki, machine: Machine) -> None:
    notes = Notes()
    on, off = this_node(api, pki, machine, ON).config, this_node(api, pki, machine).config
    expect_conditions(off, [], notes.note)
    assert notes == {}
    expect_conditions(on, ["OfARelease"], notes.note)
    assert notes == {"conditions": sorted(("OfARelease", *PROBLEMS))}
    notes.clear()
    expect_conditions(on, PROBLEMS, notes.note)
    assert notes == {}


def test_only_conditions_of_this_machine_are_left_over(api: FakeApi, pki: Pki, machine: Machine) -> None:
    node = api.nodes["edge-1"]
    node["status"]["conditions"] += [*reported(), {"type": "VMEventScheduled", "status": "False"}]
    off, on = this_node(api, pki, machine).config, this_node(api, pki, machine, ON).config
    assert leftover_conditions(off, PROBLEMS, node) == list(PROBLEMS)
    assert leftover_conditions(off, [], node) == [], "of a DaemonSet: it was never ours"
    assert leftover_conditions(on, PROBLEMS, node) == []
    assert leftover_conditions(on, (*PROBLEMS, "VMEventScheduled"), node) == ["VMEventScheduled"]


def test_conditions_are_removed_and_all_others_stay(api: FakeApi, pki: Pki, machine: Machine) -> None:
    notes = Notes()
    api.nodes["edge-1"]["status"]["conditions"] += [*reported(), {"type": "Other", "status": "False"}]
    done = settle_conditions(this_node(api, pki, machine), PROBLEMS, notes.note)
    assert done == [f"remove condition {name}" for name in PROBLEMS]
    left = {one["type"] for one in api.nodes["edge-1"]["status"]["conditions"]}
    assert left == {"Ready", "MemoryPressure", "Other"}
    assert notes == {"conditions": None}


def test_nothing_is_asked_while_nothing_changed(api: FakeApi, pki: Pki, machine: Machine) -> None:
    notes = Notes()
    assert settle_conditions(this_node(api, pki, machine), [], notes.note) == []
    assert settle_conditions(this_node(api, pki, machine, ON), PROBLEMS, notes.note) == []
    assert (notes, api.server.requests) == ({}, [])


@pytest.mark.parametrize("refused", [{"GET": 503}, {"PATCH": 403}])
def test_what_can_not_be_removed_stays_written_down(
    api: FakeApi, pki: Pki, machine: Machine, refused: dict[str, int]
) -> None:
    notes = Notes()
    api.nodes["edge-1"]["status"]["conditions"] += reported()
    api.refuse |= refused
    assert settle_conditions(this_node(api, pki, machine), PROBLEMS, notes.note) == []
    assert notes == {}
