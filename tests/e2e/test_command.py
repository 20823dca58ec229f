# SPDX-License-Identifier: GPL-3.0-or-later
"""A day at the machine with the command alone: YAML, a health probe, logs, a support bundle, the agent."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import build_agent
from testbed import Testbed
from testbed.machine import Machine
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker

NAME = "by-hand"
PROGRAM, CONFIG, CA = "/srv/aks-flex-node.pyz", "/srv/node.yaml", "/srv/ca.pem"
PARSER = "/usr/lib/python3/dist-packages"  # where python3-yaml would be
LOG = "/var/log/aks-flex-node/agent.log"
PASSWORD = "a-pa55word-of-the-proxy"


@dataclass(frozen=True)
class Edge:
    """A machine, its document, and the state before anything was done."""

    machine: Machine
    document: dict[str, Any]
    fresh: str

    @property
    def token(self) -> str:
        return str(self.document["azure"]["bootstrapToken"]["token"])

    def run(self, *arguments: str, program: str = "aks-flex-node") -> tuple[int, str]:
        """Run the command on the machine; status, and everything that it printed."""
        argv = ["python3", PROGRAM, *arguments] if program == PROGRAM else [program, *arguments]
        done = self.machine.run(argv, check=False)
        return done.returncode, done.stdout + done.stderr

    def shell(self, script: str) -> str:
        return str(self.machine.run(["sh", "-c", script], check=False).stdout)


@pytest.fixture(scope="module")
def edge(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    (machine,) = machines((NAME, "debian12"))
    machine.copy_to(build_agent.build(tmp_path_factory.mktemp("dist")), PROGRAM)
    machine.copy_to(bed.ca_file, CA)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    # Nothing of the testbed is reached through it: everything is in `no`. But its password is a secret.
    document["proxy"] = {"http": f"http://edge:{PASSWORD}@127.0.0.1:9", "no": ["127.0.0.0/8", "10.0.0.0/8"]}
    machine.run(["tee", CONFIG], input=f"# our edge\n{yaml.safe_dump(document)}")
    yield Edge(machine, document, fleet.snapshot(machine))
    bed.unpublish(f"{NAME}.json")


def test_a_day_at_the_machine(bed: Testbed, edge: Edge) -> None:
    yaml_without_a_parser(edge)
    a_machine_that_can_not_join(edge)
    join_with_yaml(bed, edge)
    health_before_and_after_stopping_the_kubelet(edge)
    logs_tell_the_steps(edge)
    the_bundle_has_no_secret(edge)
    the_agent_follows_a_url(bed, edge)
    leaving_removes_the_log(bed, edge)


def yaml_without_a_parser(edge: Edge) -> None:
    """The machines of the testbed have none: the way out is shown. Then it is there, as from python3-yaml."""
    status, said = edge.run("join", "--config", CONFIG, program=PROGRAM)
    assert status == 1
    assert "FLEX-1102" in said
    assert "apt-get install python3-yaml" in said
    assert edge.token not in said
    files = {path.name: path.read_text() for path in Path(yaml.__file__).parent.glob("*.py")}
    edge.machine.run(["mkdir", "-p", f"{PARSER}/yaml"])
    for name, text in files.items():
        edge.machine.run(["tee", f"{PARSER}/yaml/{name}"], input=text)


def a_machine_that_can_not_join(edge: Edge) -> None:
    """Two things are really in the way: both are named, and nothing is touched."""
    edge.shell("setsid python3 -m http.server 10250 >/dev/null 2>&1 & echo $! > /run/listener.pid")
    edge.shell("mkdir -p /usr/lib/systemd/system; touch /usr/lib/systemd/system/docker.service")
    fleet.eventually(
        "the port is taken",
        lambda: ":10250" in edge.shell("cat /proc/net/tcp | grep -q :280A && echo :10250"),
    )
    status, said = edge.run("join", "--config", CONFIG, program=PROGRAM)
    edge.shell("kill $(cat /run/listener.pid); rm /run/listener.pid /usr/lib/systemd/system/docker.service")
    assert status == 1
    assert "FLEX-1310" in said
    for finding in ("port-in-use: ", "foreign-runtime: ", "join --skip ID"):
        assert finding in said
    assert fleet.snapshot(edge.machine) == edge.fresh


def join_with_yaml(bed: Testbed, edge: Edge) -> None:
    status, said = edge.run("join", "--config", CONFIG, program=PROGRAM)
    assert status == 0, said
    assert "this machine can join" in said
    assert f"{NAME}  Ready  v1.34.4" in said
    assert fleet.is_ready(fleet.node(bed, NAME))


def health_before_and_after_stopping_the_kubelet(edge: Edge) -> None:
    assert edge.run("health") == (0, "healthy\n")
    edge.machine.run(["systemctl", "stop", "kubelet"])
    assert edge.run("health") == (3, "not working: kubelet.service does not run\n")
    edge.machine.run(["systemctl", "stop", "containerd"])
    status, said = edge.run("health", "--json")
    assert (status, json.loads(said)["health"]) == (3, "not working")
    assert "containerd.service does not run; kubelet.service does not run" in said
    status, said = edge.run("update")  # repairs what was done by hand
    assert status == 0, said
    assert edge.run("health") == (0, "healthy\n")


def logs_tell_the_steps(edge: Edge) -> None:
    status, said = edge.run("logs", "--lines", "0")
    assert status == 0
    for step in (
        r"info +aks-flex-node join: begins \(version 0\.1\.0, process \d+\)",
        r"aks-flex-node join: done     fetch .*kubelet 1\.34\.4.* \(\d+\.\d s\)",
        r"aks-flex-node join: done     start containerd\.service, kubelet\.service \(\d+\.\d s\)",
        r"aks-flex-node join: done     create /etc/default/kubelet",
        r"aks-flex-node join: joined \(after \d+\.\d s\)",
        r"aks-flex-node update: repaired \(\d+ items?\) \(after \d+\.\d s\)",
    ):
        assert re.search(step, said), f"{step}\n{said}"
    assert edge.shell(f"stat -c '%a %U' {LOG} /var/log/aks-flex-node").split() == [
        "640",
        "root",
        "750",
        "root",
    ]
    journal = edge.run("logs", "--journal", "--lines", "0")[1]
    assert "aks-flex-node join: joined" in journal
    followed = edge.machine.run(
        ["timeout", "6", "aks-flex-node", "logs", "--follow", "--lines", "1"], check=False
    )
    assert followed.returncode == 124
    assert "aks-flex-node update: repaired" in followed.stdout
    for text in (said, journal):
        assert edge.token not in text
        assert PASSWORD not in text


def the_bundle_has_no_secret(edge: Edge) -> None:
    """The secrets are where they really are, and in the journal, where a careless program may put them."""
    for unit in ("aks-flex-node", "kubelet"):
        edge.machine.run(["systemd-cat", "-t", unit], input=f"token {edge.token} proxy {PASSWORD}\n")
    status, said = edge.run("debug", "--output", "/srv/bundle.tar.gz")
    assert status == 0, said
    assert edge.shell("stat -c %a /srv/bundle.tar.gz").strip() == "600"
    names = edge.shell("tar -tzf /srv/bundle.tar.gz")
    everything = edge.shell("tar -xzOf /srv/bundle.tar.gz | tr -d '\\000'")
    for part in (
        "status.json",
        "plan.txt",
        "journal/kubelet.service.txt",
        "units/files.txt",
        "log/agent.log",
    ):
        assert part in names, names
    for words in (
        "kubelet.service",
        "net.ipv4.ip_forward = 1",
        "Kubernetes v1.34.4",
        '"ready": true',
        "token <secret>",
    ):
        assert words in everything, words
    keys = edge.shell("grep -v -- ----- /var/lib/kubelet/pki/kubelet-client-current.pem | tail -n 3").split()
    for secret in (edge.token, PASSWORD, *keys):
        assert secret not in everything
    edge.shell("rm /srv/bundle.tar.gz")


def the_agent_follows_a_url(bed: Testbed, edge: Edge) -> None:
    assert edge.run("agent")[1].startswith("monitoring  off")
    followed = {**edge.document, "continuousMonitoring": True, "agent": {"logLevel": "debug"}}
    url = bed.publish(f"{NAME}.json", json.dumps({"config": followed, "configVersion": "1"}).encode())
    status, said = edge.run("update", "--config-url", url, "--ca-cert", CA, "--durable")
    assert status == 0, said
    status, said = edge.run("agent")
    assert status == 0, said
    lines = {line[:11].strip(): line[12:] for line in said.splitlines()}
    assert lines["monitoring"] == "aks-flex-node-poll.timer is active"
    assert lines["interval"] == "every 20 to 40 s after the previous poll"
    assert lines["source"].endswith("Ok")
    assert said.endswith("nothing new\n")
    assert edge.run("health") == (0, "healthy\n")
    bed.unpublish(f"{NAME}.json")  # the source is gone: the node works on, and the probe says so
    edge.run("poll")
    status, said = edge.run("health")
    assert status == 4, said
    assert "FLEX-1103" in said
    status, said = edge.run("poll", "--drift")
    assert status == 0, said


def leaving_removes_the_log(bed: Testbed, edge: Edge) -> None:
    status, said = edge.run("unbootstrap")
    assert status == 0, said
    assert "its log was removed with it" in said
    assert NAME not in fleet.node_names(bed)
    assert edge.shell("ls -d /var/log/aks-flex-node 2>/dev/null") == ""
    assert fleet.snapshot(edge.machine) == edge.fresh
    status, said = edge.run("logs", "--lines", "0", program=PROGRAM)
    assert status == 0
    left = [line for line in said.splitlines() if "aks-flex-node unbootstrap: " in line]
    assert any("done     stop kubelet" in line for line in left), said
    assert edge.token not in "".join(left)
