# SPDX-License-Identifier: GPL-3.0-or-later
"""A following node on bad days: killed in the middle of a change, a full disk, a cut line.

Its pods keep running, and a later poll completes what was asked for. A stepped clock is not tried here: all
machines of the testbed have the clock of one kernel (tests/unit/node/follow/test_tick.py has it).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from testbed import Testbed
from testbed.machine import Machine
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.following import STATE, UNITS, scale, status, unscale

NAME = "bad-days"
APPLY = UNITS[1]
CONFIG = "/etc/default/kubeletconfig.json"
MOMENTS = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)  # seconds after the apply service has begun
SPARE = 8 << 20  # bytes beside what is there, before the disk is filled


@dataclass
class Node:
    """A node that follows a URL, with a pod."""

    bed: Testbed
    machine: Machine
    version: int = 0

    def publish(self, pods: int) -> str:
        """A new version of its document at the URL."""
        self.version += 1
        document = fleet.join_document(self.bed)
        document["cni"]["podCIDR"] = self.machine.pod_cidr
        document["node"] = {**document.get("node", {}), "maxPods": pods}
        bundle = {"config": {**document, "continuousMonitoring": True}, "configVersion": str(self.version)}
        return self.bed.publish(f"{NAME}.json", json.dumps(bundle).encode())

    def sh(self, script: str) -> str:
        return self.machine.run(["sh", "-ec", script]).stdout.strip()

    @property
    def container(self) -> dict[str, str]:
        return updating.containers(self.bed, NAME)

    @property
    def tasks(self) -> str:
        """The containers that run, with their process ids, as containerd on the machine has them."""
        return self.sh("ctr --namespace k8s.io tasks ls | sort")

    def applied(self, pods: int) -> bool:
        """The kubelet has the setting, and the record says that nothing is left to do."""
        found = status(self.machine)
        return (
            f'"maxPods": {pods}' in self.machine.read(CONFIG)
            and found["config"]["appliedVersion"] == str(self.version)
            and (found["phase"], found["monitoring"]["status"]) == ("NodeJoined", "Ok")
        )

    def completes(self, pods: int) -> None:
        fleet.eventually(f"maxPods {pods} and nothing left to do", lambda: self.applied(pods), 180)
        fleet.eventually("Node Ready", lambda: updating.freshly_ready(self.bed, self.machine), 60)
        assert self.sh(f"ls {STATE}/transaction.json 2>/dev/null || true") == ""


@pytest.fixture(scope="module")
def node(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    (machine,) = machines((NAME, "debian12"))
    made = Node(bed, machine)
    inventory = fleet.write_inventory(
        bed,
        [machine],
        tmp_path_factory.mktemp("bad") / "hosts.yml",
        flexnode_config_source="url",
        flexnode_config_url=made.publish(60),
        flexnode_config_url_durable=True,
        flexnode_config_url_ca_cert=bed.ca_pem,
    )
    fleet.succeeded(fleet.play("bootstrap", inventory))
    scale(machine)
    updating.run_pods(bed, updating.pod(bed, NAME, NAME))
    yield made
    unscale(machine)
    bed.cluster.kubectl("delete", "pod", NAME, "--ignore-not-found", "--force", "--grace-period=0")
    bed.unpublish(f"{NAME}.json")


def test_killed_in_the_middle_of_a_change(node: Node) -> None:
    before = node.container
    for number, seconds in enumerate(MOMENTS):
        begun = node.sh(f"systemctl show --property=InvocationID --value {APPLY}")
        node.publish(61 + number)
        script = (
            f"until [ \"$(systemctl show --property=InvocationID --value {APPLY})\" != '{begun}' ]; "
            f"do sleep 0.02; done; sleep {seconds}; systemctl kill --signal=KILL {APPLY} 2>/dev/null || true"
        )
        node.machine.run(["timeout", "60", "sh", "-c", script])
        node.completes(61 + number)
    assert node.container == before, "the pod was not restarted"


def test_a_full_disk(node: Node) -> None:
    """A file system that is as large as its content, in place of the state directory."""
    before, pids = node.container, fleet.main_pids(node.machine)
    node.sh(
        "systemctl stop aks-flex-node-poll.timer\n"
        f"size=$(($(du -sb {STATE} | cut -f1) * 2 + {SPARE}))\n"
        f"cp -a {STATE} /tmp/state\n"
        f"mount -t tmpfs -o mode=0700,size=$size tmpfs {STATE}\n"
        f"cp -a /tmp/state/. {STATE}/\n"
        f"dd if=/dev/zero of={STATE}/filler bs=4096 2>/dev/null || true\n"
        "systemctl start aks-flex-node-poll.timer"
    )
    assert node.sh(f"df --output=avail {STATE} | tail -n 1").strip() == "0"
    node.publish(71)
    time.sleep(20)
    assert '"maxPods": 71' not in node.machine.read(CONFIG)
    assert (node.container, fleet.main_pids(node.machine)) == (before, pids)
    assert fleet.is_ready(fleet.node(node.bed, NAME))
    said = node.sh("journalctl --no-pager --output=cat --since=-1min " + " ".join(f"-u {u}" for u in UNITS))
    assert "FLEX-1303: no space left on the disk" in said
    node.sh(f"rm {STATE}/filler")
    node.completes(71)
    assert node.container == before


def test_a_cut_line(node: Node) -> None:
    """Every packet to the site is dropped for longer than a Node stays Ready without news."""
    before, tasks, pids = node.container, node.tasks, fleet.main_pids(node.machine)
    site = node.machine.ip.rpartition(".")[0] + ".0/24"
    node.sh(f"ip rule add to {site} blackhole priority 1")
    try:
        node.publish(81)
        time.sleep(60)
        assert (node.tasks, fleet.main_pids(node.machine)) == (tasks, pids)
        assert '"maxPods": 81' not in node.machine.read(CONFIG)
    finally:
        node.sh(f"ip rule del to {site} blackhole priority 1")
    node.completes(81)
    assert node.container == before
