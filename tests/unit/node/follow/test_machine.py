# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of a FlexNodes pool follows its machine and its Node; both servers are behind real TLS."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.own_node import read_node
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machine_answers import (
    DELETING,
    interval,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import ROLE
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.contract.recorded import aks
from tests.unit.node.fake_api import a_node
from tests.unit.node.fake_arm import arm_error, not_found
from tests.unit.node.fake_pool import GET, LIST_DATA, MACHINES, OWN, POOL, Edge, an_edge
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, answer_json
from tests.unit.node.sites import IDENTITY, KUBELET, TOKEN, also

Captured = pytest.CaptureFixture[str]
LIST = f"GET {MACHINES}?"
DISK = ("/etc", "/opt", "/usr", "/var/lib")
TAINT = {"key": DELETING, "value": "true", "effect": "NoSchedule"}
NEW = "1.34.5"
GATEWAYS_404 = not_found(OWN.partition("/providers/")[2])  # as long as the gateway knows of a machine


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    with an_edge(debian, pki, tmp_path, monkeypatch) as made:
        made.settings(
            {"mirror": {"catalogue": also(NEW)["mirror"]["catalogue"]}, "drift": {"mode": "report"}}
        )
        yield made


@pytest.fixture
def joined(edge: Edge) -> Edge:
    """Joined, and seen once in Azure."""
    assert edge.join() == 0
    assert edge.poll() == 0
    edge.arm.server.requests.clear()
    edge.site.api.server.requests.clear()
    return edge


def test_the_node_is_read_with_a_ca_that_has_a_comment_in_any_language(joined: Edge, pki: Pki) -> None:
    document = joined.current()
    commented = b64encode(f"\ufeff# Autorité\n{pki.ca_pem}".encode()).decode()
    document["node"]["kubelet"]["caCertData"] = commented
    node = read_node(joined.machine.host, document, "edge-1")
    assert node is not None
    assert node["metadata"]["name"] == "edge-1"


def restarts(edge: Edge) -> int:
    return sum(
        call[:2] == ("systemctl", "restart") and KUBELET in call for call in edge.machine.commands.calls
    )


def registers(edge: Edge, version: str = "1.34.4") -> None:
    """A kubelet that starts registers its Node, with its version."""
    start = edge.machine.commands.on_start[KUBELET]

    def starts() -> None:
        start()
        edge.node["status"]["nodeInfo"]["kubeletVersion"] = f"v{version}"

    edge.machine.commands.on_start[KUBELET] = starts


# -- nothing to do -----------------------------------------------------------------------------------------


def test_the_node_is_read_every_time_and_azure_every_few_minutes_and_nothing_is_written(
    joined: Edge, capsys: Captured
) -> None:
    before, calls = joined.machine.snapshot(*DISK), joined.machine.commands.changing()
    for _ in range(20):
        assert joined.later(30) == 0
    assert 1 <= joined.arm.asked(GET) <= 2
    reads = [one for one in joined.site.api.server.requests if one.path == "/api/v1/nodes/edge-1"]
    assert len(reads) >= 20
    assert joined.machine.snapshot(*DISK) == before
    assert joined.machine.commands.changing() == calls
    assert set(capsys.readouterr().out.splitlines()) == {"nothing new"}


def test_each_machine_has_its_own_interval() -> None:
    intervals = {interval(f"{MACHINES}/edge-{number}") for number in range(200)}
    assert min(intervals) >= 300
    assert max(intervals) <= 600
    assert len(intervals) > 100


def test_after_a_boot_azure_is_asked_at_once(joined: Edge) -> None:
    joined.machine.path("/run/aks-flex-node/machine-asked").unlink()
    assert joined.later(1) == 0
    assert joined.arm.asked(GET) == 1


# -- labels and taints -------------------------------------------------------------------------------------


def test_new_labels_are_applied_without_a_restart_and_the_etag_accepted(
    joined: Edge, capsys: Captured
) -> None:
    etag = joined.arm.goal(nodeLabels={"site": "lab-2", "rack": "7"}, nodeTaints=["a=b:NoSchedule"])
    before = restarts(joined)
    capsys.readouterr()
    assert joined.later() == 0
    out = capsys.readouterr().out
    assert f"configuration {etag} is applied" in out
    assert "AKS sets the taints of pool edge" in out
    assert restarts(joined) == before
    labels = joined.node["metadata"]["labels"]
    assert (labels["site"], labels["rack"]) == ("lab-2", "7")
    assert joined.current()["node"]["taints"] == ["a=b:NoSchedule"]
    assert "a=b:NoSchedule" in joined.machine.text("/etc/default/kubelet-registration")
    assert (joined.source()["configVersion"], joined.source()["settled"]) == (etag, True)
    assert joined.machine.store.config_version() == etag
    joined.node["spec"]["taints"] = [{"key": "a", "value": "b", "effect": "NoSchedule"}]  # AKS does that
    assert joined.later() == 0
    written = joined.machine.snapshot(*DISK)
    assert joined.later() == 0
    assert joined.machine.snapshot(*DISK) == written


def test_labels_that_aks_has_set_already_are_no_drift(edge: Edge) -> None:
    """AKS patches the Node at once: the machine is asked soon, and the label is not set back meanwhile."""
    edge.settings({"drift": {"mode": "repair"}})
    assert edge.join() == 0
    assert edge.poll() == 0
    edge.arm.goal(nodeLabels={"site": "lab-2"})
    edge.node["metadata"]["labels"]["site"] = "lab-2"
    edge.site.api.server.requests.clear()
    assert edge.later(40) == 0
    patches = [one.json for one in edge.site.api.server.requests if one.method == "PATCH"]
    assert not any("lab-1" in json.dumps(patch) for patch in patches)
    assert edge.current()["node"]["labels"] == {"site": "lab-2"}


def test_a_label_that_someone_else_changed_is_repaired(edge: Edge) -> None:
    edge.settings({"drift": {"mode": "repair"}})
    assert edge.join() == 0
    assert edge.poll() == 0
    edge.node["metadata"]["labels"]["site"] = "nonsense"
    assert edge.later(200) == 0
    assert edge.node["metadata"]["labels"]["site"] == "lab-1"


# -- versions ----------------------------------------------------------------------------------------------


def test_a_new_version_waits_until_the_node_is_deleted(joined: Edge, capsys: Captured) -> None:
    etag = joined.arm.goal(orchestratorVersion=NEW)
    before = restarts(joined)
    assert joined.later() == 0
    assert f"Kubernetes 1.34.4 -> {NEW} is installed after the Node" in capsys.readouterr().out
    status = status_of(joined.machine.host)
    assert (status["reason"], status["monitoring"]["status"]) == ("NodeJoined", "Waiting")
    assert "1.34.4 -> 1.34.5" in status["message"]
    written = joined.machine.snapshot(*DISK)
    assert joined.later() == 0
    assert joined.machine.snapshot(*DISK) == written
    assert restarts(joined) == before
    assert main(["status"], joined.machine.host) == 0
    assert "Waiting  pool edge, machine edge-1: Kubernetes" in capsys.readouterr().out
    registers(joined, NEW)
    del joined.site.api.nodes["edge-1"]
    assert joined.later(30) == 0
    assert f"configuration {etag} is applied" in capsys.readouterr().out
    assert joined.node["status"]["nodeInfo"]["kubeletVersion"] == f"v{NEW}"
    assert joined.current()["kubernetes"]["version"] == NEW
    assert "waiting" not in joined.source()
    assert restarts(joined) == before + 1
    assert joined.arm.asked(LIST_DATA) == 0, "an upgrade needs no token"
    assert status_of(joined.machine.host)["monitoring"]["status"] == "Ok"


def test_labels_do_not_wait_for_a_version(edge: Edge) -> None:
    """AKS patches the Node with both in one goal: its labels must not be taken for drift."""
    edge.settings({"drift": {"mode": "repair"}})
    assert edge.join() == 0
    assert edge.poll() == 0
    before, count = edge.source(), restarts(edge)
    etag = edge.arm.goal(orchestratorVersion=NEW, nodeLabels={"site": "lab-2"})
    edge.node["metadata"]["labels"]["site"] = "lab-2"
    assert edge.later(200) == 0
    assert edge.current()["node"]["labels"] == {"site": "lab-2"}
    assert edge.current()["kubernetes"]["version"] == "1.34.4"
    source = edge.source()
    assert (source["configVersion"], source["settled"]) == (before["configVersion"], True)
    assert NEW in source["waiting"]
    assert restarts(edge) == count
    for _ in range(3):
        assert edge.later(200) == 0
    assert edge.node["metadata"]["labels"]["site"] == "lab-2"
    registers(edge, NEW)
    del edge.site.api.nodes["edge-1"]
    assert edge.later(30) == 0
    assert edge.current()["kubernetes"]["version"] == NEW
    assert edge.source()["configVersion"] == etag


def test_at_once_does_not_wait(edge: Edge, capsys: Captured) -> None:
    edge.settings({"azure": {"machines": {"apply": "at-once"}}})
    assert edge.join() == 0
    edge.arm.goal(orchestratorVersion=NEW)
    registers(edge, NEW)
    start = edge.machine.commands.on_start[KUBELET]
    edge.machine.commands.on_start[KUBELET] = lambda: (start(), None)[1]
    assert edge.later() == 0
    assert edge.current()["kubernetes"]["version"] == NEW
    assert "is applied" in capsys.readouterr().out


def test_a_version_that_fails_is_rolled_back_and_its_etag_blocked(joined: Edge, capsys: Captured) -> None:
    """The kubelet of the new version does not start; the Node comes back with the old one."""
    joined.settings()
    machine, commands = joined.machine, joined.machine.commands
    etag = joined.arm.goal(orchestratorVersion=NEW)
    start = commands.on_start[KUBELET]
    commands.logs[KUBELET] = "E1115 unknown flag\n"

    def starts() -> None:
        if NEW in str(machine.path("/usr/local/bin/kubelet").readlink()):
            commands.units[KUBELET] = "failed"
        else:
            commands.units[KUBELET] = "active"
            start()

    commands.on_start[KUBELET] = starts
    del joined.site.api.nodes["edge-1"]
    assert joined.later(30) == 3
    assert "the update failed and was rolled back; the Node is Ready" in capsys.readouterr().out
    assert "edge-1" in joined.site.api.nodes, "the previous kubelet has registered it again"
    assert joined.current()["kubernetes"]["version"] == "1.34.4"
    blocked = joined.source()["blocked"]
    assert (blocked["configVersion"], blocked["retryAt"]) == (etag, None)
    status = status_of(machine.host)
    assert status["monitoring"]["status"] == "Blocked"
    assert status["monitoring"]["blockedVersion"] == etag
    count = restarts(joined)
    assert joined.later() == 0
    assert restarts(joined) == count
    commands.on_start[KUBELET] = start
    joined.arm.goal(orchestratorVersion="1.34.4", nodeLabels={"site": "lab-3"})
    assert joined.later() == 0
    assert joined.source()["blocked"] is None
    assert joined.trouble() == {}


# -- the Node is gone --------------------------------------------------------------------------------------


def test_a_node_that_was_deleted_is_registered_again(joined: Edge, capsys: Captured) -> None:
    del joined.site.api.nodes["edge-1"]
    before, source = restarts(joined), joined.source()
    assert joined.later(30) == 0
    assert "the Node is registered again" in capsys.readouterr().out
    assert joined.node["metadata"]["labels"]["kubernetes.azure.com/agentpool"] == "edge"
    assert restarts(joined) == before + 1
    assert joined.source() == source
    assert joined.arm.asked(LIST_DATA) == 0


def test_a_blocked_goal_does_not_keep_the_node_away(joined: Edge) -> None:
    etag = joined.arm.goal(orchestratorVersion="9.9.9")
    del joined.site.api.nodes["edge-1"]
    assert joined.later(30) == 3
    assert joined.source()["blocked"]["configVersion"] == etag
    assert joined.later(30) == 0
    assert "edge-1" in joined.site.api.nodes
    assert joined.source()["blocked"]["configVersion"] == etag


def test_a_node_that_does_not_come_back_is_tried_again_later(joined: Edge) -> None:
    start = joined.machine.commands.on_start.pop(KUBELET)
    del joined.site.api.nodes["edge-1"]
    count = restarts(joined)
    assert joined.later(30) == 3
    assert joined.trouble()["code"] == "FLEX-1502"
    assert restarts(joined) == count + 1
    assert joined.later(30) == 0
    assert restarts(joined) == count + 1
    joined.machine.commands.on_start[KUBELET] = start
    assert joined.later(130) == 0
    assert "edge-1" in joined.site.api.nodes
    assert joined.later(30) == 0
    assert joined.trouble() == {}


def test_the_timers_poll_hands_over(joined: Edge) -> None:
    del joined.site.api.nodes["edge-1"]
    before = joined.machine.snapshot(*DISK)
    assert joined.poll("--hand-over") == 0
    assert joined.machine.snapshot(*DISK) == before
    assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    joined.site.api.nodes["edge-1"] = a_node(labels={"site": "lab-1"})
    joined.arm.goal(nodeLabels={"site": "lab-2"})
    joined.machine.clock.time += 601
    assert joined.poll("--hand-over") == 0
    assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0, "the service asks again, and is not told to wait"
    assert joined.current()["node"]["labels"] == {"site": "lab-2"}


# -- leaving -----------------------------------------------------------------------------------------------


def deleted_by_aks(edge: Edge, *, machine: bool = True, taint: bool = True) -> None:
    if machine:
        edge.arm.machines.pop("edge-1")
        edge.arm.goal(name="edge-2", orchestratorVersion="1.34.4")
    if taint:
        edge.node["spec"]["taints"] = [TAINT]


def test_a_deleted_machine_leaves(joined: Edge, capsys: Captured) -> None:
    """Contradiction 1: AKS answers NotFound, without the envelope of the gateway."""
    deleted_by_aks(joined)
    joined.site.api.refuse["DELETE /api/v1/nodes"] = 403
    assert joined.later(30) == 0
    assert joined.trouble()["code"] == "FLEX-1116"
    assert joined.source()["deleting"] is True
    assert joined.is_node
    assert joined.later(5) == 0
    assert joined.is_node, "the second answer came too soon"
    del joined.site.api.nodes["edge-1"]  # AKS removes it later
    assert joined.later(30) == 0
    out = capsys.readouterr().out
    assert "deleted from its pool: it leaves the cluster" in out
    assert "left:" not in out
    assert not joined.is_node


def test_the_node_may_be_gone_before_the_machine(joined: Edge) -> None:
    deleted_by_aks(joined, machine=False)
    assert joined.later(30) == 0
    del joined.site.api.nodes["edge-1"]
    assert joined.later(30) == 0
    assert "edge-1" not in joined.site.api.nodes, "it does not register again while it is being deleted"
    deleted_by_aks(joined, taint=False)
    assert joined.later(30) == 0
    assert joined.is_node
    assert joined.later(30) == 0
    assert not joined.is_node


def test_the_last_machine_of_a_pool_leaves(joined: Edge) -> None:
    """Then the list is empty, and the pool itself has to answer; who may not read it is told so."""
    joined.arm.machines.pop("edge-1")
    joined.node["spec"]["taints"] = [TAINT]
    joined.arm.answers[f"GET {POOL}"] = aks.POOL_MISSING.at().sent(Answer)
    for _ in range(4):
        assert joined.later(60) == 0
    assert joined.is_node
    assert "its pool does not answer as it should (HTTP 404)" in joined.trouble()["message"]
    del joined.arm.answers[f"GET {POOL}"]
    joined.arm.reads_pool = False
    assert joined.later(301) == 0
    assert joined.later(30) == 0
    assert not joined.is_node


@pytest.mark.parametrize("answer", [aks.MACHINE_MISSING.at().sent(Answer), GATEWAYS_404])
def test_a_machine_on_a_later_page_stays(joined: Edge, answer: Answer) -> None:
    """Contradiction 12: one of Azure's servers says that it is gone, another one lists it on a later page."""
    joined.node["spec"]["taints"] = [TAINT]
    own = joined.arm.machines.pop("edge-1")
    for number in range(2, 7):
        joined.arm.goal(name=f"edge-{number}", orchestratorVersion="1.34.4")
    joined.arm.machines["edge-1"] = own
    joined.arm.answers[GET] = answer
    for _ in range(6):
        assert joined.later(60) == 0
    assert joined.is_node
    assert "does not list its machines" in joined.trouble()["message"]
    del joined.arm.machines["edge-1"]
    assert joined.later(301) == 0
    assert joined.later(30) == 0
    assert not joined.is_node


def test_a_missing_machine_alone_removes_nothing(joined: Edge) -> None:
    deleted_by_aks(joined, taint=False)
    for _ in range(10):
        assert joined.later(60) == 0
    assert joined.is_node
    assert joined.trouble()["code"] == "FLEX-1116"
    assert DELETING in joined.trouble()["message"]


def test_the_taint_alone_removes_nothing(joined: Edge) -> None:
    deleted_by_aks(joined, machine=False)
    for _ in range(10):
        assert joined.later(60) == 0
    assert joined.is_node
    assert joined.trouble() == {}
    joined.node["spec"]["taints"] = []
    assert joined.later(30) == 0
    assert "deleting" not in joined.source()


@pytest.mark.parametrize(
    "listing",
    [
        arm_error(403, "AuthorizationFailed"),
        arm_error(500, "InternalServerError"),
        Answer(b"<html>welcome"),
        answer_json({"value": [{"name": "edge-1"}]}),
        aks.POOL_MISSING.at().sent(Answer),
        aks.CLUSTER_MISSING_AT_GATEWAY.at().sent(Answer),
        answer_json({"value": [], "nextLink": "https://elsewhere.example/machines"}),
    ],
)
def test_a_pool_that_does_not_list_its_machines_removes_nothing(joined: Edge, listing: Answer) -> None:
    deleted_by_aks(joined)
    joined.arm.answers[f"GET {MACHINES}"] = listing
    for _ in range(6):
        assert joined.later(60) == 0
    assert joined.is_node
    assert "does not list its machines" in joined.trouble()["message"]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (arm_error(403, "AuthorizationFailed"), "FLEX-1103", f"role {ROLE} at the pool"),
        (arm_error(500, "InternalServerError"), "FLEX-1103", "HTTP 500"),
        (Answer(b"<html>", 404), "FLEX-1103", "HTTP 404"),
        (aks.MACHINE_OF_MISSING_POOL.at().sent(Answer), "FLEX-1103", "HTTP 404"),
        (aks.MACHINE_OF_MISSING_CLUSTER.at().sent(Answer), "FLEX-1103", "HTTP 404"),
        (aks.MACHINE_OF_MISSING_CLUSTER_AT_GATEWAY.at().sent(Answer), "FLEX-1103", "HTTP 404"),
        (aks.GROUP_MISSING.at().sent(Answer), "FLEX-1103", "HTTP 404"),
        (Answer(b"<html>welcome"), "FLEX-1111", "not the machine of this node"),
        (answer_json({"id": OWN, "properties": {"provisioningState": "Updating"}}), "FLEX-1111", "Updating"),
    ],
)
def test_a_failed_poll_is_recorded_once_and_the_node_stays(
    joined: Edge, answer: Answer, code: str, words: str
) -> None:
    joined.arm.answers[GET] = answer
    joined.node["spec"]["taints"] = [TAINT]
    before = joined.machine.snapshot("/etc", "/opt", "/usr")
    for _ in range(4):
        assert joined.later(30) == 0
    assert joined.machine.snapshot("/etc", "/opt", "/usr") == before
    assert joined.trouble()["code"] == code
    assert words in joined.trouble()["message"]
    written = joined.machine.snapshot("/var/lib")
    assert joined.later(15) == 0
    assert joined.machine.snapshot("/var/lib") == written
    del joined.arm.answers[GET]
    joined.node["spec"]["taints"] = []
    assert joined.later(301) == 0
    assert joined.later(301) == 0
    assert joined.trouble() == {}


def test_a_cut_line_changes_nothing(joined: Edge) -> None:
    url = joined.source()["url"].replace(joined.arm.server.url, "https://127.0.0.1:1")
    joined.machine.store.set_source({**joined.source(), "url": url})
    assert joined.later() == 0
    assert joined.trouble()["code"] == "FLEX-1103"
    assert joined.is_node


def test_an_api_server_that_does_not_answer_stops_a_change_until_it_does(joined: Edge) -> None:
    joined.arm.goal(nodeLabels={"site": "lab-2"})
    joined.site.api.refuse["GET /api/v1/nodes"] = 500
    assert joined.later() == 0
    assert joined.trouble()["code"] == "FLEX-1504"
    assert joined.current()["node"]["labels"] == {"site": "lab-1"}
    joined.site.api.refuse.clear()
    assert joined.later(30) == 0
    assert joined.current()["node"]["labels"] == {"site": "lab-2"}


# -- the certificate ---------------------------------------------------------------------------------------


def test_a_lost_certificate_is_replaced_by_fresh_bootstrap_data(joined: Edge, capsys: Captured) -> None:
    joined.machine.path(IDENTITY).unlink()
    fetched: list[int] = []
    start = joined.machine.commands.on_start[KUBELET]

    def starts() -> None:
        fetched.append(joined.arm.asked(LIST_DATA))
        assert TOKEN in joined.machine.text("/var/lib/kubelet/bootstrap-kubeconfig")
        start()

    joined.machine.commands.on_start[KUBELET] = starts
    assert joined.later(30) == 0
    assert "the kubelet has a new certificate" in capsys.readouterr().out
    assert fetched == [1], "fetched before anything was stopped"
    assert joined.machine.path(IDENTITY).exists()
    assert TOKEN not in joined.machine.text("/var/lib/kubelet/bootstrap-kubeconfig")
    assert "bootstrapToken" not in joined.current()["azure"]
    assert joined.later(30) == 0
    assert joined.arm.asked(LIST_DATA) == 1


def test_an_expired_certificate_is_replaced(joined: Edge, pki: Pki) -> None:
    """Ten years later. The API server does not know the old certificate any more."""
    start = joined.machine.commands.on_start[KUBELET]
    joined.machine.clock.time += 11 * 365 * 86400
    renewed: list[bool] = []
    joined.site.api.knows = lambda: bool(renewed)

    def starts() -> None:
        assert not joined.machine.path(IDENTITY).exists()
        renewed.append(True)
        start()

    joined.machine.commands.on_start[KUBELET] = starts
    assert joined.poll() == 0
    assert renewed == [True]
    assert joined.arm.asked(LIST_DATA) == 1


def test_without_bootstrap_data_nothing_is_stopped(joined: Edge) -> None:
    joined.machine.path(IDENTITY).unlink()
    joined.arm.answers[LIST_DATA] = arm_error(403, "AuthorizationFailed")
    count = restarts(joined)
    assert joined.later(30) == 3
    assert joined.trouble()["code"] == "FLEX-1114"
    assert restarts(joined) == count
    assert joined.later(30) == 0
    assert joined.arm.asked(LIST_DATA) == 1, "it is tried again later"
    del joined.arm.answers[LIST_DATA]
    assert joined.later(301) == 0
    assert joined.machine.path(IDENTITY).exists()
    assert joined.later(301) == 0
    assert joined.trouble() == {}


def test_a_damaged_document_is_replaced_by_the_applied_one(joined: Edge) -> None:
    joined.machine.put("/var/lib/aks-flex-node/current-config.json", "{", 0o600)
    assert joined.later(30) == 0
    assert joined.current() == joined.machine.store.applied_config()


def test_what_is_pushed_is_followed(edge: Edge) -> None:
    """The controller hands over a bundle, with the eTag as its version."""
    from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
        store_config,
        stored_config,
    )
    from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
        EVERYTHING,
        reconcile,
    )
    from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline

    assert edge.join() == 0
    pushed: dict[str, Any] = {**edge.current()}
    assert main(["unbootstrap"], edge.machine.host) == 0
    del edge.arm.machines["edge-1"]
    etag = edge.arm.goal(orchestratorVersion="1.34.4", maxPods=75, nodeLabels={"site": "lab-1"})
    pushed["azure"] = {**pushed["azure"], "bootstrapToken": {"token": TOKEN}}
    edge.machine.put("/etc/flexnode-secret", "first~secret", 0o600)
    store_config(edge.machine.host, Inline({"config": pushed, "configVersion": etag}), {})
    reconcile(stored_config(edge.machine.host), EVERYTHING)
    assert "bootstrapToken" not in edge.current()["azure"]
    assert (edge.source()["resource"], edge.source()["configVersion"]) == (OWN, etag)
    assert edge.poll() == 0
    edge.arm.goal(nodeLabels={"site": "lab-2"})
    assert edge.later() == 0
    assert edge.node["metadata"]["labels"]["site"] == "lab-2"
    again = {**pushed, "node": {**pushed["node"], "labels": {"site": "lab-2"}}}
    again["azure"] = {**again["azure"], "bootstrapToken": {"token": "<minted at apply>"}}
    obtained = store_config(
        edge.machine.host, Inline({"config": again, "configVersion": edge.source()["configVersion"]}), {}
    )
    assert not obtained.changed
