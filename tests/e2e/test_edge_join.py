# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine joins by itself: one file, one command, one address - no Ansible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import build_agent
from testbed import Testbed
from testbed.machine import Machine
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker

pytestmark = pytest.mark.smoke
NAME = "lonely"
PROGRAM = "/srv/aks-flex-node.pyz"
CA = "/srv/ca.pem"


@dataclass(frozen=True)
class Edge:
    """A machine with nothing on it but the program, and the address of its configuration."""

    machine: Machine
    url: str
    fresh: str

    def run(self, *arguments: str, program: str = "aks-flex-node") -> tuple[int, str]:
        """Run the command on the machine."""
        argv = ["python3", PROGRAM, *arguments] if program == PROGRAM else [program, *arguments]
        done = self.machine.run(argv, check=False)
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def edge(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    (machine,) = machines((NAME, "debian12"))
    assert machine.run(["sh", "-c", "command -v ansible"], check=False).returncode != 0
    fresh = fleet.snapshot(machine)
    machine.copy_to(build_agent.build(tmp_path_factory.mktemp("dist")), PROGRAM)
    machine.copy_to(bed.ca_file, CA)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    bundle = json.dumps({"config": document, "configVersion": "1708123456"})
    yield Edge(machine, bed.publish(f"{NAME}.json", bundle.encode()), fresh)
    bed.unpublish(f"{NAME}.json")


def test_untrusted_address_is_refused(edge: Edge) -> None:
    status, said = edge.run("join", "--config-url", edge.url, program=PROGRAM)
    assert status == 1
    assert "FLEX-1103" in said
    assert "--ca-cert" in said
    assert fleet.snapshot(edge.machine) == edge.fresh


def test_wrong_document_is_refused_with_every_problem(edge: Edge) -> None:
    wrong = {"nodes": {}, "kubernetes": {"version": "latest"}, "node": {"maxPods": 0}}
    edge.machine.run(["tee", "/srv/wrong.json"], input=json.dumps(wrong))
    status, said = edge.run("join", "--config", "/srv/wrong.json", program=PROGRAM)
    assert status == 1
    for problem in ("did you mean node?", "kubernetes.version", "node.maxPods", "targetCluster.resourceId"):
        assert problem in said
    assert fleet.snapshot(edge.machine) == edge.fresh


def test_plan_tells_and_changes_nothing(edge: Edge) -> None:
    status, said = edge.run("plan", "--config-url", edge.url, "--ca-cert", CA, program=PROGRAM)
    assert status == 0, said
    assert "start kubelet.service" in said
    assert fleet.snapshot(edge.machine) == edge.fresh


def test_join(bed: Testbed, edge: Edge) -> None:
    status, said = edge.run("join", "--config-url", edge.url, "--ca-cert", CA, program=PROGRAM)
    assert status == 0, said
    assert f"{NAME}  Ready  v1.34.4" in said
    seen = fleet.node(bed, NAME)
    assert fleet.is_ready(seen)
    assert seen["status"]["nodeInfo"]["kubeletVersion"] == "v1.34.4"
    assert edge.run("version") == (0, "0.1.0\n")


def test_join_again_changes_nothing(edge: Edge) -> None:
    before = fleet.main_pids(edge.machine), fleet.snapshot(edge.machine)
    status, said = edge.run("join", "--config-url", edge.url, "--ca-cert", CA)
    assert status == 0, said
    assert "unchanged" in said
    assert (fleet.main_pids(edge.machine), fleet.snapshot(edge.machine)) == before
    assert edge.run("plan") == (0, "nothing to do\n")


def test_status_names_what_drifted(edge: Edge) -> None:
    status, said = edge.run("status", "--json")
    document = json.loads(said)
    assert (status, document["node"]["status"], document["drift"]) == (0, "Ready", [])
    assert document["config"] == {"version": "1708123456", "appliedVersion": "1708123456"}
    edge.machine.run(["chmod", "0600", "/etc/default/kubelet"])
    status, said = edge.run("status")
    assert status == 3
    assert "/etc/default/kubelet" in said
    status, said = edge.run("join", "--config-url", edge.url, "--ca-cert", CA)
    assert status == 0, said
    assert edge.run("status")[0] == 0


def test_the_playbook_finds_nothing_left_to_do(bed: Testbed, edge: Edge, tmp_path: Path) -> None:
    """One engine: what the command made, the playbook takes for its own."""
    inventory = fleet.write_inventory(
        bed,
        [edge.machine],
        tmp_path / "hosts.yml",
        flexnode_config_source="url",
        flexnode_config_url=edge.url,
        flexnode_config_url_ca_cert=bed.ca_pem,
    )
    run = fleet.succeeded(fleet.play("bootstrap", inventory))
    assert run.changed(NAME) == 0, run.output


def test_unbootstrap(bed: Testbed, edge: Edge) -> None:
    status, said = edge.run("unbootstrap")
    assert status == 0, said
    assert NAME not in fleet.node_names(bed)
    edge.machine.run(["rm", "/srv/wrong.json"], check=False)
    assert fleet.snapshot(edge.machine) == edge.fresh
    status, said = edge.run("reset", program=PROGRAM)
    assert (status, said) == (0, "this machine was not a node\n")
