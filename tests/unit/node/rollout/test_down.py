# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes that are down: they keep their slot as long as they are, and not longer."""

from __future__ import annotations

import shutil
from functools import reduce
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.join_record import JoinRecord
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.errors import (
    RolloutStopped,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.local import Local
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import Rollout
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.software import rollout_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.follow.test_tick import Followed
from tests.unit.node.rollout.rollouts import LIMIT, create, held_by, member, put, shared
from tests.unit.node.rollout.test_polls import polls
from tests.unit.node.rollout.test_turn import NEW, node, restarts, runs, updated
from tests.unit.node.sites import CONFIG, DRAINED, KUBELET, MORE, Site, killed_at

__all__ = ["node", "polls"]  # fixtures
CONTAINERD_CONFIG = "/etc/containerd/config.toml"


def exits_with_every_configuration(site: Site) -> None:
    """A kubelet that does not stay up, with the new settings nor with the old ones."""
    commands, clock = site.machine.commands, site.machine.clock

    def starts() -> None:
        began = clock.time

        def passes() -> None:
            commands.started[KUBELET] = clock.time
            commands.restarts[KUBELET] = int(clock.time - began)

        clock.then = passes

    commands.on_start[KUBELET] = starts


def works_again(site: Site) -> None:
    site.machine.clock.then = lambda: None
    site.machine.commands.restarts[KUBELET] = 0
    site.machine.commands.on_start.clear()


def phase(site: Site) -> str:
    return str(site.machine.store.state()["phase"])


def holders(site: Site) -> list[str]:
    return list(shared(site.api).holders)


def stop(site: Site, *changes: dict[str, Any]) -> str:
    """An administrator stops the rollout of these changes; its name."""
    after = reduce(merge, (LIMIT, *changes), site.document)
    name = rollout_of(parse(site.document, purpose="join"), parse(after, purpose="join"))
    put(site.api, lambda now: now.with_rollout(name, Rollout("x", site.api.now(), stopped="by me")))
    return name


@pytest.fixture
def broken(node: Site) -> Site:
    """Rolled back, and not Ready with its previous configuration either."""
    exits_with_every_configuration(node)
    with pytest.raises(FlexNodeError, match="not Ready with its earlier configuration either"):
        node.join(LIMIT, MORE)
    assert (holders(node), phase(node)) == (["edge-1"], "NodeFailed")
    return node


def test_a_node_that_is_down_does_not_say_that_it_works_when_it_has_to_wait(broken: Site) -> None:
    reason = broken.machine.store.state()["code"]
    stop(broken, NEW)
    with pytest.raises(RolloutStopped):
        broken.join(LIMIT, NEW, patience=0)
    assert (holders(broken), phase(broken)) == (["edge-1"], "NodeFailed")
    assert broken.machine.store.state()["code"] == reason
    slot = Local.of(broken.machine.store).slot
    assert slot
    assert slot.outcome


def test_a_corrected_configuration_repairs_a_node_that_is_down_without_waiting_for_its_ring(
    broken: Site,
) -> None:
    """The canary waits for the slot of this node: if this node waited for the canary, both would for ever."""
    member(broken.api, "edge-2", "canary", Local.of(broken.machine.store).software)
    works_again(broken)
    runs(broken, "1.34.5")
    broken.join(LIMIT, NEW, patience=0)
    assert (holders(broken), phase(broken)) == ([], "NodeJoined")


def test_a_failure_of_a_node_that_was_down_before_does_not_stop_the_rollout(broken: Site) -> None:
    with pytest.raises(FlexNodeError):
        broken.join(LIMIT, NEW, patience=0)
    newest = max(shared(broken.api).rollouts.values(), key=lambda one: one.started)
    assert (newest.stopped, dict(newest.rolled_back)) == ("", {})
    assert holders(broken) == ["edge-1"]


def test_a_node_that_works_again_by_itself_releases_its_slot(broken: Site) -> None:
    works_again(broken)
    broken.machine.clock.time += 60
    assert main(["poll", "--drift"], broken.machine.host) == 0
    assert (holders(broken), phase(broken)) == ([], "NodeJoined")


def test_a_node_that_polls_and_works_again_by_itself_releases_its_slot(polls: Followed) -> None:
    site = polls.site
    exits_with_every_configuration(site)
    polls.blob.publish(MORE)
    polls.poll()
    assert (holders(site), phase(site)) == (["edge-1"], "NodeFailed")
    site.machine.clock.time += 60
    site.machine.clock.then()  # the kubelet has exited again
    polls.poll()
    assert holders(site) == ["edge-1"], "still down"
    works_again(site)
    site.machine.clock.time += 60
    polls.poll()
    assert (holders(site), phase(site)) == ([], "NodeJoined")
    assert status_of(site.machine.host)["reason"] == "FLEX-1501", "the new configuration stays blocked"


def test_a_drain_that_was_killed_on_a_machine_that_polls_no_source_is_undone(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_at(monkeypatch, Store, "begin"):
        node.join(LIMIT, DRAINED)
    assert node.api.nodes["edge-1"]["spec"]["unschedulable"]
    assert holders(node) == ["edge-1"]
    node.machine.clock.time += 60
    assert main(["poll", "--drift"], node.machine.host) == 0
    assert not node.api.nodes["edge-1"]["spec"].get("unschedulable")
    assert (holders(node), phase(node)) == ([], "NodeJoined")


def test_a_machine_that_was_installed_again_does_not_keep_its_old_slot(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs(node, "1.34.5")
    with killed_at(monkeypatch, JoinRecord, "kubelet_starts"):
        node.join(LIMIT, NEW)
    assert holders(node) == ["edge-1"]
    for path in ("/var/lib/aks-flex-node", "/var/lib/kubelet", "/opt", "/etc"):
        kept = node.machine.path("/etc/os-release").read_bytes() if path == "/etc" else b""
        shutil.rmtree(node.machine.path(path), ignore_errors=True)
        if kept:
            node.machine.put("/etc/os-release", kept.decode())
    for path in ("/opt", "/etc/systemd/system", "/etc/default"):
        node.machine.path(path).mkdir(parents=True, exist_ok=True)
    assert node.join(LIMIT, NEW).outcome.kind == "joined"
    assert holders(node) == []


def test_a_record_that_was_created_anew_gets_the_node_by_the_next_update(node: Site) -> None:
    create(node.api)
    assert node.join(LIMIT).summary == "unchanged"
    assert list(shared(node.api).nodes) == ["edge-1"]


# -- repairs -----------------------------------------------------------------------------------------------


def test_a_kubelet_that_is_down_is_repaired_whatever_else_differs(node: Site) -> None:
    """containerd runs and has to be restarted, too; the node is down already."""
    held_by(node.api, "edge-7")
    node.machine.commands.units[KUBELET] = "inactive"
    node.machine.put(CONTAINERD_CONFIG, "x", 0o644)
    node.join(LIMIT, patience=0)
    assert node.machine.commands.units[KUBELET] == "active"


def test_a_kubelet_that_stops_while_another_repair_waits_is_started_at_the_next_poll(polls: Followed) -> None:
    site = polls.site
    site.machine.put(CONFIG, "{}", 0o600)
    held_by(site.api, "edge-7")
    site.machine.clock.time += 700
    polls.poll("--drift")
    assert status_of(site.machine.host)["rollout"]["state"] == "waiting"
    site.machine.commands.units[KUBELET] = "inactive"
    polls.poll()
    assert site.machine.commands.units[KUBELET] == "active"


def test_a_repair_that_is_no_longer_needed_does_not_wait_any_more(node: Site) -> None:
    good = node.machine.path(CONFIG).read_bytes().decode()
    node.machine.put(CONFIG, "{}", 0o600)
    held_by(node.api, "edge-7")
    main(["poll", "--drift"], node.machine.host)
    assert status_of(node.machine.host)["rollout"]["state"] == "waiting"
    node.machine.put(CONFIG, good, 0o600)
    node.machine.clock.time += 700
    main(["poll", "--drift"], node.machine.host)
    assert not status_of(node.machine.host)["rollout"]["state"]


def test_a_stopped_rollout_does_not_begin_behind_an_interrupted_repair(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The repair is completed by the next poll; the new version stays out."""
    runs(node, "1.34.5")
    node.machine.put(CONFIG, "{}", 0o600)
    with killed_at(monkeypatch, JoinRecord, "kubelet_starts"):
        node.join(LIMIT, patience=0)
    rollout = stop(node, NEW)
    before = restarts(node)
    with pytest.raises(RolloutStopped, match=f"rollout={rollout}"):
        updated(node, patience=0)
    assert restarts(node) == before
    runs(node, "1.34.4")
    assert main(["poll", "--drift"], node.machine.host) == 0
    assert (holders(node), phase(node)) == ([], "NodeJoined")


# -- single components -------------------------------------------------------------------------------------


def test_a_component_whose_change_breaks_the_kubelet_keeps_the_slot(node: Site) -> None:
    """Otherwise the next node would begin: a fleet would break node by node."""
    exits_with_every_configuration(node)
    with pytest.raises(FlexNodeError):
        node.join(LIMIT, MORE, components=("kubelet",))
    assert (holders(node), phase(node)) == (["edge-1"], "NodeFailed")
    works_again(node)
    node.machine.clock.time += 60
    main(["poll", "--drift"], node.machine.host)
    assert holders(node) == []


def test_a_component_whose_change_works_releases_the_slot(node: Site) -> None:
    node.join(LIMIT, MORE, components=("kubelet",))
    assert (holders(node), phase(node)) == ([], "NodeJoined")
