# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes whose configuration changes: what tests of updates and of rollback share."""

from __future__ import annotations

import copy
import datetime
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from testbed import Testbed
from testbed.machine import Machine
from testbed.playbooks import LIMIT_SECONDS, ROOT, Play
from tests.e2e import fleet

CONTAINERD, KUBELET = "containerd.service", "kubelet.service"
Document = dict[str, Any]


def changed(document: Document, **sections: Any) -> Document:
    """A copy with parts of its sections replaced."""
    made: Document = copy.deepcopy(document)
    for section, values in sections.items():
        made[section] = {**made.get(section, {}), **values}
    return made


def with_versions(bed: Testbed, document: Document, **wanted: str) -> Document:
    """A copy with other versions, e.g. kubernetes="1.34.3", which the mirror then serves."""
    sections = {section: {"version": version} for section, version in wanted.items()}
    return with_served(bed, changed(document, **sections), **wanted)


def with_served(bed: Testbed, document: Document, **wanted: str) -> Document:
    """A copy with the digests of more versions, which the mirror then serves; who asks for them says so."""
    made: Document = copy.deepcopy(document)
    for section, version in wanted.items():
        for name, digests in bed.offer(section, version).items():
            made["mirror"]["catalogue"].setdefault(name, {}).update(digests)
    return made


@dataclass(frozen=True)
class Group:
    """Machines that share an inventory and joined with one document."""

    bed: Testbed
    machines: Sequence[Machine]
    document: Document
    inventory: Path
    seconds: float = LIMIT_SECONDS
    """That one playbook may take."""

    @classmethod
    def joined(cls, bed: Testbed, machines: Sequence[Machine], document: Document, inventory: Path) -> Group:
        """After bootstrap."""
        group = cls(bed, machines, document, inventory)
        fleet.succeeded(group.play("bootstrap", document))
        return group

    def play(
        self,
        playbook: str,
        document: Document,
        *options: str,
        host_configs: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Play:
        """Run a playbook with this document in the inventory."""
        fleet.write_inventory(
            self.bed,
            self.machines,
            self.inventory,
            host_configs=host_configs,
            flexnode_config=document,
            flexnode_kubeconfig=str(self.bed.cluster.kubeconfig),
        )
        return fleet.play(playbook, self.inventory, *options, seconds=self.seconds)


def failure(run: Play, host: str) -> tuple[str, str]:
    """Code and message of the change that failed on a host."""
    assert run.status != 0, run.output
    result = run.result(host, "flexnode_reconcile")
    assert "error" in result, run.output
    return result["error"]["code"], result["msg"]


def running_version(machine: Machine, unit: str) -> str:
    """What the running process says that it is, whatever is installed."""
    pid = fleet.main_pids(machine)[unit]
    words = machine.run([f"/proc/{pid}/exe", "--version"]).stdout.split()
    return next(word[1:] for word in words if word[0] == "v" and word[1].isdigit())


def freshly_ready(bed: Testbed, machine: Machine) -> bool:
    """Whether the kubelet that runs now reported the Node as Ready; an older report does not count."""
    properties = "--property=ActiveState,ExecMainStartTimestamp"
    shown = machine.run(["systemctl", "show", "--timestamp=utc", properties, KUBELET]).stdout
    unit = dict(line.split("=", 1) for line in shown.splitlines())
    found = fleet.node(bed, machine.name)
    if unit["ActiveState"] != "active" or not fleet.is_ready(found):
        return False
    (ready,) = [one for one in found["status"]["conditions"] if one["type"] == "Ready"]
    heartbeat = datetime.datetime.fromisoformat(ready["lastHeartbeatTime"].replace("Z", "+00:00"))
    # systemd 249 of Ubuntu 22.04 has no --timestamp=unix.
    started = datetime.datetime.strptime(
        f"{unit['ExecMainStartTimestamp']}+0000", "%a %Y-%m-%d %H:%M:%S UTC%z"
    )
    return heartbeat >= started


def status(machine: Machine) -> str:
    """What `aks-flex-node status` shows."""
    return machine.run(["aks-flex-node", "status"], check=False).stdout


def program_of(commit: str, directory: Path) -> Path:
    """The command as one file, built from the sources of an earlier commit."""
    sources = directory / "sources"
    sources.mkdir()
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(sources)], input=packed.stdout, check=True)
    subprocess.run([sys.executable, "-m", "scripts.build_agent"], cwd=sources, check=True)
    (program,) = (sources / "dist").glob("*.pyz")
    return program


def pod(bed: Testbed, name: str, node: str) -> dict[str, Any]:
    """A pod that runs until it is deleted, on one node."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": bed.registry.workload_image, "command": ["/bin/sleep", "86400"]}
            ],
        },
    }


def deployment(bed: Testbed, name: str, node: str) -> dict[str, Any]:
    """One replica of that pod."""
    template = pod(bed, name, node)
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def run_pods(bed: Testbed, *objects: Mapping[str, Any]) -> None:
    """Create objects, instead of those that an earlier run left; wait until the pods of all are Ready."""
    for one in objects:
        text = json.dumps(one)
        bed.cluster.kubectl(
            "delete", "--filename=-", "--ignore-not-found", "--force", "--grace-period=0", input=text
        )
        bed.cluster.kubectl("create", "--filename=-", input=text)
        name = one["metadata"]["name"]
        fleet.eventually(f"a Ready pod of {name}", partial(containers, bed, name), 90)


def containers(bed: Testbed, app: str) -> dict[str, str]:
    """Uid of each Ready pod of an app -> id of its container."""
    found = bed.cluster.api().get("/api/v1/namespaces/default/pods", labelSelector=f"app={app}")
    return {
        one["metadata"]["uid"]: status["containerID"]
        for one in found["items"]
        if "deletionTimestamp" not in one["metadata"]
        for status in one["status"].get("containerStatuses", ())
        if status["ready"]
    }
