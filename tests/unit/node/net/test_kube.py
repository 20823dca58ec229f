# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Kubernetes API as a node uses it, and what is done to Nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    CaMismatch,
    FlexNodeError,
    Forbidden,
    NodeNotReady,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.conditions import (
    kubelet_version,
    ready_condition,
)
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.node_changes import (
    apply_node,
    described,
    node_patch,
)
from tests.unit.node.fake_api import FakeApi, a_node, a_pod
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Answer, Pki, hanging_up, serving

WANTED = {
    "state": "present",
    "ready": False,
    "timeout": 30,
    "labels": {},
    "taints": None,
    "taints_absent": [],
    "unschedulable": None,
    "drain": False,
}


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


def test_a_token_is_sent_and_a_node_is_read(api: FakeApi, client: KubeClient) -> None:
    node = client.node("edge-1") or {}
    assert (kubelet_version(node), ready_condition(node)[0]) == ("1.34.4", True)
    assert api.server.requests[0].headers["Authorization"] == "Bearer t0ken"
    assert client.node("other") is None
    assert client.version() == "1.34.4"


def test_the_kubelets_certificate_is_an_identity(pki: Pki, clock: FakeClock) -> None:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        client = KubeClient(api.server.url, pki.ca_pem, certificate=str(pki.client), clock=clock)
        assert client.node("edge-1")
        with pytest.raises(FlexNodeError):
            KubeClient(api.server.url, pki.ca_pem, clock=clock, attempts=1).node("edge-1")


def test_nodes_are_patched_and_deleted(api: FakeApi, client: KubeClient) -> None:
    client.patch_node("edge-1", {"metadata": {"labels": {"site": "lab"}}})
    assert api.nodes["edge-1"]["metadata"]["labels"] == {"site": "lab"}
    assert (client.delete_node("edge-1"), client.delete_node("edge-1")) == (True, False)


def test_names_can_not_lead_elsewhere(api: FakeApi, client: KubeClient) -> None:
    assert client.node("../pods") is None
    assert api.server.asked == ["GET /api/v1/nodes/..%2Fpods"]


@pytest.mark.parametrize(
    ("status", "error", "why"),
    [
        (401, Forbidden, "refused by the test"),
        (403, Forbidden, "refused by the test"),
        (500, ApiUnreachable, "HTTP 500"),
        (503, ApiUnreachable, "HTTP 503"),
    ],
)
def test_refusals_are_explained(
    api: FakeApi, client: KubeClient, status: int, error: type[FlexNodeError], why: str
) -> None:
    api.refuse["GET /api/v1/nodes"] = status
    with pytest.raises(error) as caught:
        client.node("edge-1")
    assert why in caught.value.why
    assert "t0ken" not in str(caught.value)


@pytest.mark.parametrize("once", [True, False])
def test_a_server_whose_name_is_none_can_not_be_reached(pki: Pki, clock: FakeClock, once: bool) -> None:
    client = KubeClient("https://.plant.example", pki.ca_pem, token="t0ken", clock=clock)
    with pytest.raises(ApiUnreachable, match="its host name has an empty part"):
        client.node("edge-1", once=once)


def test_an_api_server_of_another_ca(api: FakeApi, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = Pki.make(tmp_path_factory.mktemp("other"))
    with pytest.raises(CaMismatch, match="not trusted"):
        KubeClient(api.server.url, other.ca_pem, clock=FakeClock()).node("edge-1")


@pytest.mark.parametrize("once", [False, True], ids=["kept-connection", "one-request"])
def test_a_certificate_that_is_not_valid_now_says_nothing_about_the_ca(
    tmp_path_factory: pytest.TempPathFactory, once: bool
) -> None:
    """A machine without a battery for its clock boots in the past, until NTP sets it."""
    expired = Pki.make(tmp_path_factory.mktemp("expired"), server_days=-1)
    with FakeApi().running(expired) as api, pytest.raises(ApiUnreachable, match="has expired") as caught:
        KubeClient(api.server.url, expired.ca_pem, clock=FakeClock(), attempts=1).node("edge-1", once=once)
    assert caught.value.fix.startswith("check this machine's clock (timedatectl)")


def test_a_line_cut_in_the_handshake_is_no_other_ca(pki: Pki) -> None:
    with hanging_up() as url, pytest.raises(ApiUnreachable):
        KubeClient(url, pki.ca_pem, clock=FakeClock()).node("edge-1")


def test_something_else_that_answers(pki: Pki) -> None:
    portal = serving(lambda _: Answer(b"<html>sign in</html>"), pki.server_context())
    with portal as server, pytest.raises(ApiUnreachable, match="not an API server"):
        KubeClient(server.url, pki.ca_pem).node("edge-1")


# -- what flexnode_node does -------------------------------------------------------------------------------

TAINT = {"key": "gpu", "value": "", "effect": "NoSchedule"}
VERSION = {"resourceVersion": "7"}
THEIRS = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("spec", "wanted", "patch", "words"),
    [
        ({}, {}, {}, []),
        ({}, {"labels": {"a": "1"}}, {}, []),
        (
            {},
            {"labels": {"a": "2", "b": "3"}},
            {"metadata": {"labels": {"a": "2", "b": "3"}}},
            ["label a=2", "label b=3"],
        ),
        ({}, {"labels": {"a": None, "c": None}}, {"metadata": {"labels": {"a": None}}}, ["remove label a"]),
        (
            {"taints": [THEIRS]},
            {"taints": [TAINT]},
            {"metadata": VERSION, "spec": {"taints": [THEIRS, TAINT]}},
            ["taint gpu:NoSchedule"],
        ),
        (
            {"taints": [THEIRS, TAINT]},
            {"taints": [{**TAINT, "value": "a100"}]},
            {"metadata": VERSION, "spec": {"taints": [THEIRS, {**TAINT, "value": "a100"}]}},
            ["taint gpu=a100:NoSchedule"],
        ),
        (
            {"taints": [THEIRS, TAINT]},
            {"taints_absent": [{"key": "gpu", "effect": "NoSchedule"}]},
            {"metadata": VERSION, "spec": {"taints": [THEIRS]}},
            ["remove taint gpu:NoSchedule"],
        ),
        ({"taints": [THEIRS]}, {"taints_absent": [{"key": "gpu", "effect": "NoSchedule"}]}, {}, []),
        ({"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {"taints": [TAINT]}, {}, []),
        ({"taints": [THEIRS]}, {"taints": []}, {}, []),
        ({}, {"unschedulable": True}, {"spec": {"unschedulable": True}}, ["cordon"]),
        ({"unschedulable": True}, {"unschedulable": False}, {"spec": {"unschedulable": False}}, ["uncordon"]),
        ({}, {"unschedulable": False}, {}, []),
    ],
)
def test_the_smallest_patch(
    spec: dict[str, Any], wanted: dict[str, Any], patch: dict[str, Any], words: list[str]
) -> None:
    node = {"metadata": {"labels": {"a": "1"}, **VERSION}, "spec": spec}
    made = node_patch(node, **{"labels": {}, "taints": None, "unschedulable": None, **wanted})
    assert made == patch
    assert described(made, node) == words


@pytest.mark.parametrize("check", [True, False])
def test_a_node_is_changed_or_only_shown(
    api: FakeApi, client: KubeClient, clock: FakeClock, check: bool
) -> None:
    api.pods = [a_pod("a")]
    wanted = {**WANTED, "labels": {"site": "lab"}, "drain": True}
    done = apply_node(client, "edge-1", wanted, clock, check=check)
    assert done.actions == ["change Node edge-1: label site=lab", "drain Node edge-1 (1 pods)"]
    assert done.summary == {"name": "edge-1", "ready": True, "kubeletVersion": "1.34.4"}
    changed = not all(asked.startswith("GET") for asked in api.server.asked)
    assert changed == (not check)
    if not check:
        again = apply_node(client, "edge-1", wanted, clock, check=False)
        assert again.actions == []


def test_taints_of_others_survive_a_change_at_the_same_time(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    """A patch replaces the whole list: one that was computed from an older Node must not win."""

    def taint_by_others() -> None:
        node = api.nodes["edge-1"]
        node["spec"]["taints"] = [THEIRS]
        node["metadata"]["resourceVersion"] = "5"

    api.meanwhile = [taint_by_others]
    done = apply_node(client, "edge-1", {**WANTED, "taints": [TAINT]}, clock, check=False)
    assert api.nodes["edge-1"]["spec"]["taints"] == [THEIRS, TAINT]
    assert done.actions == ["change Node edge-1: taint gpu:NoSchedule"]
    assert [(one["before"], one["after"]) for one in done.diff] == [
        (
            {"taints": ["node.kubernetes.io/not-ready:NoExecute"]},
            {"taints": ["node.kubernetes.io/not-ready:NoExecute", "gpu:NoSchedule"]},
        )
    ]


def test_a_node_that_changes_all_the_time_is_an_error(
    api: FakeApi, client: KubeClient, clock: FakeClock
) -> None:
    def touch() -> None:
        metadata = api.nodes["edge-1"]["metadata"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)

    api.meanwhile = [touch] * 20
    with pytest.raises(ApiUnreachable):
        apply_node(client, "edge-1", {**WANTED, "taints": [TAINT]}, clock, check=False)
    assert "taints" not in api.nodes["edge-1"]["spec"]


@pytest.mark.parametrize("check", [True, False])
def test_a_node_is_deleted_once(api: FakeApi, client: KubeClient, clock: FakeClock, check: bool) -> None:
    gone = {**WANTED, "state": "absent"}
    assert apply_node(client, "edge-1", gone, clock, check=check).actions == ["delete Node edge-1"]
    assert ("edge-1" in api.nodes) == check
    if not check:
        assert apply_node(client, "edge-1", gone, clock, check=False).actions == []


def test_waiting_for_a_node(api: FakeApi, client: KubeClient, clock: FakeClock) -> None:
    api.nodes = {}
    states: list[Callable[[], None]] = [
        lambda: api.nodes.update({"edge-1": a_node(ready=False)}),
        lambda: api.nodes.update({"edge-1": a_node()}),
    ]
    clock.then = lambda: states.pop(0)()
    assert apply_node(client, "edge-1", {**WANTED, "ready": True}, clock, check=False).summary["ready"]
    api.nodes["edge-1"] = a_node(ready=False)
    clock.then = lambda: None
    with pytest.raises(NodeNotReady, match="cni plugin not initialized"):
        apply_node(client, "edge-1", {**WANTED, "ready": True}, clock, check=False)


def test_a_node_that_does_not_exist(client: KubeClient, clock: FakeClock) -> None:
    with pytest.raises(NodeNotReady, match="there is no Node other"):
        apply_node(client, "other", WANTED, clock, check=False)
