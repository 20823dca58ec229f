# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A Node that somebody deleted: the kubelet does not notice, so it is restarted, and registers it again."""

from __future__ import annotations

import json

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import (
    CONTENDED,
    FOUND,
    REPAIRED,
    REPORTED,
    RESTART,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NodeNotReady
from tests.unit.node.drift.conftest import TAINT, Drifting
from tests.unit.node.sites import KUBELET

LOST = "node:edge-1"
METRICS = "/var/lib/prometheus/node-exporter"


def delete(on: Drifting) -> None:
    on.site.api.nodes.clear()


def restarts(on: Drifting) -> int:
    return on.machine.commands.times("systemctl", "restart", KUBELET)


def told(on: Drifting) -> tuple[str, bool]:
    """Reason and readiness, as monitoring reads them."""
    status = json.loads(on.machine.text(f"{DATA_DIR}/status.json"))
    return status["reason"], status["node"]["ready"]


def reports_only(on: Drifting) -> None:
    on.machine.store.note(drift={"mode": "report", "interval": 150})


def test_a_deleted_node_is_registered_again(drifting: Drifting) -> None:
    before = restarts(drifting)
    delete(drifting)
    status, said = drifting.check()
    assert status == 0
    assert "drift: Node edge-1 does not exist" in said
    assert list(drifting.site.api.nodes) == ["edge-1"]
    assert restarts(drifting) == before + 1
    assert (drifting.item(LOST).state, drifting.item(LOST).class_) == (REPAIRED, RESTART)
    assert told(drifting) == ("NodeJoined", True)
    assert drifting.check()[0] == 0
    assert restarts(drifting) == before + 1


def test_report_says_so_and_leaves_it(drifting: Drifting) -> None:
    drifting.machine.path(METRICS).mkdir(parents=True)
    reports_only(drifting)
    before = restarts(drifting)
    delete(drifting)
    assert drifting.check()[0] == 0
    assert (drifting.site.api.nodes, restarts(drifting)) == ({}, before)
    assert told(drifting) == (NodeNotReady.code, False)
    assert drifting.item(LOST).state == REPORTED
    (metrics,) = drifting.machine.path(METRICS).glob("*.prom")
    assert "aks_flex_node_ready 0" in metrics.read_text()
    drifting.machine.commands(["systemctl", "restart", KUBELET], None, 1)
    drifting.node["spec"]["taints"] = [TAINT]  # a kubelet registers them, too
    assert drifting.check()[0] == 0
    assert told(drifting) == ("NodeJoined", True)


def test_a_node_that_is_deleted_again_and_again_is_left_to_the_other(drifting: Drifting) -> None:
    for _ in range(4):
        delete(drifting)
        drifting.check()
        drifting.machine.clock.time += 30
    assert drifting.item(LOST).state == CONTENDED
    assert drifting.site.api.nodes == {}
    before = restarts(drifting)
    assert drifting.check()[0] == 0
    assert restarts(drifting) == before
    assert told(drifting) == (NodeNotReady.code, False)


def test_a_node_that_does_not_come_back_is_tried_again_after_a_pause(drifting: Drifting) -> None:
    delete(drifting)
    drifting.machine.commands.on_start[KUBELET] = lambda: None
    assert drifting.check()[0] == 3
    assert drifting.item(LOST).state == FOUND
    assert not drifting.machine.store.is_unfinished, "a restart is no change to complete"
    assert told(drifting) == (NodeNotReady.code, False)
    before = restarts(drifting)
    assert drifting.check()[0] == 0
    assert restarts(drifting) == before, "it is too early"
    drifting.machine.commands.on_start[KUBELET] = lambda: drifting.site.kubelet_starts(drifting.pki)
    drifting.machine.clock.time += 200
    assert drifting.check()[0] == 0
    assert told(drifting) == ("NodeJoined", True)


def test_an_administrator_who_updates_gets_the_node_back(drifting: Drifting) -> None:
    delete(drifting)
    assert "its Node was deleted" in drifting.plan()
    assert main(["update"], drifting.machine.host) == 0
    assert list(drifting.site.api.nodes) == ["edge-1"]


def test_without_an_answer_nothing_is_known_of_the_node(drifting: Drifting) -> None:
    before = restarts(drifting)
    delete(drifting)
    drifting.site.api.refuse["GET /api"] = 503
    assert drifting.check() == (0, "")
    assert restarts(drifting) == before
    assert drifting.record.items == ()


def test_the_node_of_a_pool_is_left_to_its_poll(drifting: Drifting) -> None:
    """AKS deletes the Node before its machine: a repair must not bring it back."""
    store, before = drifting.machine.store, restarts(drifting)
    document = store.applied_config() or {}
    pool = {"targetAgentPoolName": "edge"}
    store.set_applied_config({**document, "azure": {**document["azure"], **pool}}, None)
    delete(drifting)
    drifting.check()
    assert LOST not in {item.item for item in drifting.record.items}
    assert restarts(drifting) == before
