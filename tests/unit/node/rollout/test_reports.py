# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What nodes tell each other through the record: who they are, what they run, what became of a change."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.this_node import ThisNode
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout import turn
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.decide import Change
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.errors import RolloutWaits
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.local import ROLLED_BACK, Local, Slot
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import Holder, Rollout
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.software import rollout_of, software
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.turn import Turn, settle, settle_debts
from tests.unit.node.rollout.rollouts import LIMIT, create, held_by, member, put, shared
from tests.unit.node.sites import IDENTITY, MORE, Killed, Site, also, killed_at

NEW = also("1.34.5")
LABEL = "aks.flexnode/ring"


@pytest.fixture
def node(site: Site) -> Site:
    """A joined node of a cluster that has a record."""
    create(site.api)
    site.join(LIMIT)
    return site


# -- the same rollout --------------------------------------------------------------------------------------


def test_the_order_of_settings_makes_no_difference(site: Site) -> None:
    """A document that was pushed, and the same one read back from the disk, where keys are sorted."""
    overrides = {
        "serializeImagePulls": False,
        "maxParallelImagePulls": 4,
        "logging": {"verbosity": 2, "format": "json"},
    }
    ordered = {key: overrides[key] for key in sorted(overrides)}
    ordered["logging"] = {"format": "json", "verbosity": 2}
    one, other = (
        parse(merge(site.document, {"kubelet": {"configOverrides": found}})) for found in (overrides, ordered)
    )
    assert software(one) == software(other)
    assert rollout_of(parse(site.document), one) == rollout_of(parse(site.document), other)


def test_who_changes_something_else_with_the_new_software_is_stopped_with_all(site: Site) -> None:
    before = parse(site.document)
    plain, more = parse(merge(site.document, NEW)), parse(merge(merge(site.document, NEW), MORE))
    assert rollout_of(before, plain) == rollout_of(before, more)
    assert rollout_of(before, parse(merge(site.document, MORE))) != rollout_of(before, plain)


# -- registering -------------------------------------------------------------------------------------------


def test_a_node_registers_before_it_asks_for_its_turn(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads come in between: nodes of later rings must know by then for whom to wait."""
    create(site.api)
    site.join()
    with killed_at(monkeypatch, Turn, "take"):
        site.join(LIMIT, NEW)
    assert list(shared(site.api).nodes) == ["edge-1"]


def test_a_node_that_waits_registers_again_with_a_record_that_was_created_anew(node: Site) -> None:
    held_by(node.api, "edge-7")
    with pytest.raises(RolloutWaits):
        node.join(LIMIT, NEW, patience=0)
    create(node.api)
    member(node.api, "edge-2", "canary", Local.of(node.machine.store).software)
    for _poll in range(2):
        with pytest.raises(RolloutWaits):
            node.join(LIMIT, NEW, patience=0)
    assert "edge-1" in shared(node.api).nodes


# -- slots -------------------------------------------------------------------------------------------------


def test_a_run_of_one_component_releases_its_slot(node: Site) -> None:
    node.join(LIMIT, {"containerd": {"metricsAddress": "127.0.0.1:1338"}}, components=("runtime",))
    assert dict(shared(node.api).holders) == {}
    assert Local.of(node.machine.store).slot is None


def test_a_rollback_is_reported_once(node: Site) -> None:
    """A node that was down after its rollback: when it works again, a rollout that was resumed goes on."""
    store, now = node.machine.store, node.api.now()
    change = Change("edge-1", "", "r1", "kubernetes 1 -> 2", "old", "new")
    replace(Local.of(store), slot=Slot(change)).keep(store)
    holder, rollout = Holder(now, "r1", "x"), Rollout("kubernetes 1 -> 2", now)
    put(node.api, lambda was: replace(was, holders={"edge-1": holder}, rollouts={"r1": rollout}))
    this = ThisNode.of(node.machine.host, parse(node.document))
    assert settle(this, store, ROLLED_BACK, "FLEX-1501", works=False) == ""
    stopped = shared(node.api).rollouts["r1"]
    assert stopped.stopped
    assert list(shared(node.api).holders) == ["edge-1"], "it is down"
    resumed = replace(stopped, stopped="", resumed=stopped.rolled_back["edge-1"].when)
    put(node.api, lambda was: was.with_rollout("r1", resumed))
    settle_debts(this, store)
    assert shared(node.api).rollouts["r1"].stopped == ""
    assert dict(shared(node.api).holders) == {}


# -- leaving -----------------------------------------------------------------------------------------------


def test_a_node_whose_first_turn_was_interrupted_leaves_nothing_behind(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(site.api)
    site.join()
    real = turn.change_shared

    def dies_after_the_write(api: Any, step: Any) -> Any:
        real(api, step)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(turn, "change_shared", dies_after_the_write)
        with pytest.raises(Killed):
            site.join(LIMIT, NEW)
    assert list(shared(site.api).nodes) == ["edge-1"]
    report = leave(site.machine.host)
    assert "remove this node from the rollout record of the cluster" in report.actions
    assert (dict(shared(site.api).nodes), dict(shared(site.api).holders)) == ({}, {})


def test_a_node_without_a_credential_names_what_remains(node: Site) -> None:
    node.machine.host.remove(IDENTITY)
    report = leave(node.machine.host)
    assert any("forget=edge-1" in line for line in report.remains)
