# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Drain: which pods are evicted, and the time limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.drain import drain, evictable
from tests.unit.node.fake_api import FakeApi, a_node, a_pod
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Pki


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
    assert drain(client, "edge-1", clock, 30) == []
    assert api.nodes["edge-1"]["spec"] == {"unschedulable": True}
    assert api.pods == [daemon]
    assert sum("eviction" in asked for asked in api.server.asked) == 2
    assert "spec.nodeName%3Dedge-1" in " ".join(api.server.asked)


def test_a_drain_respects_budgets_and_its_own_limit(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    api.pods, api.protected = [a_pod("a"), a_pod("held")], {"held"}
    assert drain(client, "edge-1", clock, 20) == ["default/held"]
    assert sum(clock.naps) < 60
