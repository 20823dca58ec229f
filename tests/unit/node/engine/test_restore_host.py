# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Restoring the host: the journal backwards."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File
from tests.unit.node.engine.an_app import (
    APP,
    UNIT_FILE,
    an_app,
    run,
)
from tests.unit.node.fakes import Machine


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


def test_items_are_taken_back_in_reverse_and_a_second_time_nothing_is_left(
    machine: Machine, host: Host
) -> None:
    untouched = machine.snapshot("/etc", "/opt", "/usr")
    run(machine, an_app())
    told: list[str] = []
    taken = restore_host(host, machine.store, told.append)
    assert [item.key for item in taken][:3] == [f"unit:{APP}", f"file:{UNIT_FILE}", "file:/etc/app/second"]
    assert taken[-1].key == "directory:/opt"
    assert {item.outcome for item in taken} == {"removed", "restored"}
    assert told[0] == f"restore {APP}"
    assert machine.commands.units[APP] == "inactive"
    assert machine.commands.changing()[-1] == ("systemctl", "daemon-reload")
    assert machine.snapshot("/etc", "/opt", "/usr") == untouched
    before = machine.commands.times("systemctl", "stop")
    assert [item for item in restore_host(host, machine.store) if not item.key.startswith("directory:")] == []
    assert machine.commands.times("systemctl", "stop") == before


def test_a_unit_that_ran_before_us_runs_again_with_its_own_files(machine: Machine, host: Host) -> None:
    machine.put(UNIT_FILE, "[Service]\nExecStart=/usr/bin/theirs\n")
    machine.commands.units[APP] = "active"
    run(machine, an_app())
    machine.commands.calls.clear()
    seen: list[str] = []
    machine.commands.on_start[APP] = lambda: seen.append(machine.text(UNIT_FILE))
    restore_host(host, machine.store)
    assert machine.commands.changing() == [
        ("systemctl", "daemon-reload"),
        ("systemctl", "restart", APP),
    ]
    assert seen == ["[Service]\nExecStart=/usr/bin/theirs\n"]
    assert machine.commands.units[APP] == "active"


@pytest.mark.parametrize("mode", [None, 0o755])
def test_a_directory_of_ours_that_was_already_there_is_cleaned_too(
    machine: Machine, host: Host, mode: int | None
) -> None:
    machine.put("/etc/app/theirs", "keep me")
    before = machine.snapshot("/etc")
    resources: list[Resource] = [Directory("/etc/app", mode, ours=True), File("/etc/app/config", "x")]
    run(machine, resources)
    machine.put("/etc/app/made-by-a-daemon/deep", "x")
    restore_host(host, machine.store)
    assert machine.snapshot("/etc") == before


def test_a_lost_original_is_reported_and_the_rest_goes_on(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "theirs")
    run(machine, an_app())
    machine.host.remove_tree("/var/lib/aks-flex-node/origins")
    left = [item for item in restore_host(host, machine.store) if item.outcome == "failed"]
    assert [item.key for item in left] == ["file:/etc/app/config"]
    assert "lost or damaged" in left[0].why
    assert machine.text("/etc/app/config") == "one"
    assert not machine.path(UNIT_FILE).exists()
