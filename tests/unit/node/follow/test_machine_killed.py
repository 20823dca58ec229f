# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of a pool is killed anywhere: in its join, in a change, leaving. The next run completes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from tests.faults.dying import DyingHost, Watch
from tests.unit.node.commands.test_join_pool import files_with
from tests.unit.node.fake_pool import PUT, Edge, an_edge
from tests.unit.node.fakes import Machine
from tests.unit.node.follow.test_machine import TAINT
from tests.unit.node.servers import Pki
from tests.unit.node.sites import CONFIG, TOKEN, Killed

SYSTEM = ("/etc", "/opt", "/usr")


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    with an_edge(debian, pki, tmp_path, monkeypatch) as made:
        made.settings({"drift": {"mode": "report"}})
        yield made


def dying(edge: Edge, at: int) -> Host:
    """The machine, for a process that dies at one moment."""

    def die(moment: int, _where: str) -> None:
        if moment == at:
            raise Killed

    machine = edge.machine
    host = DyingHost(root=str(machine.root), runner=machine.commands, clock=machine.clock)
    host.watch = Watch(die)
    return host


def test_a_join_that_is_killed_anywhere_is_completed_by_the_next(edge: Edge) -> None:
    before = edge.machine.snapshot(*SYSTEM)
    for at in range(0, 2000, 67):
        try:
            assert main(["join", *edge.arguments()], dying(edge, at)) == 0
            alive = True
        except Killed:
            alive = False
            assert edge.join() == 0
        assert files_with(edge.machine, TOKEN) == [], at
        assert edge.source()["settled"] is True
        assert edge.machine.store.transaction() is None
        assert edge.machine.store.applied_config() == edge.current()
        assert edge.arm.asked(PUT) == 1, "the machine that exists is taken over"
        if alive:
            break
        assert main(["unbootstrap"], edge.machine.host) == 0
        assert edge.machine.snapshot(*SYSTEM) == before
        edge.arm.machines.clear()
        edge.arm.server.requests.clear()
    else:
        pytest.fail("it never came to its end")


def test_a_change_that_is_killed_anywhere_is_completed_by_the_next_poll(edge: Edge) -> None:
    assert edge.join() == 0
    assert edge.poll() == 0
    for number, at in enumerate(range(0, 1500, 23), 100):
        etag = edge.arm.goal(maxPods=number, nodeLabels={"n": str(number)})
        del edge.site.api.nodes["edge-1"]
        edge.machine.clock.time += 30
        try:
            main(["poll"], dying(edge, at))
            alive = True
        except Killed:
            alive = False
            assert edge.later(90) == 0, at
            assert edge.later(30) == 0, at
        assert f'"maxPods": {number}' in edge.machine.text(CONFIG), at
        source = edge.source()
        assert (source["configVersion"], source["settled"], source["blocked"]) == (etag, True, None), at
        assert edge.machine.store.transaction() is None
        assert edge.machine.store.applied_config() == edge.current()
        assert edge.node["metadata"]["labels"]["n"] == str(number)
        assert edge.trouble() == {}
        if alive:
            break
    else:
        pytest.fail("it never came to its end")


def test_a_leave_that_is_killed_anywhere_is_finished(edge: Edge) -> None:
    before = edge.machine.snapshot(*SYSTEM)
    for at in range(0, 1500, 53):
        assert edge.join() == 0
        assert edge.poll() == 0
        edge.arm.machines.clear()
        edge.node["spec"]["taints"] = [TAINT]
        assert edge.later(30) == 0
        edge.machine.clock.time += 30
        try:
            assert main(["poll"], dying(edge, at)) == 0
            alive = True
        except Killed:
            alive = False
            if edge.machine.path(f"{DATA_DIR}/source.json").exists():
                edge.later(30)
            else:
                main(["unbootstrap"], edge.machine.host)
        assert edge.machine.snapshot(*SYSTEM) == before, at
        assert not edge.machine.path(DATA_DIR).exists()
        if alive:
            break
    else:
        pytest.fail("it never came to its end")
