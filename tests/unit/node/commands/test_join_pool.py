# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""join --cluster --pool --identity: a machine joins a FlexNodes pool by itself; Azure is behind real TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import ROLE
from tests.contract.recorded import Recorded, aks
from tests.unit.node.config.test_samples import CLUSTER
from tests.unit.node.fake_arm import arm_error
from tests.unit.node.fake_pool import GET, LIST_DATA, OWN, POOL, PUT, Edge, an_edge
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, answer_json
from tests.unit.node.sites import CONFIG, TOKEN

Captured = pytest.CaptureFixture[str]
FORBIDDEN = arm_error(403, "AuthorizationFailed", "does not have authorization to perform action")


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    with an_edge(debian, pki, tmp_path, monkeypatch) as made:
        yield made


def files_with(machine: Machine, text: str) -> list[str]:
    """Every file of the machine that has a text."""
    return [
        str(place.relative_to(machine.root))
        for place in sorted(machine.root.rglob("*"))
        if place.is_file() and not place.is_symlink() and text.encode() in place.read_bytes()
    ]


def test_a_machine_of_an_empty_pool(edge: Edge, capsys: Captured) -> None:
    assert edge.join() == 0
    out = capsys.readouterr().out
    assert "create machine edge-1" in out
    assert "edge-1  Ready  v1.34.4" in out
    assert edge.arm.asked(LIST_DATA) == 1
    assert edge.arm.bodies(PUT) == [
        {
            "properties": {
                "kubernetes": {
                    "orchestratorVersion": "1.34.4",
                    "maxPods": 75,
                    "nodeLabels": {"site": "lab-1"},
                }
            }
        }
    ]
    (put,) = [one for one in edge.arm.server.requests if one.method == "PUT"]
    assert put.headers["If-None-Match"] == "*"
    assert "api-version=2026-05-02-preview" in put.path
    labels = edge.node["metadata"]["labels"]
    assert {key.rpartition("/")[2]: labels[key] for key in labels if "azure" in key} == {
        "managed": "false",
        "agentpool": "edge",
        "mode": "user",
        "nodepool-type": "FlexNodes",
    }
    assert labels["site"] == "lab-1"
    assert '"maxPods": 75' in edge.machine.text(CONFIG)
    source = edge.source()
    assert (source["resource"], source["configVersion"], source["settled"]) == (OWN, "7b6f2f0c-0001", True)
    assert edge.machine.commands.units["aks-flex-node-poll.timer"] == "active"
    assert edge.current()["azure"]["servicePrincipal"]["clientSecretFile"] == str(edge.secret)


def test_the_token_of_the_pool_is_on_the_machine_for_the_join_only(edge: Edge) -> None:
    seen = []
    start = edge.machine.commands.on_start["kubelet.service"]

    def starts() -> None:
        seen.append(files_with(edge.machine, TOKEN))
        start()

    edge.machine.commands.on_start["kubelet.service"] = starts
    assert edge.join() == 0
    assert "var/lib/kubelet/bootstrap-kubeconfig" in seen[0]
    assert files_with(edge.machine, TOKEN) == []


def test_a_second_join_changes_nothing(edge: Edge, capsys: Captured) -> None:
    assert edge.join() == 0
    assert edge.poll() == 0
    before = edge.machine.snapshot("/etc", "/opt", "/usr", "/var/lib")
    starts = edge.machine.commands.times("systemctl", "restart")
    capsys.readouterr()
    assert edge.join() == 0
    assert "unchanged" in capsys.readouterr().out
    assert edge.machine.snapshot("/etc", "/opt", "/usr", "/var/lib") == before
    assert edge.arm.asked(PUT) == 1
    assert edge.machine.commands.times("systemctl", "restart") == starts


def test_a_machine_that_was_created_before_is_taken_over_with_its_goal(edge: Edge) -> None:
    edge.arm.goal(
        orchestratorVersion="1.34.4", maxPods=61, nodeLabels={"rack": "7"}, nodeTaints=["a=b:NoSchedule"]
    )
    assert edge.join() == 0
    assert edge.arm.asked(PUT) == 0
    assert '"maxPods": 61' in edge.machine.text(CONFIG)
    document = edge.current()
    assert document["node"]["labels"] == {"rack": "7"}
    assert document["node"]["taints"] == ["a=b:NoSchedule"]


def test_explicit_settings_that_differ_go_to_azure(edge: Edge, capsys: Captured) -> None:
    etag = edge.arm.goal(orchestratorVersion="1.34.4", maxPods=75, nodeLabels={"rack": "7"})
    edge.settings({"node": {"labels": {"site": "lab-2"}}})
    assert edge.join() == 0
    assert "update machine edge-1: label site=lab-2, remove label rack" in capsys.readouterr().out
    (put,) = [one for one in edge.arm.server.requests if one.method == "PUT"]
    assert put.headers["If-Match"] == f'"{etag}"'
    assert put.json["properties"]["kubernetes"]["nodeLabels"] == {"site": "lab-2"}, "and not rack any more"
    assert edge.node["metadata"]["labels"]["site"] == "lab-2"
    assert edge.source()["configVersion"] != etag


def test_max_pods_of_an_existing_machine_is_an_error_that_says_recreate(edge: Edge, capsys: Captured) -> None:
    edge.arm.goal(orchestratorVersion="1.34.4", maxPods=75)
    edge.settings({"node": {"maxPods": 50}})
    assert edge.join() == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1112")
    assert "recreate the machine" in error
    assert edge.arm.asked(PUT) == 0
    assert not edge.is_node


def test_a_machine_that_someone_else_changes_meanwhile_is_read_again(edge: Edge) -> None:
    edge.arm.goal(orchestratorVersion="1.34.4", maxPods=75)
    edge.settings({"node": {"labels": {"site": "lab-2"}}})
    edge.arm.meanwhile = [{"nodeTaints": ["a=b:NoSchedule"]}]
    assert edge.join() == 0
    first, second = (body["properties"]["kubernetes"] for body in edge.arm.bodies(PUT))
    assert "nodeTaints" not in first
    assert (second["nodeLabels"], second["nodeTaints"]) == ({"site": "lab-2"}, ["a=b:NoSchedule"])


def test_a_machine_that_is_changed_again_and_again_is_an_error(edge: Edge, capsys: Captured) -> None:
    edge.arm.meanwhile = [{"orchestratorVersion": "1.34.4", "nodeLabels": {"n": str(n)}} for n in range(9)]
    edge.settings({"node": {"labels": {"site": "lab-2"}}})
    assert edge.join() == 1
    assert capsys.readouterr().err.startswith("FLEX-1115")
    assert edge.arm.asked(PUT) == 2
    assert not edge.is_node


def test_a_put_that_takes_its_time_is_waited_for(edge: Edge) -> None:
    edge.arm.long_running = True
    assert edge.join() == 0
    assert edge.arm.asked(GET) == 2


def test_a_machine_that_azure_failed_to_write_is_written_again(edge: Edge, capsys: Captured) -> None:
    etag = edge.arm.goal(orchestratorVersion="1.34.4", maxPods=75, nodeLabels={"site": "lab-1"})
    edge.arm.state = "Failed"
    failed = answer_json(edge.arm.shown("edge-1"))
    edge.arm.state, edge.arm.next[GET] = "Succeeded", [failed]
    assert edge.join() == 0
    assert "update machine edge-1: its last change failed" in capsys.readouterr().out
    (put,) = [one for one in edge.arm.server.requests if one.method == "PUT"]
    assert put.headers["If-Match"] == f'"{etag}"'


def test_throttling_is_obeyed(edge: Edge, capsys: Captured) -> None:
    busy = Answer(b"{}", 429, {"Retry-After": "17"})
    edge.arm.next = {LIST_DATA: [busy, busy], GET: [busy]}
    assert edge.join() == 0
    assert len([nap for nap in edge.machine.clock.naps if 17 <= nap <= 20]) == 3
    assert "too many requests" in capsys.readouterr().out


def test_another_operation_on_the_pool_is_waited_for(edge: Edge, capsys: Captured) -> None:
    busy = arm_error(409, "OperationNotAllowed", "another operation is in progress")
    edge.arm.next = {PUT: [busy, aks.ANOTHER_OPERATION.at().sent(Answer)]}
    assert edge.join() == 0
    assert "waiting for another operation on the pool" in capsys.readouterr().out
    assert main(["unbootstrap"], edge.machine.host) == 0
    edge.arm.answers[PUT] = busy
    edge.arm.machines.clear()
    assert edge.join() == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1111")
    assert "another operation is in progress" in error


def test_what_a_policy_forbids_is_not_waited_for(edge: Edge, capsys: Captured) -> None:
    edge.arm.answers[PUT] = aks.POLICY.at().sent(Answer)
    assert edge.join() == 1
    assert "is blocked by node disruption policy" in capsys.readouterr().err
    assert edge.arm.asked(PUT) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (aks.MACHINE_OF_MISSING_POOL, "the pool of this machine was not found in Azure"),
        (aks.MACHINE_OF_MISSING_CLUSTER, "the cluster of this machine was not found in Azure"),
        (aks.MACHINE_OF_MISSING_CLUSTER_AT_GATEWAY, "the cluster of this machine was not found in Azure"),
        (aks.GROUP_MISSING, "the group or cluster of this machine was not found in Azure"),
    ],
)
def test_a_machine_is_created_only_in_a_pool_that_exists(
    edge: Edge, capsys: Captured, answer: Recorded, words: str
) -> None:
    edge.arm.answers[GET] = answer.at().sent(Answer)
    assert edge.join() == 1
    assert words in capsys.readouterr().err
    assert edge.arm.asked(PUT) == 0


def test_throttling_that_does_not_end_is_an_error(edge: Edge, capsys: Captured) -> None:
    edge.arm.answers[LIST_DATA] = Answer(b"{}", 429, {"Retry-After": "170"})
    assert edge.join() == 1
    assert "HTTP 429" in capsys.readouterr().err
    assert 1700 < sum(edge.machine.clock.naps) < 2200


def test_throttling_for_longer_than_a_join_may_wait_is_an_error_at_once(edge: Edge) -> None:
    edge.arm.answers[LIST_DATA] = Answer(b"{}", 429, {"Retry-After": "7200"})
    assert edge.join() == 1
    assert (edge.arm.asked(LIST_DATA), sum(edge.machine.clock.naps)) == (1, 0)


def test_a_role_that_spreads_is_waited_for_and_named(edge: Edge, capsys: Captured) -> None:
    edge.arm.next = {LIST_DATA: [FORBIDDEN] * 6}
    assert edge.join() == 0
    out = capsys.readouterr().out
    line = f"az role assignment create --assignee-object-id {edge.arm.oid}"
    assert line in out
    assert f"--role {ROLE} --scope {POOL}" in out
    assert out.count(line) < 6


def test_a_role_that_is_never_assigned_is_an_error_with_the_line_to_type(
    edge: Edge, capsys: Captured
) -> None:
    """FLEX-1114."""
    edge.arm.answers[LIST_DATA] = FORBIDDEN
    assert edge.join() == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1114")
    assert f"--role {ROLE} --scope {POOL}" in error
    assert 800 < sum(edge.machine.clock.naps) < 1100
    assert not edge.is_node


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (arm_error(404, "ResourceNotFound", "edge was not found"), "FLEX-1113", "--vm-set-type FlexNodes"),
        (arm_error(400, "BadRequest", "not a FlexNodes pool"), "FLEX-1113", "not a FlexNodes pool"),
        (
            answer_json({"code": "BadRequest", "message": "as AKS itself says it"}, 400),
            "FLEX-1113",
            "as AKS itself",
        ),
        (Answer(b"<html>", 200), "FLEX-1103", "a proxy or a portal"),
        (arm_error(500, "InternalServerError"), "FLEX-1103", "HTTP 500"),
        (Answer(b"", 302, {"Location": "https://elsewhere.test/"}), "FLEX-1103", "not followed"),
    ],
)
def test_answers_that_are_no_bootstrap_data(
    edge: Edge, capsys: Captured, answer: Answer, code: str, words: str
) -> None:
    edge.arm.answers[LIST_DATA] = answer
    assert edge.join() == 1
    error = capsys.readouterr().err
    assert error.startswith(code)
    assert words in error
    assert edge.arm.asked(PUT) == 0


def test_an_answer_without_an_end_is_refused(edge: Edge, capsys: Captured) -> None:
    edge.arm.answers[LIST_DATA] = Answer(b'{"a": "' + b"x" * (17 << 20))
    assert edge.join() == 1
    assert "larger than 16 MiB" in capsys.readouterr().err


def test_unknown_fields_are_noted_and_missing_ones_named(edge: Edge, capsys: Captured) -> None:
    edge.arm.data["bootstrap"] = {"ociImage": "x"}
    del edge.arm.data["node"]["kubelet"]["clusterFQDN"]
    assert edge.join() == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1113")
    assert "node.kubelet.clusterFQDN is missing" in error
    edge.arm.data["node"]["kubelet"]["clusterFQDN"] = edge.site.document["node"]["kubelet"]["serverURL"]
    assert edge.join() == 0
    assert "fields that are not used: bootstrap" in capsys.readouterr().err


def test_a_machine_that_can_not_join_creates_nothing_in_azure(edge: Edge, capsys: Captured) -> None:
    edge.machine.path("/usr/bin/mount").unlink()
    assert edge.join() == 1
    assert capsys.readouterr().err.startswith("FLEX-1310")
    assert edge.arm.asked(LIST_DATA) == edge.arm.asked(PUT) == 0


def test_a_name_that_no_machine_can_have_is_refused_before_any_call(edge: Edge, capsys: Captured) -> None:
    edge.settings({"agent": {"nodeName": "edge-1.lab.test"}})
    assert edge.join() == 1
    assert "agent.nodeName" in capsys.readouterr().err
    edge.settings({"agent": None})
    edge.machine.put("/proc/sys/kernel/hostname", "edge-1.lab.test\n")
    assert edge.join() == 1
    assert "agent.nodeName" in capsys.readouterr().err
    assert edge.arm.server.requests == []


def test_a_pool_of_another_cluster_in_the_file_is_refused(edge: Edge, capsys: Captured) -> None:
    edge.settings({"azure": {"targetAgentPoolName": "other"}})
    assert edge.join() == 1
    assert "another cluster or pool" in capsys.readouterr().err


def test_preflight_asks_and_creates_nothing(edge: Edge, capsys: Captured) -> None:
    assert main(["preflight", *edge.arguments(), "--stage", "host", "--json"], edge.machine.host) == 0
    assert edge.arm.asked(LIST_DATA) == 1
    assert edge.arm.asked(PUT) == 0
    capsys.readouterr()
    edge.arm.answers[LIST_DATA] = FORBIDDEN
    assert main(["preflight", *edge.arguments(), "--stage", "host", "--json"], edge.machine.host) == 1
    found = json.loads(capsys.readouterr().out)
    (wrong,) = [one for one in found["findings"] if one["id"] == "configuration-source"]
    assert f"--role {ROLE} --scope {POOL}" in wrong["fix"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "--cluster, --pool and --identity"),
        (["--pool", "edge"], "--pool needs --cluster and --identity"),
        (["--pool", "edge", "--cluster", CLUSTER], "needs --identity"),
        (["--config", "x", "--client-id", "y"], "describe --identity"),
        (
            ["--pool", "p", "--cluster", CLUSTER, "--identity", "arc", "--config-url", "https://x"],
            "two sources",
        ),
        (
            ["--pool", "p", "--cluster", CLUSTER, "--identity", "arc", "--client-secret-file", "/x"],
            "servicePrincipal",
        ),
    ],
)
def test_a_command_line_that_is_not_complete(
    debian: Machine, capsys: Captured, arguments: list[str], words: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["join", *arguments], debian.host)
    assert caught.value.code == 2
    assert words in capsys.readouterr().err


def test_leaving_says_that_the_machine_stays_in_azure_and_how_to_delete_it(
    edge: Edge, capsys: Captured
) -> None:
    assert edge.join() == 0
    capsys.readouterr()
    assert main(["unbootstrap"], edge.machine.host) == 0
    assert (
        "az aks nodepool delete-machines --resource-group rg --cluster-name plant --name edge "
        "--machine-names edge-1"
    ) in capsys.readouterr().out
    assert not edge.is_node
    assert edge.arm.machines.keys() == {"edge-1"}


def test_a_lost_certificate_needs_a_new_token_and_says_so(edge: Edge, capsys: Captured) -> None:
    """FLEX-1503: the stored document has no token any more; join fetches one."""
    assert edge.join() == 0
    edge.machine.path("/var/lib/kubelet/pki/kubelet-client-current.pem").unlink()
    assert main(["update"], edge.machine.host) == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1503")
    assert "aks-flex-node join --cluster ID --pool edge" in error
    assert edge.join() == 0
    assert files_with(edge.machine, TOKEN) == []
