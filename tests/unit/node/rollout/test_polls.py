# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node that polls waits for its turn without blocking, says so once, and goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.fakes import Machine
from tests.unit.node.follow.test_tick import FOLLOWED, Blob, Captured, Followed
from tests.unit.node.rollout.rollouts import LIMIT, PLACE, create, held_by, put, shared
from tests.unit.node.servers import Pki, serving
from tests.unit.node.sites import CONFIG, MORE, Site, exits_from_now_on


@pytest.fixture
def polls(site: Site, pki: Pki) -> Iterator[Followed]:
    """A joined node that polls a URL, in a cluster with a record."""
    create(site.api)
    blob = Blob({**site.document, **FOLLOWED, **LIMIT})
    with serving(blob.get, pki.server_context()) as server:
        blob.server = server
        made = Followed(site, blob, pki)
        made.join()
        assert made.poll() == 0
        yield made


def written(machine: Machine) -> object:
    return machine.snapshot("/var/lib/aks-flex-node", "/etc", "/opt")


def test_polls_wait_and_go_on(polls: Followed, capsys: Captured) -> None:
    held_by(polls.site.api, "edge-7")
    polls.blob.publish(MORE)
    assert polls.poll() == 0
    said = capsys.readouterr().out
    assert (
        "configuration 18 waits: FLEX-1522 this node waits for edge-7 (kubernetes 1.34.3 -> 1.34.4, since"
        in said
    )
    status = status_of(polls.machine.host)
    assert (status["monitoring"]["status"], status["reason"]) == ("Waiting", "NodeJoined")
    assert "waits for edge-7" in status["message"]
    assert status["config"]["appliedVersion"] == "17"
    assert polls.poll() == 0
    before = written(polls.machine)
    capsys.readouterr()
    for _poll in range(3):
        assert polls.poll() == 0
    assert written(polls.machine) == before, "a poll that waits writes nothing"
    assert "waits" not in capsys.readouterr().out
    put(polls.site.api, lambda now: now.without_holder("edge-7"))
    assert polls.poll() == 0
    assert '"maxPods": 50' in polls.machine.text(CONFIG)
    status = status_of(polls.machine.host)
    assert (status["monitoring"]["status"], status["message"]) == ("Ok", "")
    assert dict(shared(polls.site.api).holders) == {}


def test_a_document_that_is_withdrawn_while_it_waits(polls: Followed) -> None:
    held_by(polls.site.api, "edge-7")
    polls.blob.publish(MORE)
    polls.poll()
    polls.blob.publish({"node": {"maxPods": 110}})
    assert polls.poll() == 0
    status = status_of(polls.machine.host)
    assert (status["monitoring"]["status"], status["rollout"]["state"]) == ("Ok", "")


def test_what_is_not_known_is_a_reason_and_no_failure_of_the_source(polls: Followed) -> None:
    record = polls.site.api.config_maps.pop(PLACE)
    polls.blob.publish(MORE)
    for _poll in range(2):
        assert polls.poll() == 0
    status = status_of(polls.machine.host)
    assert (status["monitoring"]["status"], status["reason"]) == ("Waiting", "FLEX-1521")
    assert polls.machine.store.monitoring() == {}
    polls.site.api.config_maps[PLACE] = record
    assert polls.poll() == 0
    assert status_of(polls.machine.host)["reason"] == "NodeJoined"


def test_a_rollback_by_a_poll_stops_the_rollout(polls: Followed) -> None:
    exits_from_now_on(polls.site)
    polls.blob.publish(MORE)
    assert polls.poll() == 3
    (rollout,) = shared(polls.site.api).rollouts.values()
    assert rollout.stopped == "edge-1 (FLEX-1501) was rolled back"
    assert status_of(polls.machine.host)["monitoring"]["status"] == "Blocked"


def test_the_timer_s_poll_hands_over_and_is_quiet_while_it_waits(polls: Followed, capsys: Captured) -> None:
    held_by(polls.site.api, "edge-7")
    polls.blob.publish(MORE)
    polls.poll()
    capsys.readouterr()
    starts = polls.machine.commands.times("systemctl", "start", "--no-block")
    assert polls.poll("--hand-over") == 0
    assert polls.machine.commands.times("systemctl", "start", "--no-block") == starts + 1


def test_a_repair_waits_for_its_turn_and_says_so(polls: Followed, capsys: Captured) -> None:
    polls.machine.put(CONFIG, "{}", 0o600)
    held_by(polls.site.api, "edge-7")
    assert polls.poll("--drift") == 0  # nothing failed: the default playbook of ansible-pull runs this, too
    said = capsys.readouterr().out
    assert "waits for edge-7" in said
    assert "drift is not repaired yet" in said
    assert polls.machine.text(CONFIG) == "{}"
    for number in range(1, 4):
        kept = polls.machine.store.drift() or {}
        assert "failure" not in kept, "it waits, nothing failed"
        assert kept["waiting"]["code"] == "FLEX-1522"
        assert kept["waiting"]["retryAt"] == polls.machine.clock.time + 60, "the pause stays the same"
        polls.machine.clock.time += 61
        assert polls.poll("--drift") == 0, number
    assert polls.machine.text(CONFIG) == "{}"
    put(polls.site.api, lambda now: now.without_holder("edge-7"))
    polls.machine.clock.time += 61
    assert polls.poll("--drift") == 0
    assert '"maxPods": 110' in polls.machine.text(CONFIG)


def test_a_ring_that_is_set_by_kubectl_is_registered(polls: Followed) -> None:
    """Others wait for a canary only if the record names it."""
    polls.site.api.nodes["edge-1"]["metadata"]["labels"]["aks.flexnode/ring"] = "canary"
    assert polls.poll("--drift") == 0
    assert polls.poll() == 0
    assert shared(polls.site.api).nodes["edge-1"].ring == "canary"
