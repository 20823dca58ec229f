# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node with node-problem-detector: joined, updated, rolled back, repaired, removed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.check import check_drift
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import REPAIR, REPORT, RESTART
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import UnitFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import ABSENT
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.problems import (
    ProblemsNotReported,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.update import installed_versions
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.software import rollout_of, software
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.components.npd.test_detector import configured
from tests.unit.node.servers import Pki
from tests.unit.node.sites import CONTAINERD, KUBELET, NPD, PROBLEMS, Site, also

ON = {"npd": {"version": "1.36.0"}}
OLD = also("1.34.0", "npd")
PROGRAM = "/usr/local/bin/node-problem-detector"
UNIT_FILE = f"/etc/systemd/system/{NPD}"


def conditions(site: Site) -> set[str]:
    found = site.api.nodes["edge-1"]["status"]["conditions"]
    return {one["type"] for one in found} & set(PROBLEMS)


def test_a_join_with_it_is_proven_and_a_second_run_changes_nothing(site: Site) -> None:
    run = site.join(ON)
    assert site.machine.commands.units[NPD] == "active"
    assert conditions(site) == set(PROBLEMS)
    assert site.machine.store.state()["conditions"] == sorted(PROBLEMS)
    assert status_of(site.machine.host)["versions"]["npd"] == "1.36.0"
    assert f"start {NPD}" in run.actions
    again = site.join(ON)
    assert (again.changed, again.summary) == (False, "unchanged")


def test_a_join_whose_detector_reports_nothing_is_no_success(site: Site) -> None:
    site.machine.commands.on_start[NPD] = lambda: None
    with pytest.raises(ProblemsNotReported):
        site.join(ON)
    assert site.machine.store.state()["code"] == "FLEX-1511"
    site.machine.commands.on_start[NPD] = site.detector_starts
    site.detector_starts()
    assert site.join(ON).node["ready"]


def test_it_is_added_to_a_node_without_touching_kubelet_or_containerd(site: Site) -> None:
    site.join()
    started = dict(site.machine.commands.started)
    run = site.join(ON)
    assert not run.drains
    for unit in (KUBELET, CONTAINERD):
        assert site.machine.commands.started[unit] == started[unit]
    assert conditions(site) == set(PROBLEMS)


def test_another_version_restarts_only_it_and_an_older_one_may_be_named(site: Site) -> None:
    site.join(ON)
    target, started = site.machine.host.stat(PROGRAM).target, dict(site.machine.commands.started)
    site.join(OLD)
    assert "1.34.0" in site.machine.host.stat(PROGRAM).target
    for unit in (KUBELET, CONTAINERD):
        assert site.machine.commands.started[unit] == started[unit]
    assert site.machine.commands.started[NPD] > started[NPD]
    assert site.join(ON).summary == "updated (catalogue, npd 1.34.0 -> 1.36.0)"
    assert site.machine.host.stat(PROGRAM).target == target


@pytest.mark.parametrize("fault", ["exits", "silent"])
def test_a_version_that_does_not_work_is_rolled_back(site: Site, fault: str) -> None:
    site.join(OLD)
    before = site.machine.snapshot("/etc", "/usr")
    commands, clock = site.machine.commands, site.machine.clock

    def starts() -> None:
        if "1.36.0" not in site.machine.host.stat(PROGRAM).target:
            clock.then = lambda: None
            commands.restarts[NPD] = 0
            for one in site.api.nodes["edge-1"]["status"]["conditions"]:
                one["lastHeartbeatTime"] = ""
            return
        began = clock.time
        if fault == "exits":
            clock.then = lambda: commands.restarts.update({NPD: int((clock.time - began) // 5)})
        for one in site.api.nodes["edge-1"]["status"]["conditions"]:
            if one["type"] in PROBLEMS:
                one["lastHeartbeatTime"] = "2020-01-01T00:00:00Z"

    commands.on_start[NPD] = starts
    with pytest.raises(UnitFailed if fault == "exits" else ProblemsNotReported) as caught:
        site.join(ON)
    assert caught.value.rolled_back
    assert "the Node is Ready with its earlier configuration" in caught.value.outcome
    assert site.machine.snapshot("/etc", "/usr") == before
    assert commands.units[NPD] == "active"
    assert conditions(site) == set(PROBLEMS), "the previous version reports them"


def test_one_that_was_added_and_rolled_back_leaves_nothing(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")

    def reports_some() -> None:
        site.detector_starts()
        for one in site.api.nodes["edge-1"]["status"]["conditions"]:
            if one["type"] == "FlexNodeProblem":
                one["lastHeartbeatTime"] = "2020-01-01T00:00:00Z"

    site.machine.commands.on_start[NPD] = reports_some
    with pytest.raises(ProblemsNotReported):
        site.join(ON)
    assert conditions(site) == set()
    assert site.machine.snapshot("/etc", "/usr") == before
    assert site.machine.commands.units[NPD] == "inactive"
    assert site.machine.store.state().get("conditions") is None


def test_without_a_version_it_goes_with_its_conditions(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/etc", "/usr")
    site.join(ON)
    run = site.join()
    assert site.machine.snapshot("/etc", "/usr") == before
    assert site.machine.commands.units[NPD] == "inactive"
    assert conditions(site) == set()
    assert "remove condition KernelDeadlock" in run.actions
    assert "npd" not in status_of(site.machine.host)["versions"]
    assert not site.join().changed


def test_conditions_that_could_not_be_removed_are_drift_and_repaired(site: Site) -> None:
    site.join(ON)
    site.api.refuse["PATCH /api/v1/nodes/edge-1/status"] = 503
    site.join()
    assert conditions(site) == set(PROBLEMS)
    assert site.machine.store.state()["conditions"]
    drift = check_drift(site.machine.host, site.machine.store, site.machine.clock.now())
    found = {item.item: item.class_ for item in drift.record.items}
    assert found == {f"condition:{name}": REPAIR for name in PROBLEMS}
    assert drift.repairs == set(found)
    site.api.refuse.clear()
    site.join()
    assert conditions(site) == set()


def test_a_stopped_or_edited_one_is_drift(site: Site) -> None:
    site.join(ON)
    site.machine.commands(["systemctl", "stop", NPD], None, 1)
    site.machine.put("/etc/node-problem-detector/kernel.json", "{}")
    site.machine.put(f"{UNIT_FILE}.d/99-site.conf", "[Service]\nNice=5\n")
    drift = check_drift(site.machine.host, site.machine.store, site.machine.clock.now())
    found = {item.item: item.class_ for item in drift.record.items}
    assert found == {
        "file:/etc/node-problem-detector/kernel.json": RESTART,
        f"unit:{NPD}": RESTART,
        f"drop-in:{UNIT_FILE}.d/99-site.conf": REPORT,
    }


def test_a_node_that_was_deleted_gets_its_conditions_again(site: Site, pki: Pki) -> None:
    site.join(ON)
    del site.api.nodes["edge-1"]
    site.machine.commands.on_start[KUBELET] = lambda: site.kubelet_starts(pki)
    site.join(ON, register=True)
    assert conditions(site) == set(PROBLEMS)


def test_uninstalling_removes_it(site: Site) -> None:
    before = site.machine.snapshot("/etc", "/usr", "/opt")
    site.join(ON)
    left = leave(site.machine.host)
    assert left.remains == []
    assert site.machine.commands.units[NPD] == "inactive"
    assert site.machine.host.stat(UNIT_FILE) is ABSENT
    assert site.machine.snapshot("/etc", "/usr", "/opt") == before


def test_one_of_another_owner_is_back_after_uninstalling(site: Site) -> None:
    site.machine.put(UNIT_FILE, "[Service]\nExecStart=/usr/bin/node-problem-detector\n")
    site.join(ON)
    leave(site.machine.host)
    assert "/usr/bin/node-problem-detector" in site.machine.text(UNIT_FILE)


def test_it_is_no_rollout(site: Site) -> None:
    """It restarts nothing that pods need: nodes do not wait for each other."""
    without, with_it = configured(), configured({"npd": {"version": "1.36.0", "sha256": "ab" * 32}})
    assert software(without) == software(with_it)
    assert rollout_of(without, with_it) == rollout_of(without, without)
    site.join(ON)
    installed: dict[str, Any] = dict(
        installed_versions(site.machine.store, site.machine.store.applied_config() or {})
    )
    assert "npd" in installed
    kept = {name: str(version) for name, version in installed.items() if name != "npd"}
    assert software(without, installed) == software(without, kept)
