# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run that fails at Azure Arc leaves a node a node: it is watched and repaired, and its health is told."""

from __future__ import annotations

import json

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.quick import check_due, looks_wrong
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import (
    ArcFailed,
    ArcUnhealthy,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.registration import register
from tests.unit.node.drift.conftest import Drifting
from tests.unit.node.drift.test_drift_table import TOML, stop, write
from tests.unit.node.fakes import Machine
from tests.unit.node.procedures.test_arc import EDGE, REQUEST, UNITS
from tests.unit.node.sites import KUBELET

SHOW = ("azcmagent", "show", "-j")


@pytest.fixture
def failed(drifting: Drifting) -> Drifting:
    """A node whose Arc agent did not work when somebody ran bootstrap again."""
    commands = drifting.machine.commands
    commands.answers[SHOW] = json.dumps({"status": "Connected", "resourceId": EDGE.resource_id})
    commands.units |= dict.fromkeys(UNITS, "active") | {"himdsd.service": "failed"}
    with pytest.raises(ArcUnhealthy):
        register(drifting.machine.host, drifting.machine.store, REQUEST, None, services_seconds=3)
    assert phase(drifting) == "ArcFailed"
    return drifting


def phase(on: Drifting) -> str:
    return str(on.machine.store.state()["phase"])


def health(host: Host, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    return main(["health"], host), capsys.readouterr().out.strip()


def test_the_node_is_watched_and_repaired(failed: Drifting) -> None:
    host, store = failed.machine.host, failed.machine.store
    failed.machine.clock.time += 151
    assert check_due(host, store)
    stop(KUBELET)(failed)
    assert looks_wrong(host, store) == "kubelet.service does not run"
    write(TOML)(failed)
    status, said = failed.check()
    assert (status, "2 items repaired" in said) == (0, True)
    assert looks_wrong(host, store) == ""


def test_a_registration_that_was_killed_leaves_it_watched_too(drifting: Drifting) -> None:
    drifting.machine.store.enter(Phase.ARC_REGISTERING)
    stop(KUBELET)(drifting)
    assert looks_wrong(drifting.machine.host, drifting.machine.store)


def test_its_health_is_that_of_a_node(failed: Drifting, capsys: pytest.CaptureFixture[str]) -> None:
    host = failed.machine.host
    assert health(host, capsys) == (
        4,
        "working: the last run did not get further than Azure Arc: its phase is ArcFailed (FLEX-1815 the Arc "
        "agent does not work)",
    )
    stop(KUBELET)(failed)
    assert health(host, capsys) == (3, "not working: kubelet.service does not run")


def test_an_agent_that_works_again_ends_it(failed: Drifting, capsys: pytest.CaptureFixture[str]) -> None:
    assert failed.check() == (0, "")
    assert phase(failed) == "ArcFailed", "it does not work yet"
    failed.machine.commands.units["himdsd.service"] = "active"
    assert failed.check() == (0, "the Arc agent works again\n")
    assert phase(failed) == "NodeJoined"
    assert (failed.machine.store.status() or {})["reason"] == "NodeJoined"
    assert health(failed.machine.host, capsys) == (0, "healthy")


def test_any_other_failure_needs_the_run_that_wanted_it(failed: Drifting) -> None:
    failed.machine.store.enter(Phase.ARC_FAILED, code=ArcFailed.code, message="forbidden")
    failed.machine.commands.units["himdsd.service"] = "active"
    failed.check()
    assert phase(failed) == "ArcFailed"


def test_a_machine_that_is_no_node_does_not_become_one(
    failed: Drifting, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unbootstrap was interrupted, and the join after it fails at Azure Arc."""
    store, host = failed.machine.store, failed.machine.host
    store.enter(Phase.ARC_FAILED, code=ArcUnhealthy.code, message="it does not work", leaving=True)
    failed.machine.commands.units["himdsd.service"] = "active"
    stop(KUBELET)(failed)
    assert looks_wrong(host, store) == ""
    assert health(host, capsys)[1].startswith("not a node: its phase is ArcFailed (FLEX-1815 ")


def test_neither_does_one_that_never_joined(debian: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    debian.store.enter(Phase.ARC_FAILED, code=ArcUnhealthy.code, message="it does not work")
    assert looks_wrong(debian.host, debian.store) == ""
    assert not check_due(debian.host, debian.store)
    assert health(debian.host, capsys) == (
        3,
        "not a node: its phase is ArcFailed (FLEX-1815 it does not work)",
    )


@pytest.mark.parametrize("ended", [Phase.VPN_FAILED, Phase.NODE_FAILED])
def test_a_node_that_failed_otherwise_is_a_node_that_does_not_work(
    drifting: Drifting, capsys: pytest.CaptureFixture[str], ended: Phase
) -> None:
    drifting.machine.store.enter(ended, code="FLEX-1502", message="it does not work")
    assert health(drifting.machine.host, capsys) == (
        3,
        f"not working: its phase is {ended.value} (FLEX-1502 it does not work)",
    )
