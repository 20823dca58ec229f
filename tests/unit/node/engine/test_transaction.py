# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Transactions: fetch, apply, restart once, pass the gates."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import (
    make_plan,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import (
    Timings,
    execute,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactUnreachable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from tests.unit.node.engine.an_app import (
    APP,
    SIDE,
    Stager,
    Watching,
    an_app,
    run,
)
from tests.unit.node.fakes import Machine


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


def test_preparing_a_machine_starts_nothing(machine: Machine, host: Host) -> None:
    run(machine, [item for item in an_app() if not isinstance(item, Unit)])
    assert machine.commands.changing() == [("systemctl", "daemon-reload")]
    assert machine.commands.units == {}


def test_a_join_reloads_and_starts_once(machine: Machine, host: Host) -> None:
    _, told = run(machine, an_app(), [Watching(lambda: None)])
    assert machine.commands.changing() == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "restart", APP),
    ]
    assert told == [
        "fetch tool 1.0.0",
        "apply 13 changes",
        f"start {APP}",
        "waiting for a test",
    ]
    assert machine.store.transaction() is None


def test_several_changed_files_restart_a_running_unit_once_in_order(machine: Machine, host: Host) -> None:
    run(machine, [*an_app(), Unit(SIDE)])
    machine.commands.calls.clear()
    both = File("/etc/side", "x", restarts=(SIDE, APP))
    run(machine, [*an_app("two"), both, Unit(SIDE)])
    assert machine.commands.changing() == [("systemctl", "restart", APP, SIDE)]


def test_only_a_unit_file_asks_for_a_reload(machine: Machine, host: Host) -> None:
    run(machine, an_app())
    machine.commands.calls.clear()
    run(machine, [File("/etc/other", "x"), File("/etc/systemd/system/app.service.d/10.conf", "[Service]\n")])
    assert machine.commands.changing() == [("systemctl", "daemon-reload")]
    machine.commands.calls.clear()
    run(machine, [File("/etc/other", "y")])
    assert machine.commands.changing() == []


def test_nothing_is_stopped_or_written_before_everything_is_staged(machine: Machine, host: Host) -> None:
    machine.commands.units[APP] = "active"
    before = machine.snapshot("/etc", "/opt", "/usr")
    stager = Stager(machine, fails=ArtifactUnreachable("no such mirror"))
    with pytest.raises(ArtifactUnreachable):
        run(machine, an_app(), stager=stager)
    assert machine.commands.changing() == []
    assert machine.snapshot("/etc", "/opt", "/usr") == before
    assert machine.store.transaction() is None
    stager = Stager(machine)
    run(machine, an_app(), stager=stager)
    assert stager.calls_before == []


def test_seconds_of_every_part_are_kept(machine: Machine, host: Host) -> None:
    timings = Timings(host)
    plan = make_plan(an_app(), host, machine.store)
    gate = Watching(lambda: machine.clock.sleep(1.5))
    execute(plan, host, machine.store, Stager(machine), [gate], timings=timings)
    assert timings.seconds == {"fetch": 0.0, "drain": 0.0, "apply": 0.0, "start": 0.0, "gate": 1.5}
