# SPDX-License-Identifier: GPL-3.0-or-later
"""Five nodes that follow a URL get new software one at a time, the canary first, and stop if it is bad.

Down is what an outsider sees: a Node that is missing, not Ready or cordoned (every node drains itself here),
and a kubelet that does not run, by the machine's own journal.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import ROOT
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.following import TIMER, journal, scale, state, status, unscale
from tests.e2e.watch import Watch

OLD, NEW, BAD = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES, versions.KUBELET_EXITS
NAMES = tuple(f"roll-{number}" for number in range(1, 6))
CANARY, REST = NAMES[2], tuple(name for name in NAMES if name != NAMES[2])
PLATFORMS = ("debian12", "ubuntu2204", "debian13", "ubuntu2404", "debian12")
RIGHTS = ROOT / "docs/examples/rollout.yaml"
SOAK = 10  # seconds
UPGRADE = {"maxUnavailable": 1, "soakSeconds": SOAK, "drain": "always", "waitSeconds": 600}
STILL = 25.0  # seconds in which several polls would have moved something
LONG = 420.0


@dataclass
class Fleet:
    """The five, and the one who writes their configurations."""

    bed: Testbed
    machines: Sequence[Machine]
    directory: Path
    document: dict[str, Any] = field(default_factory=dict)
    version: int = 0

    def publish(self, **kubelet: Any) -> dict[str, str]:
        """A new version of all documents, at the same time; the URL of each machine."""
        self.version += 1
        urls = {}
        for machine in self.machines:
            labels = {"aks.flexnode/ring": "canary"} if machine.name == CANARY else {}
            node = {"labels": labels, "kubelet": {**self.document["node"]["kubelet"], **kubelet}}
            made = updating.changed(
                self.document, cni={"podCIDR": machine.pod_cidr}, node=node, upgrade=UPGRADE
            )
            bundle = {"config": {**made, "continuousMonitoring": True}, "configVersion": str(self.version)}
            urls[machine.name] = self.bed.publish(f"{machine.name}.json", json.dumps(bundle).encode())
        return urls

    def wants(self, version: str, **kubelet: Any) -> dict[str, str]:
        """All documents ask for this version of Kubernetes."""
        self.document = updating.with_versions(self.bed, self.document, kubernetes=version)
        return self.publish(**kubelet)

    def inventory(self, urls: dict[str, str]) -> Path:
        return fleet.write_inventory(
            self.bed,
            self.machines,
            self.directory / "hosts.yml",
            flexnode_config_source="url",
            flexnode_config_url_durable=True,
            flexnode_config_url_ca_cert=self.bed.ca_pem,
            flexnode_kubeconfig=str(self.bed.cluster.kubeconfig),
            flexnode_config_url=f"{{{{ {json.dumps(urls)}[inventory_hostname] }}}}",
        )

    def all_have(self, version: str, seconds: float = LONG) -> None:
        def done() -> bool:
            return all(self.has(machine, version) for machine in self.machines)

        fleet.eventually(f"all nodes at {version}, configuration {self.version}", done, seconds)

    def has(self, machine: Machine, version: str) -> bool:
        """What runs, what the API server says, and what the machine says that it applied."""
        found = fleet.node(self.bed, machine.name)
        return (
            found["status"]["nodeInfo"]["kubeletVersion"] == f"v{version}"
            and fleet.is_ready(found)
            and not found["spec"].get("unschedulable")
            and state(machine, "state.json").get("appliedVersion") == str(self.version)
        )

    def pids(self) -> dict[str, dict[str, str]]:
        return {machine.name: fleet.main_pids(machine) for machine in self.machines}

    def record(self) -> dict[str, Any]:
        """The record of the cluster, as an administrator reads it."""
        place = ("configmap", "flexnode-rollout", "-n", "kube-system")
        text = self.bed.cluster.kubectl("get", *place, "-o", r"jsonpath={.data.rollout\.json}")
        found: dict[str, Any] = json.loads(text)
        return found

    def outages(self, since: float) -> list[tuple[float, float, str]]:
        """When the kubelet of each machine did not run, by its journal: stopped, started, the machine."""
        found = []
        for machine in self.machines:
            lines = machine.run(
                [
                    "journalctl",
                    "--unit=kubelet.service",
                    "--identifier=systemd",
                    "--output=json",
                    f"--since=@{since:.0f}",
                ]
            ).stdout.splitlines()
            stopped = 0.0
            for event in map(json.loads, lines):
                at, text = int(event["__REALTIME_TIMESTAMP"]) / 1e6, str(event["MESSAGE"])
                if text.startswith("Stopping"):
                    stopped = at
                if text.startswith("Started") and stopped:
                    found.append((stopped, at, machine.name))
                    stopped = 0.0
        return sorted(found)


def apart(outages: Sequence[tuple[float, float, str]]) -> bool:
    """Whether each outage ended before the next began."""
    return all(ended <= begins for (_, ended, _), (begins, _, _) in pairwise(outages))


def rollout(bed: Testbed, directory: Path, **options: Any) -> dict[str, Any]:
    """Module flexnode_rollout, as an administrator runs it."""
    play = [
        {
            "name": "Rollout",
            "hosts": "localhost",
            "gather_facts": False,
            "tasks": [
                {
                    "name": "Rollout",
                    "aks.flexnode.flexnode_rollout": {
                        "kubeconfig": str(bed.cluster.kubeconfig),
                        **options,
                    },
                    "register": "found",
                },
                {
                    "name": "Keep the answer",
                    "ansible.builtin.copy": {
                        "content": "{{ found | to_json }}",
                        "dest": str(directory / "answer"),
                        "mode": "0600",
                    },
                },
            ],
        }
    ]
    book = directory / "rollout.yml"
    book.write_text(json.dumps(play))
    interpreter = f"ansible_python_interpreter={sys.executable}"
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible-playbook"),
            "-i",
            "localhost,",
            "-c",
            "local",
            "-e",
            interpreter,
            str(book),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads((directory / "answer").read_text())
    return found


@pytest.fixture(scope="module")
def five(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Five nodes with the old version. The first part of the record is their registration."""
    bed.cluster.kubectl("delete", "configmap", "flexnode-rollout", "-n", "kube-system", "--ignore-not-found")
    bed.cluster.kubectl("apply", "-f", str(RIGHTS))
    made = machines(*zip(NAMES, PLATFORMS, strict=True))
    found = Fleet(bed, made, tmp_path_factory.mktemp("rollout"), fleet.join_document(bed))
    fleet.succeeded(fleet.play("bootstrap", found.inventory(found.wants(OLD))))
    for machine in made:
        scale(machine)
    yield found
    for machine in made:
        unscale(machine)
        bed.unpublish(f"{machine.name}.json")
    bed.cluster.kubectl("delete", "-f", str(RIGHTS), "--ignore-not-found")


def test_joined_nodes_are_registered(five: Fleet) -> None:
    nodes = five.record()["nodes"]
    assert {name: one["ring"] for name, one in nodes.items()} == {
        **dict.fromkeys(REST, ""),
        CANARY: "canary",
    }
    assert len({one["software"] for one in nodes.values()}) == 1, "pod ranges and labels make no difference"


def test_an_idle_poll_loads_nothing_of_rollouts(five: Fleet) -> None:
    """It runs every 30 seconds: what only a change needs must not cost anything."""
    machine = five.machines[0]
    command = machine.run(["readlink", "--canonicalize", "/usr/local/bin/aks-flex-node"]).stdout.strip()
    done = machine.run(["python3", "-X", "importtime", command, "poll", "--hand-over"])
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "flexnode.follow.tick" in loaded
    assert not [name for name in loaded if name.startswith(("flexnode.rollout", "flexnode.pull"))]


def test_nobody_moves_without_the_record(five: Fleet) -> None:
    """The right to read it is removed for real: each node waits, and says why."""
    pids = five.pids()
    five.bed.cluster.kubectl("delete", "rolebinding", "flexnode-rollout", "-n", "kube-system")
    five.wants(NEW)

    def all_wait() -> bool:
        said = [status(machine) for machine in five.machines]
        return all(one["monitoring"]["status"] == "Waiting" for one in said)

    fleet.eventually("all nodes wait", all_wait, 180)
    time.sleep(STILL)
    assert five.pids() == pids
    for machine in five.machines:
        said = status(machine)
        assert said["reason"] == "FLEX-1521"
        assert "forbidden" in said["message"]
        assert said["node"]["ready"]
        assert said["node"]["kubeletVersion"] == OLD
        said_once = f"configuration {five.version} waits: FLEX-1521"
        assert journal(machine).count(said_once) == 1, "whatever the number of polls"


def test_one_at_a_time_the_canary_first(five: Fleet) -> None:
    since = time.time()
    five.wants(NEW)
    with Watch.of(five.bed, NAMES) as watch:
        five.bed.cluster.kubectl("apply", "-f", str(RIGHTS))
        five.all_have(NEW)
    print(f"{len(watch.down)} changes of Nodes; order {watch.order}")
    assert max(map(len, watch.down)) == 1, [names for names in watch.down if len(names) > 1]
    assert watch.order[0] == CANARY
    assert set(watch.order) == set(NAMES), "each one was seen"
    outages = five.outages(since)
    assert {name for _, _, name in outages} == set(NAMES)
    assert apart(outages), outages
    record = five.record()
    assert record["holders"] == {}
    (newest,) = [one for one in record["rollouts"].values() if NEW in one["what"]]
    assert (newest["what"], newest["done"]["canary"]["nodes"]) == (f"kubernetes {OLD} -> {NEW}", 1)
    assert newest["done"][""]["nodes"] == 4
    canary = next(ended for _, ended, name in outages if name == CANARY)
    others = min(begins for begins, _, name in outages if name != CANARY)
    assert others - canary >= SOAK


def test_a_bad_version_stops_at_the_canary(five: Fleet) -> None:
    before = five.pids()
    five.wants(BAD)
    with Watch.of(five.bed, NAMES) as watch:

        def stopped() -> bool:
            said = {machine.name: status(machine) for machine in five.machines}
            return said[CANARY]["monitoring"]["status"] == "Blocked" and all(
                said[name]["reason"] == "FLEX-1523" for name in REST
            )

        fleet.eventually("the stop", stopped, LONG)
        time.sleep(STILL)
    assert watch.order == [CANARY], "it tried, and no other did"
    after = five.pids()
    assert {name: after[name] for name in REST} == {name: before[name] for name in REST}, "untouched"
    for machine in five.machines:
        assert fleet.node(five.bed, machine.name)["status"]["nodeInfo"]["kubeletVersion"] == f"v{NEW}"
        fleet.eventually("Ready", partial(updating.freshly_ready, five.bed, machine), 90)
        if machine.name != CANARY:
            shown = updating.status(machine)
            assert f"rollout stopped (kubernetes {NEW} -> {BAD}): {CANARY} (FLEX-1501)" in shown
    answer = rollout(five.bed, five.directory)
    assert answer["rollouts"][0]["rolled_back"][CANARY]["code"] == "FLEX-1501"
    assert answer["holders"] == []


def test_another_document_goes_on_and_a_push_takes_turns_too(five: Fleet) -> None:
    """The playbook reaches all machines at once; each still waits for its turn."""
    since = time.time()
    for machine in five.machines:  # polls would be faster; the run starts the timer of each node again
        machine.run(["systemctl", "stop", TIMER])
    urls = five.wants(NEW, verbosity=3)
    with Watch.of(five.bed, NAMES) as watch:
        run = fleet.succeeded(fleet.play("update", five.inventory(urls), "-e", "flexnode_serial=100%"))
        five.all_have(NEW)
    assert all(run.changed(name) for name in NAMES)
    for machine in five.machines:
        assert f"configuration {five.version} is applied" not in journal(machine), "a poll was faster"
    assert max(map(len, watch.down)) == 1, [names for names in watch.down if len(names) > 1]
    assert watch.order[0] == CANARY
    assert apart(five.outages(since))
    assert five.record()["holders"] == {}


def test_an_administrator_stops_and_resumes(five: Fleet) -> None:
    five.wants(NEW, verbosity=4)
    fleet.eventually("a holder", lambda: five.record()["holders"], 120)
    assert rollout(five.bed, five.directory, state="stopped", reason="a ticket")["changed"]
    fleet.eventually("no holder", lambda: not five.record()["holders"], 180)
    pids = {name: found for name, found in five.pids().items() if name in REST}
    time.sleep(STILL)
    assert {name: five.pids()[name] for name in REST} == pids
    assert rollout(five.bed, five.directory, state="resumed")["changed"]
    five.all_have(NEW)


def test_a_node_that_leaves_is_removed_from_the_record(five: Fleet) -> None:
    run = fleet.play("unbootstrap", five.inventory(five.publish(verbosity=4)), "--limit", NAMES[4])
    fleet.succeeded(run)
    assert set(five.record()["nodes"]) == set(NAMES[:4])
