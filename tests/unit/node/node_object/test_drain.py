# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drain: which pods are evicted, and the time limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.drain import (
    LONGEST_PAUSE,
    Drained,
    drain,
    evictable,
)
from tests.unit.node.fake_api import FakeApi, a_node, a_pod
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Pki, Request


@pytest.fixture
def api(pki: Pki) -> Iterator[FakeApi]:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki) as running:
        yield running


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def client(api: FakeApi, pki: Pki, clock: FakeClock) -> KubeClient:
    return KubeClient(api.server.url, pki.ca_pem, token="t0ken", clock=clock)


@pytest.mark.parametrize(
    ("pod", "leaves"),
    [
        (a_pod("plain"), True),
        (a_pod("pending", "Pending"), True),
        (a_pod("done", "Succeeded"), False),
        (a_pod("broken", "Failed"), False),
        (a_pod("static", annotations={"kubernetes.io/config.mirror": "x"}), False),
        (a_pod("daemon", ownerReferences=[{"kind": "DaemonSet"}]), False),
        (a_pod("of-a-deployment", ownerReferences=[{"kind": "ReplicaSet"}]), True),
        (a_pod("bare", annotations=None, ownerReferences=None), True),
    ],
)
def test_which_pods_leave(pod: dict[str, Any], leaves: bool) -> None:
    assert evictable(pod) == leaves


def test_a_drain_cordons_and_evicts_each_pod_once(api: FakeApi, client: KubeClient, clock: FakeClock) -> None:
    daemon = a_pod("daemon", ownerReferences=[{"kind": "DaemonSet"}])
    api.pods = [a_pod("a"), a_pod("b"), daemon]
    assert drain(client, "edge-1", clock, 30).complete
    assert api.nodes["edge-1"]["spec"] == {"unschedulable": True}
    assert api.pods == [daemon]
    assert sum("eviction" in asked for asked in api.server.asked) == 2
    assert "spec.nodeName%3Dedge-1" in " ".join(api.server.asked)


def test_a_drain_respects_budgets_and_its_own_limit(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    api.pods, api.protected = [a_pod("a"), a_pod("held")], {"held"}
    drained = drain(client, "edge-1", clock, 20)
    assert not drained.complete
    assert drained.lines == ["default/held (PodDisruptionBudget keep)"]
    assert sum(clock.naps) == 20
    assert max(clock.naps) <= LONGEST_PAUSE, "no Retry-After of one pod holds up the others"


def test_a_budget_that_allows_it_later_lets_the_drain_go_on(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    api.pods, api.protected, said = [a_pod("held")], {"held"}, []
    clock.then = lambda: api.protected.clear() if clock.time > 1_800_000_007 else None
    assert drain(client, "edge-1", clock, 60, said.append).complete
    assert said == [
        "waiting for 1 pod: default/held (PodDisruptionBudget keep)",
        "waiting for 1 pod: default/held (terminating)",
    ]


def test_many_pods_with_slow_answers_end_at_the_limit(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    api.pods = [a_pod(f"web-{index:02}") for index in range(100)]
    slow = 5.0

    def take_long(request: Request) -> None:
        clock.time += slow if request.path.endswith("/eviction") else 0

    api.arrives = take_long
    start = clock.time
    drained = drain(client, "edge-1", clock, 20)
    assert clock.time - start <= 20 + slow
    assert drained.stayed["default/web-99"] == "not evicted yet"
    assert drained.stayed["default/web-00"] == "terminating"


def test_a_pod_that_takes_its_time_is_waited_for_and_asked_once(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    api.pods, api.graceful = [a_pod("slow")], {"slow"}
    clock.then = lambda: api.pods.clear() if clock.time > 1_800_000_010 else None
    assert drain(client, "edge-1", clock, 60).complete
    assert sum("eviction" in asked for asked in api.server.asked) == 1
    api.pods = [a_pod("slow")]
    clock.then = lambda: None
    assert drain(client, "edge-1", clock, 5).lines == ["default/slow (terminating)"]


def test_what_we_may_not_evict_is_not_waited_for(api: FakeApi, client: KubeClient, clock: FakeClock) -> None:
    api.pods = [a_pod("theirs")]
    api.refuse["POST /api/v1/namespaces/default/pods/theirs/eviction"] = 403
    assert drain(client, "edge-1", clock, 60).lines == ["default/theirs (refused by the test (403))"]
    assert clock.naps == []


def test_a_long_list_of_pods_is_cut_in_the_progress_line() -> None:
    stayed = {f"default/web-{index}": "terminating" for index in range(5)}
    assert str(Drained(stayed)) == (
        "waiting for 5 pods: default/web-0 (terminating), default/web-1 (terminating), "
        "default/web-2 (terminating), +2"
    )
