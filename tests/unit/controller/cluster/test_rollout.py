# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The rollout record from the controller, against an API server in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import BindingConflict
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenClient,
    create_tokens,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.rollout import (
    OBJECTS,
    RolloutClient,
    _changed,
    administer,
    described,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import machine_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.members import tokens_by_cluster
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.decide import (
    Change,
    Policy,
    Stopped,
    Take,
    ask,
    decide,
    registered,
    rolled_back,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.errors import RolloutUnknown
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.record import (
    KEY,
    Rollout,
    Shared,
    read,
    written,
)
from tests.unit.controller.fake_cluster import RBAC, FakeCluster
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Pki

ROOT = Path(__file__).parents[4]
PLACE = "/api/v1/namespaces/kube-system/configmaps/flexnode-rollout"
CHANGE = Change("a", "canary", "r1", "kubernetes 1 -> 2", "old", "new")
ONE = Policy(1)


@pytest.fixture
def cluster(pki: Pki) -> Iterator[FakeCluster]:
    with FakeCluster().running(pki) as running:
        yield running


@pytest.fixture
def client(cluster: FakeCluster, pki: Pki) -> Iterator[RolloutClient]:
    with connected(access_of(cluster.kubeconfig(pki), ""), RolloutClient) as connection:
        yield connection


def stored(cluster: FakeCluster) -> Shared:
    return read(cluster.objects[PLACE].get("data", {}).get(KEY, ""))


def put(cluster: FakeCluster, shared: Shared) -> None:
    cluster.objects[PLACE] = {**OBJECTS[-1], "data": {KEY: written(shared)}}


def stopped(now: float) -> Shared:
    """A rollout whose first canary was rolled back."""
    shared = Shared()
    for name, ring in (("a", "canary"), ("b", "canary"), ("c", "")):
        shared = registered(shared, name, ring, "old", now - 3600, late=False)
    verdict, shared = ask(shared, CHANGE, ONE, now)
    assert verdict == Take()
    return rolled_back(shared, CHANGE, "FLEX-1501", ONE, now, works=True)


def run(client: RolloutClient, **options: Any) -> tuple[list[str], Shared]:
    done = administer(client, FakeClock(), **options)
    return done.actions, done.shared


def test_the_objects_are_those_of_the_docs() -> None:
    documented = yaml.safe_load((ROOT / "docs/examples/rollout.yaml").read_text())["items"]
    assert documented == OBJECTS


def test_present_creates_what_is_missing_once(cluster: FakeCluster, client: RolloutClient) -> None:
    expected = ["bind flexnode-rollout to system:nodes", "create ConfigMap flexnode-rollout in kube-system"]
    assert run(client, state="present", check=True)[0] == expected
    assert cluster.objects == {}
    assert run(client, state="present")[0] == expected
    assert sorted(cluster.objects) == [
        PLACE,
        f"{RBAC}/namespaces/kube-system/rolebindings/flexnode-rollout",
        f"{RBAC}/namespaces/kube-system/roles/flexnode-rollout",
    ]
    assert run(client, state="present") == ([], Shared())


def test_a_role_of_this_name_that_grants_something_else(cluster: FakeCluster, client: RolloutClient) -> None:
    path = f"{RBAC}/namespaces/kube-system/roles/flexnode-rollout"
    cluster.objects[path] = {**OBJECTS[0], "rules": [{"resources": ["*"], "verbs": ["*"]}]}
    with pytest.raises(BindingConflict, match="grants something else") as caught:
        run(client, state="present")
    assert "docs/examples/rollout.yaml" in caught.value.fix


def test_nothing_is_created_for_a_look(cluster: FakeCluster, client: RolloutClient) -> None:
    done = administer(client, FakeClock())
    assert (done.exists, done.actions) == (False, [])
    assert cluster.asked("POST") == 0


@pytest.mark.parametrize("options", [{"state": "stopped"}, {"state": "resumed"}, {"forget": ["a"]}])
def test_without_a_record_there_is_nothing_to_change(client: RolloutClient, options: dict[str, Any]) -> None:
    with pytest.raises(RolloutUnknown, match="does not exist"):
        run(client, **options)


def test_a_stopped_rollout_is_resumed(cluster: FakeCluster, client: RolloutClient) -> None:
    now = FakeClock().now() + 50  # the API server's clock is ahead of the controller's
    put(cluster, stopped(now))
    other = replace(CHANGE, node="b")
    assert isinstance(decide(stored(cluster), other, ONE, now), Stopped)
    expected = ["resume rollout r1 (kubernetes 1 -> 2)"]
    assert run(client, state="resumed", check=True)[0] == expected
    assert stored(cluster).rollouts["r1"].stopped
    assert run(client, state="resumed")[0] == expected
    assert run(client, state="resumed")[0] == []
    assert decide(stored(cluster), other, ONE, now) == Take()
    shared = rolled_back(stored(cluster), other, "FLEX-1501", ONE, now + 60, works=True)
    assert shared.rollouts["r1"].stopped == "b (FLEX-1501) of ring canary was rolled back"


def test_a_rollout_is_stopped_with_a_reason(cluster: FakeCluster, client: RolloutClient) -> None:
    now = FakeClock().now()
    put(cluster, ask(stopped(now), replace(CHANGE, rollout="r2", after="newer"), ONE, now + 5)[1])
    assert run(client, state="stopped", reason="a ticket")[0] == ["stop rollout r2 (kubernetes 1 -> 2)"]
    assert stored(cluster).rollouts["r2"].stopped == "a ticket"
    assert list(stored(cluster).holders) == ["a"], "who has begun finishes"
    assert run(client, state="resumed", rollout="r1")[0] == ["resume rollout r1 (kubernetes 1 -> 2)"]
    with pytest.raises(ConfigInvalid, match="problem") as caught:
        run(client, state="stopped", rollout="r9")
    assert "one of r1, r2" in str(caught.value)


def test_a_machine_that_is_gone_is_forgotten(cluster: FakeCluster, client: RolloutClient) -> None:
    now = FakeClock().now()
    shared = ask(stopped(now), replace(CHANGE, rollout="", after="old"), ONE, now)[1]
    put(cluster, shared)
    assert run(client, forget=["a", "nobody"])[0] == ["forget node a"]
    assert sorted(stored(cluster).nodes) == ["b", "c"]
    assert dict(stored(cluster).holders) == {}
    assert run(client, forget=["a"])[0] == []


def test_a_node_that_writes_at_the_same_time_is_not_overwritten(
    cluster: FakeCluster, client: RolloutClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, real = FakeClock().now(), client.replace_record
    put(cluster, stopped(now))

    def after_another(body: Any) -> bool:
        if "d" not in stored(cluster).nodes:
            put(cluster, registered(stored(cluster), "d", "", "old", now, late=False))
            cluster.objects[PLACE]["metadata"] = {**OBJECTS[-1]["metadata"], "resourceVersion": "7"}
        return real(body)

    monkeypatch.setattr(client, "replace_record", after_another)
    assert run(client, state="resumed")[0] == ["resume rollout r1 (kubernetes 1 -> 2)"]
    assert "d" in stored(cluster).nodes
    assert cluster.asked("PUT") == 2


def test_a_damaged_record_says_what_to_do(cluster: FakeCluster, client: RolloutClient) -> None:
    cluster.objects[PLACE] = {**OBJECTS[-1], "data": {KEY: "{"}}
    with pytest.raises(RolloutUnknown, match="can't be used") as caught:
        run(client)
    assert "kubectl delete configmap flexnode-rollout -n kube-system" in caught.value.fix


def test_the_record_of_a_newer_release_is_not_to_be_deleted(
    cluster: FakeCluster, client: RolloutClient
) -> None:
    cluster.objects[PLACE] = {**OBJECTS[-1], "data": {KEY: '{"schema": 99}'}}
    with pytest.raises(RolloutUnknown, match="can't be used") as caught:
        run(client)
    assert caught.value.why.endswith("a newer release of aks.flexnode wrote it")
    assert "install a newer release" in caught.value.fix
    assert "delete" not in caught.value.fix


def test_the_result_is_plain_data() -> None:
    told = described(stopped(FakeClock().now()))
    assert [one["name"] for one in told["nodes"]] == ["a", "b", "c"]
    assert told["holders"] == []
    (rollout,) = told["rollouts"]
    assert rollout["rolled_back"]["a"]["code"] == "FLEX-1501"
    assert "a (FLEX-1501)" in rollout["stopped"]


# -- where the other rights are created --------------------------------------------------------------------


def test_tokens_come_with_the_record_if_a_machine_asks_for_it(cluster: FakeCluster, pki: Pki) -> None:
    cluster.nodes = {"a": a_node("a")}
    with connected(access_of(cluster.kubeconfig(pki), ""), TokenClient) as tokens:
        create_tokens(tokens, ["a"], FakeClock(), hours=1, rights=True, check=False)
        assert PLACE not in cluster.objects
        done = create_tokens(tokens, ["a"], FakeClock(), hours=1, rights=True, check=False, rollouts=True)
    assert "create ConfigMap flexnode-rollout in kube-system" in done.actions
    assert PLACE in cluster.objects


def test_which_machines_ask_for_it() -> None:
    def machine(**upgrade: Any) -> bool:
        variables = {"flexnode_config_source": "cluster", "flexnode_config": {"upgrade": upgrade}}
        return machine_of("a", variables, lambda _path: {}).takes_turns

    assert (machine(maxUnavailable=2), machine(drain="never")) == (True, False)
    nodes = [{"name": "a", "rollout": False}, {"name": "b", "rollout": True}]
    (part,) = tokens_by_cluster({"nodes": nodes, "token_ids": [], "cluster_id": None}, kubernetes=True)
    assert part.rollouts


def test_a_resume_forgives_what_happened_so_far_and_nothing_else() -> None:
    """Whatever the clock of the controller says: times in the record are those of the API server."""
    policy = Policy(1)
    _verdict, shared = ask(registered(Shared(), "a", "canary", "old", 100, late=False), CHANGE, policy, 100)
    shared = rolled_back(shared, CHANGE, "FLEX-1501", policy, 110, works=True)
    assert shared.rollouts["r1"].stopped
    resumed, actions = _changed(shared, "resumed", "", "", ())
    assert (resumed.rollouts["r1"].stopped, actions) == ("", ["resume rollout r1 (kubernetes 1 -> 2)"])
    again = rolled_back(resumed, replace(CHANGE, node="b"), "FLEX-1501", policy, 111, works=True)
    assert again.rollouts["r1"].stopped == "b (FLEX-1501) of ring canary was rolled back"


def test_without_a_name_the_newest_rollout_that_is_stopped_is_resumed() -> None:
    """Another one may have begun later: resuming that one would say ok, and change nothing."""
    stopped = Rollout("kubernetes 1.34.4 -> 1.34.5", 100.0, stopped="edge-1 was rolled back")
    shared = Shared(rollouts={"one": stopped, "two": Rollout("maxPods", 200.0)})
    changed, actions = _changed(shared, "resumed", "", "", ())
    assert actions == ["resume rollout one (kubernetes 1.34.4 -> 1.34.5)"]
    assert not changed.rollouts["one"].stopped
    assert _changed(shared, "stopped", "", "", ())[1] == ["stop rollout two (maxPods)"]
