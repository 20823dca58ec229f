# SPDX-License-Identifier: GPL-3.0-or-later
"""One reason for what is wrong with a node, wherever one looks: on the machine, at the Node, in the fleet."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.updating import KUBELET, Document, Group, changed

NAME, AWAY = "watched-1", "watched-2"
COLLECTOR = "/var/lib/prometheus/node-exporter"  # of Debian's package
TEXTFILE = f"{COLLECTOR}/aks_flex_node.prom"
STATUS_FILE = "/var/lib/aks-flex-node/status.json"
ANNOTATION, CONDITION = "flexnode.aks.azure.com/status", "FlexNodeConfigured"
# The kubelet exits at once with an error about its own configuration file.
BROKEN = {"configOverrides": {"evictionHard": {"memory.available": "nonsense"}}}


@dataclass(frozen=True)
class Watched:
    """Two nodes of one inventory: one to which things happen, one that goes away."""

    group: Group
    machine: Machine
    away: Machine
    reports: Path

    @property
    def bed(self) -> Testbed:
        return self.group.bed

    def on_machine(self) -> dict[str, str]:
        """What the machine itself says: its file, its command, its metrics."""
        command = ["aks-flex-node", "status"]
        in_words = self.machine.run(command, check=False).stdout
        as_json = json.loads(self.machine.run([*command, "--json"], check=False).stdout)
        (shown,) = re.findall(r"^reason +(\S+)", in_words, re.MULTILINE)
        assert (shown == "-") == (as_json["reason"] == "NodeJoined"), "people read that nothing is wrong"
        return {
            "status.json": json.loads(self.machine.read(STATUS_FILE))["reason"],
            "status": as_json["reason"] if shown == "-" else shown,
            "status --json": as_json["reason"],
            "textfile": re.findall(r'reason="([^"]*)"', self.machine.read(TEXTFILE))[0],
        }

    def at_node(self) -> dict[str, str]:
        """What its Node says."""
        annotation, condition = self.node()
        return {"annotation": annotation["reason"], "condition": condition["reason"]}

    def node(self) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """Annotation and condition."""
        found = fleet.node(self.bed, NAME)
        (condition,) = (one for one in found["status"]["conditions"] if one["type"] == CONDITION)
        return json.loads(found["metadata"]["annotations"][ANNOTATION]), condition

    def in_fleet(self) -> tuple[dict[str, dict[str, str]], Play]:
        """What playbook and reports say of each machine."""
        page, data = self.reports / "fleet.html", self.reports / "fleet.json"
        run = self.group.play("status", self.group.document, "-e", f"flexnode_report={page}")
        self.group.play("status", self.group.document, "-e", f"flexnode_report={data}")
        rows = {one["host"]: one["reason"] for one in json.loads(data.read_text())["machines"]}
        table = run.output.partition("TASK [Show the status (")[2].partition("TASK [")[0]
        return {
            host: {
                "table": in_table(line(table, host), rows[host]),
                "report.html": on_page(page.read_text(), host),
                "report.json": rows[host],
            }
            for host in rows
        }, run

    def everywhere(self) -> tuple[set[str], Play]:
        """The reason of the machine, from everywhere; and the run of the playbook."""
        told, run = self.in_fleet()
        found = {**self.on_machine(), **self.at_node(), **told[NAME]}
        assert len(set(found.values())) == 1, found
        return set(found.values()), run


def in_table(words: list[str], reason: str) -> str:
    """The reason in a line of the table, which has none for a healthy node, nor a message."""
    if reason == "NodeJoined":
        assert words[-2:] == ["-", "-"], words
        return reason
    return next(word for word in words if word == reason)


def line(table: str, host: str) -> list[str]:
    """The words of a machine's line."""
    lines = (row.strip().removeprefix("- ").strip("'\"").split() for row in table.splitlines())
    (found,) = (words for words in lines if words[:1] == [host])
    return found


def on_page(page: str, host: str) -> str:
    """The reason that the page shows for a machine."""
    (found,) = re.findall(rf'<th scope="row" data-sort="{host}">.*?<code>(.*?)</code>', page, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def watched(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """Nodes that only report drift, on machines with node_exporter's directory."""
    directory = tmp_path_factory.mktemp("status")
    machine, away = machines((NAME, "debian12"), (AWAY, "ubuntu2404"))
    machine.run(["mkdir", "-p", COLLECTOR])
    sections: Document = {"drift": {"mode": "report"}, "upgrade": {"gateSeconds": 15}}
    document = changed(fleet.join_document(bed), **sections)
    group = Group.joined(bed, [machine, away], document, directory / "hosts.yml")
    return Watched(group, machine, away, directory)


def test_a_node_that_is_right(watched: Watched) -> None:
    reasons, run = watched.everywhere()
    assert reasons == {"NodeJoined"}
    assert run.status == 0, run.output
    annotation, condition = watched.node()
    assert condition["status"] == "True"
    assert (annotation["phase"], annotation["drift"]) == ("NodeJoined", 0)
    assert watched.machine.run(["aks-flex-node", "status"]).returncode == 0
    mode = watched.machine.run(["stat", "-c", "%a %U", TEXTFILE]).stdout.split()
    assert mode == ["644", "root"]


def test_a_change_that_was_rolled_back(watched: Watched) -> None:
    before = watched.node()[1]["lastTransitionTime"]
    run = watched.group.play("bootstrap", changed(watched.group.document, kubelet=BROKEN), "--limit", NAME)
    code, _message = updating.failure(run, NAME)
    reasons, shown = watched.everywhere()
    assert reasons == {code}
    assert shown.status != 0
    condition = watched.node()[1]
    assert condition["status"] == "False"
    assert "rolled back" in condition["message"]
    assert condition["lastTransitionTime"] > before
    assert fleet.is_ready(fleet.node(watched.bed, NAME)), "the kubelet's own conditions are not touched"
    fleet.succeeded(watched.group.play("bootstrap", watched.group.document))
    assert watched.everywhere()[0] == {"NodeJoined"}


def test_a_document_that_is_refused(watched: Watched) -> None:
    run = watched.group.play("bootstrap", changed(watched.group.document, node={"maxPods": 9999}))
    assert run.status != 0
    document = json.dumps(changed(watched.group.document, node={"maxPods": 9999}))
    watched.machine.run(["tee", "/srv/refused.json"], input=document)
    watched.machine.run(["chmod", "600", "/srv/refused.json"])
    done = watched.machine.run(["aks-flex-node", "update", "--config", "/srv/refused.json"], check=False)
    assert "FLEX-1101" in done.stderr
    reasons, shown = watched.everywhere()
    assert reasons == {"FLEX-1101"}
    assert shown.status != 0
    fleet.succeeded(watched.group.play("bootstrap", watched.group.document))
    assert watched.everywhere()[0] == {"NodeJoined"}


def test_a_kubelet_that_stopped(watched: Watched) -> None:
    """Before the Node shows it, and after: the cluster takes 40 s to notice."""
    watched.machine.run(["systemctl", "stop", KUBELET])
    watched.machine.run(["aks-flex-node", "poll", "--drift"], check=False)
    reasons, shown = watched.everywhere()
    assert reasons == {"FLEX-1501"}
    assert shown.status != 0
    assert "kubelet.service not running" in shown.output
    fleet.eventually(
        "a Node that is not Ready", lambda: not fleet.is_ready(fleet.node(watched.bed, NAME)), 120
    )
    assert watched.everywhere()[0] == {"FLEX-1501"}
    fleet.succeeded(watched.group.play("bootstrap", watched.group.document))
    assert watched.everywhere()[0] == {"NodeJoined"}


def test_a_machine_that_can_not_be_reached(watched: Watched) -> None:
    watched.away.stop()
    told, run = watched.in_fleet()
    assert set(told[AWAY].values()) == {"Unreachable"}
    assert set(told[NAME].values()) == {"NodeJoined"}
    assert run.status != 0
    assert re.search(rf"^{NAME} .* failed=0 ", run.output, re.MULTILINE)
    assert re.search(rf"^{AWAY} .* failed=1 ", run.output, re.MULTILINE)


def test_unbootstrap_leaves_no_metrics(watched: Watched) -> None:
    watched.machine.run(["tee", f"{COLLECTOR}/apt.prom"], input="apt_upgrades_pending 0\n")
    fleet.succeeded(watched.group.play("unbootstrap", watched.group.document, "--limit", NAME))
    assert watched.machine.run(["ls", "-A", COLLECTOR]).stdout.split() == ["apt.prom"]
