# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A joined node takes its turn: the engine, a record behind a real API, and what can go wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    ConfigInvalid,
    NotDrained,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.tick import settle_earlier_run
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.join_record import JoinRecord
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout import turn
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.errors import (
    RolloutStopped,
    RolloutUnknown,
    RolloutWaits,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.local import Local
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import KEY, Holder
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.software import rollout_of, software
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.fake_api import a_node, a_pod
from tests.unit.node.rollout.rollouts import LIMIT, PLACE, create, held_by, member, put, shared
from tests.unit.node.sites import CONFIG, DRAINED, KUBELET, MORE, Site, also, exits_from_now_on, killed_at

NEW = also("1.34.5")


@pytest.fixture
def node(site: Site) -> Site:
    """A joined node of a cluster that has a record."""
    create(site.api)
    site.join(LIMIT)
    return site


def restarts(site: Site) -> int:
    return site.machine.commands.times("systemctl", "restart")


def runs(site: Site, version: str) -> None:
    """The kubelet of the node reports this version."""
    site.api.nodes["edge-1"]["status"]["nodeInfo"]["kubeletVersion"] = f"v{version}"


def updated(site: Site, *changes: dict[str, Any], **options: Any) -> str:
    runs(site, "1.34.5")
    return site.join(LIMIT, NEW, *changes, **options).summary


# -- the usual way -----------------------------------------------------------------------------------------


def test_a_join_registers_the_node_and_needs_no_slot(site: Site) -> None:
    create(site.api)
    held_by(site.api, "other")
    run = site.join(LIMIT, {"node": {"labels": {"aks.flexnode/ring": "canary"}}})
    assert run.warnings == []
    (entry,) = shared(site.api).nodes.values()
    assert (entry.ring, entry.late) == ("canary", False)
    assert list(shared(site.api).holders) == ["other"]


def test_a_second_run_writes_nothing(node: Site) -> None:
    before = node.api.config_maps[PLACE]
    assert node.join(LIMIT).summary == "unchanged"
    assert node.api.config_maps[PLACE] is before


def test_an_update_takes_a_slot_before_anything_stops_and_releases_it(node: Site) -> None:
    seen: list[tuple[list[str], int]] = []
    starts = restarts(node)
    node.machine.commands.on_start[KUBELET] = lambda: seen.append(
        (list(shared(node.api).holders), restarts(node))
    )
    assert updated(node) == "updated (kubernetes 1.34.4 -> 1.34.5, catalogue)"
    assert seen == [(["edge-1"], starts + 1)]
    record = shared(node.api)
    assert dict(record.holders) == {}
    (rollout,) = record.rollouts.values()
    assert rollout.what == "kubernetes 1.34.4 -> 1.34.5"
    assert rollout.done[""].nodes == 1
    assert record.nodes["edge-1"].software == Local.of(node.machine.store).software
    assert Local.of(node.machine.store).slot is None


def test_labels_need_no_slot(node: Site) -> None:
    held_by(node.api, "other")
    assert node.join(LIMIT, {"node": {"labels": {"rack": "1"}}}).summary == "updated (labels)"


def test_without_a_limit_nothing_is_asked(site: Site) -> None:
    site.join()
    site.join(MORE)
    assert not any("configmaps" in asked for asked in site.api.server.asked)


def test_a_limit_that_is_removed_removes_the_entry(node: Site) -> None:
    node.join()
    assert dict(shared(node.api).nodes) == {}
    assert "rollout" not in node.machine.store.state()


def test_a_node_that_leaves_is_removed(node: Site) -> None:
    put(node.api, lambda now: replace(now, holders={"edge-1": Holder(node.api.now(), "", "x")}))
    report = leave(node.machine.host)
    assert "remove this node from the rollout record of the cluster" in report.actions
    assert report.complaints == []
    assert (dict(shared(node.api).nodes), dict(shared(node.api).holders)) == ({}, {})


# -- waiting -----------------------------------------------------------------------------------------------


def test_a_push_waits_shows_for_whom_and_goes_on(node: Site) -> None:
    held_by(node.api, "edge-7")
    said: list[str] = []

    def freed() -> None:
        if node.machine.clock.naps.count(5.0) == 3:
            put(node.api, lambda now: now.without_holder("edge-7"))

    node.machine.clock.then = freed
    updated(node, progress=said.append)
    waited = [line for line in said if "waits for edge-7" in line]
    assert len(waited) == 1, "said once"
    assert said.index(waited[0]) > next(at for at, line in enumerate(said) if line.startswith("fetch"))


def test_a_push_that_waited_long_enough_names_the_holders_and_changes_nothing(node: Site) -> None:
    held_by(node.api, "edge-7")
    before, starts = node.machine.snapshot("/etc", "/usr"), restarts(node)
    with pytest.raises(RolloutWaits, match="waits for edge-7") as caught:
        updated(node)
    assert caught.value.code == "FLEX-1522"
    assert "this run waited 60 s" in caught.value.why
    assert node.machine.snapshot("/etc", "/usr") == before
    assert restarts(node) == starts
    store = node.machine.store
    assert store.current_config() == store.applied_config()
    assert store.refused() == {}, "nothing is wrong with the document"
    runs(node, "1.34.4")
    status = status_of(node.machine.host)
    assert status["reason"] == "NodeJoined"
    assert "waits for edge-7" in status["message"]
    assert status["rollout"]["cluster"]["holders"]["edge-7"]["what"] == "kubernetes 1.34.3 -> 1.34.4"
    put(node.api, lambda now: now.without_holder("edge-7"))
    updated(node)
    assert status_of(node.machine.host)["message"] == ""


def test_the_second_try_of_a_poll_costs_one_request_and_no_write(node: Site) -> None:
    held_by(node.api, "edge-7")
    for _poll in range(2):
        with pytest.raises(RolloutWaits):
            updated(node, patience=0)
    written = node.machine.snapshot("/var/lib/aks-flex-node", "/etc", "/opt")
    asked, fetched = len(node.api.server.asked), len(node.mirror.asked)
    with pytest.raises(RolloutWaits):
        updated(node, patience=0)
    assert node.machine.snapshot("/var/lib/aks-flex-node", "/etc", "/opt") == written
    assert [one for one in node.api.server.asked[asked:] if "configmaps" in one] == [
        "GET /api/v1/namespaces/kube-system/configmaps/flexnode-rollout"
    ]
    assert len(node.mirror.asked) == fetched
    put(node.api, lambda now: now.without_holder("edge-7"))
    updated(node, patience=0)
    assert len(node.mirror.asked) == fetched, "what was staged is used"


def test_the_rest_waits_for_canaries_with_the_same_software(node: Site) -> None:
    now = Local.of(node.machine.store).software
    member(node.api, "edge-2", "canary", now)
    with pytest.raises(
        RolloutWaits, match="this node waits for ring canary: edge-2 does not have the change yet"
    ):
        updated(node, patience=0)
    member(node.api, "edge-2", "canary", "what it will be")
    updated(node, patience=0)


def test_the_ring_may_be_a_label_that_was_set_at_the_node(node: Site) -> None:
    member(node.api, "edge-2", "canary", Local.of(node.machine.store).software)
    node.api.nodes["edge-1"] = a_node(version="1.34.5", labels={"aks.flexnode/ring": "canary"})
    node.join(LIMIT, NEW)
    assert shared(node.api).nodes["edge-1"].ring == "canary"


def test_a_slot_lost_to_a_faster_node(node: Site) -> None:
    """Another node writes between the read and the write: 409, read again, wait."""
    node.api.meanwhile.append(lambda: held_by(node.api, "edge-7"))
    with pytest.raises(RolloutWaits, match="edge-7"):
        updated(node, patience=0)
    assert list(shared(node.api).holders) == ["edge-7"]
    assert Local.of(node.machine.store).slot is None


def test_drain_begins_with_the_slot(node: Site) -> None:
    held_by(node.api, "edge-7")
    node.api.pods = [a_pod("web-0")]
    with pytest.raises(RolloutWaits):
        node.join(LIMIT, DRAINED, patience=0)
    assert "unschedulable" not in node.api.nodes["edge-1"]["spec"]
    assert len(node.api.pods) == 1


# -- stopped -----------------------------------------------------------------------------------------------


def test_a_rollback_stops_the_rollout_for_all(node: Site) -> None:
    exits_from_now_on(node)
    with pytest.raises(UnitFailed):
        node.join(LIMIT, MORE)
    record = shared(node.api)
    (rollout,) = record.rollouts.values()
    assert rollout.stopped == "edge-1 (FLEX-1501) was rolled back"
    assert dict(record.holders) == {}
    node.machine.store.forget_refused()  # as if it were another machine
    starts = restarts(node)
    with pytest.raises(RolloutStopped, match="rollout stopped \\(maxPods\\): edge-1") as caught:
        node.join(LIMIT, MORE)
    assert caught.value.code == "FLEX-1523"
    assert restarts(node) == starts
    status = status_of(node.machine.host)
    assert status["reason"] == "FLEX-1523"
    assert "rollout stopped" in status["message"]
    node.machine.commands.on_start.clear()
    node.join(LIMIT, {"node": {"maxPods": 60}})
    assert status_of(node.machine.host)["reason"] == "NodeJoined", "another change is another rollout"


def test_a_change_that_failed_for_another_reason_does_not_stop_it(node: Site) -> None:
    node.api.pods, node.api.protected = [a_pod("web-0")], {"web-0"}
    with pytest.raises(NotDrained):
        node.join(LIMIT, DRAINED)
    record = shared(node.api)
    assert [rollout.stopped for rollout in record.rollouts.values()] == [""]
    assert dict(record.holders) == {}


# -- nobody knows ------------------------------------------------------------------------------------------


def no_record(site: Site) -> None:
    site.api.config_maps.clear()


def forbidden(site: Site) -> None:
    site.api.refuse["GET /api/v1/namespaces/kube-system/configmaps"] = 403


def not_writable(site: Site) -> None:
    site.api.refuse["PUT /api/v1/namespaces/kube-system/configmaps"] = 403


def broken(site: Site) -> None:
    site.api.config_maps[PLACE]["data"] = {KEY: "{"}


def newer(site: Site) -> None:
    site.api.config_maps[PLACE]["data"] = {KEY: '{"schema": 99}'}


def unreachable(site: Site) -> None:
    site.api.refuse["GET /api/v1/namespaces/kube-system/configmaps"] = 503


def contested(site: Site) -> None:
    """Each write meets another one."""
    site.api.meanwhile.extend([lambda: put(site.api, lambda now: now)] * 100)


@pytest.mark.parametrize(
    ("trouble", "what", "fix"),
    [
        (no_record, "the rollout record does not exist", "kubectl apply -f docs/examples/rollout.yaml"),
        (forbidden, "can't read the rollout record", "kubectl apply -f docs/examples/rollout.yaml"),
        (not_writable, "can't write the rollout record", "kubectl apply -f docs/examples/rollout.yaml"),
        (broken, "the rollout record can't be used", "look at it (kubectl get configmap flexnode-rollout"),
        (newer, "the rollout record can't be used", "update the node to that release of aks.flexnode"),
        (unreachable, "can't read the rollout record", ApiUnreachable.remedy),
        (contested, "can't write the rollout record", "run this again"),
    ],
)
def test_a_node_that_can_not_know_waits_and_says_why(
    node: Site, trouble: Callable[[Site], None], what: str, fix: str
) -> None:
    kept = {name: {**one} for name, one in node.api.config_maps.items()}
    trouble(node)
    starts = restarts(node)
    for _try in range(2):
        with pytest.raises(RolloutUnknown) as caught:
            updated(node, patience=0)
    assert (caught.value.code, caught.value.what) == ("FLEX-1521", what)
    assert caught.value.fix.startswith(fix)
    assert caught.value.fix.endswith(". The node keeps its current version")
    assert restarts(node) == starts
    runs(node, "1.34.4")
    status = status_of(node.machine.host)
    assert status["reason"] == "FLEX-1521"
    assert status["node"]["ready"]
    assert status["config"].get("refused") is None
    node.api.refuse.clear()
    node.api.meanwhile.clear()
    node.api.config_maps = kept
    updated(node, patience=0)
    assert dict(shared(node.api).holders) == {}
    assert status_of(node.machine.host)["reason"] == "NodeJoined"


@pytest.mark.parametrize("trouble", [no_record, forbidden])
def test_a_join_does_not_need_the_record(site: Site, trouble: Callable[[Site], None]) -> None:
    create(site.api)
    trouble(site)
    run = site.join(LIMIT)
    assert run.outcome.kind == "joined"
    assert "not registered for rollouts yet" in run.warnings[0]
    site.api.refuse.clear()
    create(site.api)
    settle_earlier_run(site.machine.host, site.machine.store)
    assert list(shared(site.api).nodes) == ["edge-1"], "a later poll does it"
    assert not Local.of(site.machine.store).pending


# -- kills -------------------------------------------------------------------------------------------------


def test_killed_before_its_first_change(node: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    runs(node, "1.34.5")
    with killed_at(monkeypatch, Store, "begin"):
        node.join(LIMIT, NEW)
    assert list(shared(node.api).holders) == ["edge-1"], "it may be cordoned"
    runs(node, "1.34.4")
    assert node.join(LIMIT).summary == "unchanged"
    assert dict(shared(node.api).holders) == {}


def test_killed_in_the_middle_keeps_the_slot_until_it_is_done(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(node, "1.34.5")
    with killed_at(monkeypatch, Store, "set_applied_config"):
        node.join(LIMIT, NEW)
    assert list(shared(node.api).holders) == ["edge-1"]
    settle_earlier_run(node.machine.host, node.machine.store)
    assert list(shared(node.api).holders) == ["edge-1"], "the transaction is not complete"
    node.join(LIMIT, NEW)
    assert dict(shared(node.api).holders) == {}
    (rollout,) = shared(node.api).rollouts.values()
    assert rollout.done[""].nodes == 1


def test_killed_after_its_commit_is_reported_by_the_next_poll(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(node, "1.34.5")
    with monkeypatch.context() as patched:
        patched.setattr(turn, "change_shared", refusing_to_release(node))
        run = node.join(LIMIT, NEW)
    assert any("not released yet" in line for line in run.warnings)
    assert list(shared(node.api).holders) == ["edge-1"]
    settle_earlier_run(node.machine.host, node.machine.store)
    assert dict(shared(node.api).holders) == {}
    assert [one.done[""].nodes for one in shared(node.api).rollouts.values()] == [1]


def refusing_to_release(site: Site) -> Callable[..., Any]:
    """The API server stops to answer right after the slot was taken."""
    real = turn.change_shared

    def change(api: Any, step: Any) -> Any:
        if "edge-1" in shared(site.api).holders:
            raise ApiUnreachable("the line was cut")
        return real(api, step)

    return change


def test_killed_right_after_its_rollback_still_stops_the_rollout(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    exits_from_now_on(node)
    with monkeypatch.context() as patched:
        patched.setattr(turn, "change_shared", refusing_to_release(node))
        with pytest.raises(UnitFailed):
            node.join(LIMIT, MORE)
    local = Local.of(node.machine.store)
    assert local.slot is not None
    replace(local, slot=replace(local.slot, outcome="", code="")).keep(node.machine.store)  # as after a kill
    settle_earlier_run(node.machine.host, node.machine.store)
    (rollout,) = shared(node.api).rollouts.values()
    assert rollout.stopped == "edge-1 (FLEX-1501) was rolled back"
    assert dict(shared(node.api).holders) == {}


def test_a_node_that_has_begun_finishes_without_the_record(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Power cut in the middle of a change, then no record: half a change is worse than none."""
    runs(node, "1.34.5")
    with killed_at(monkeypatch, JoinRecord, "kubelet_starts"):
        node.join(LIMIT, NEW)
    forbidden(node)
    run = node.join(LIMIT, NEW)
    assert run.node["kubeletVersion"] == "1.34.5"


# -- repairs -----------------------------------------------------------------------------------------------


def test_a_repair_that_restarts_takes_a_slot(node: Site) -> None:
    node.machine.put(CONFIG, "{}", 0o600)
    held_by(node.api, "edge-7")
    with pytest.raises(RolloutWaits):
        node.join(LIMIT, patience=0)
    put(node.api, lambda now: now.without_holder("edge-7"))
    assert node.join(LIMIT, patience=0).outcome.kind == "repaired"
    assert dict(shared(node.api).rollouts) == {}
    assert dict(shared(node.api).holders) == {}


def test_a_kubelet_that_is_down_is_started_without_one(node: Site) -> None:
    held_by(node.api, "edge-7")
    node.machine.commands.units[KUBELET] = "inactive"
    assert node.join(LIMIT, patience=0).outcome.kind == "repaired"


# -- the same rollout --------------------------------------------------------------------------------------


def test_machines_and_sites_that_differ_share_a_rollout(site: Site) -> None:
    from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge

    here, there = (
        site.document,
        merge(
            site.document,
            {
                "node": {"maxPods": 30, "labels": {"site": "b"}, "kubelet": {"nodeIP": "10.9.9.9"}},
                "cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"},
                "agent": {"nodeName": "other"},
                "proxy": {"https": "http://user:secret@proxy.example"},
            },
        ),
    )
    first, second = parse(here), parse(there)
    assert software(first) == software(second)
    to = {"kubernetes": {"version": "1.34.5"}}
    new = parse(merge(here, to)), parse(merge(there, to))
    assert rollout_of(first, new[0]) == rollout_of(second, new[1])
    assert software(new[0]) != software(first)
    other = {**to, "kubelet": {"configOverrides": {"syncFrequency": "30s"}}}
    assert rollout_of(first, parse(merge(here, other))) != rollout_of(first, new[0])
    assert rollout_of(first, parse(merge(here, MORE))) != rollout_of(first, first)
    assert rollout_of(first, first, "aks.flexnode 2") != rollout_of(first, first)


# -- the document ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"upgrade": {"rings": ["a"]}}, "upgrade.rings has no effect without it"),
        ({"upgrade": {"soakSeconds": 5}}, "upgrade.soakSeconds has no effect"),
        ({"upgrade": {"maxUnavailable": 1, "rings": ["not a label!"]}}, "upgrade.rings[0]"),
        (
            {"azure": {"targetAgentPoolName": "edge"}, "upgrade": {"maxUnavailable": 1}},
            "nodes of pool edge wait for AKS",
        ),
    ],
)
def test_what_has_no_effect_is_refused(site: Site, change: dict[str, Any], path: str) -> None:
    from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge

    with pytest.raises(ConfigInvalid) as caught:
        parse(merge(site.document, change), pollable=True)
    assert path in str(caught.value)


def test_the_command_shows_ring_and_holders(node: Site, capsys: pytest.CaptureFixture[str]) -> None:
    held_by(node.api, "edge-7")
    main(["status"], node.machine.host)
    said = capsys.readouterr().out
    assert "rollout         no ring\n" in said
    assert "                being changed: edge-7 (kubernetes 1.34.3 -> 1.34.4, since " in said


def test_the_command_may_refuse_to_wait(node: Site, capsys: pytest.CaptureFixture[str]) -> None:
    held_by(node.api, "edge-7")
    node.machine.put(CONFIG, "{}", 0o600)
    assert main(["update", "--no-wait"], node.machine.host) == 1
    assert "FLEX-1522" in capsys.readouterr().err
    assert 5.0 not in node.machine.clock.naps
