# SPDX-License-Identifier: GPL-3.0-or-later
"""node-problem-detector on real nodes: problems of a machine become conditions and events of its Node.

Seen from outside: the Node and its events at the API server, the process that runs, the files. All machines
share the kernel of the testbed's machine: what a test writes into its log, every detector reads.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.identities import Member
from tests.e2e.photograph import differences, photograph
from tests.e2e.updating import Document, Group, changed, with_versions

UNIT = "node-problem-detector.service"
KUBECONFIG = "/etc/node-problem-detector/kubeconfig"
# With the kubelet's certificate, as the kubeconfig names it.
PATCH = """
import ssl, sys, urllib.error, urllib.request
server, name, patch = sys.argv[1:]
context = ssl.create_default_context(cafile="/etc/kubernetes/certs/ca.crt")
context.load_cert_chain("/var/lib/kubelet/pki/kubelet-client-current.pem")
url, kind = f"{server}/api/v1/nodes/{name}/status", "application/strategic-merge-patch+json"
request = urllib.request.Request(url, patch.encode(), {"Content-Type": kind}, method="PATCH")
try:
    print(urllib.request.urlopen(request, context=context).status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"""
PROBLEMS = {
    "KernelDeadlock",
    "ReadonlyFilesystem",
    "FrequentKubeletRestart",
    "FrequentContainerdRestart",
    "FlexNodeProblem",
}
SECONDS = 30  # in which a message of the kernel is at the API server
OWN_SECONDS = 45  # its own status is looked at every 30 s
LOOKBACK = 300  # seconds of the kernel's log that a detector reads when it starts
GATE_SECONDS = 15


def conditions(bed: Testbed, name: str) -> dict[str, dict[str, Any]]:
    """The conditions that a detector reports, by type."""
    found = fleet.node(bed, name)["status"]["conditions"]
    return {one["type"]: one for one in found if one["type"] in PROBLEMS}


def is_true(bed: Testbed, name: str, condition: str) -> dict[str, Any] | None:
    """A condition that is True."""
    one = conditions(bed, name).get(condition, {})
    return one if one.get("status") == "True" else None


def events(bed: Testbed, name: str, reason: str) -> list[str]:
    """Messages of the events of a Node with this reason."""
    selector = f"involvedObject.kind=Node,involvedObject.name={name},reason={reason}"
    found = json.loads(bed.cluster.kubectl("get", "events", f"--field-selector={selector}", "--output=json"))
    return [one["message"] for one in found["items"]]


def process(machine: Machine) -> tuple[str, str, datetime.datetime]:
    """Main process of the unit, its version, and when it was started."""
    wanted = "--property=MainPID,ExecMainStartTimestamp"
    shown = machine.run(["systemctl", "show", "--timestamp=utc", wanted, UNIT]).stdout
    unit = dict(line.split("=", 1) for line in shown.splitlines())
    started = datetime.datetime.strptime(
        f"{unit['ExecMainStartTimestamp']}+0000", "%a %Y-%m-%d %H:%M:%S UTC%z"
    )
    version = machine.run([f"/proc/{unit['MainPID']}/exe", "--version"]).stdout.strip()
    return unit["MainPID"], version.removeprefix("v"), started


def reports(bed: Testbed, machine: Machine) -> bool:
    """Whether all conditions at the Node are of the process that runs now."""
    started = process(machine)[2]
    beats = [
        one["lastHeartbeatTime"].replace("Z", "+00:00") for one in conditions(bed, machine.name).values()
    ]
    return len(beats) == len(PROBLEMS) and all(
        datetime.datetime.fromisoformat(beat) > started for beat in beats
    )


def quiet_kernel() -> None:
    """Wait until no task hung lately: an earlier run may have written the same message."""
    text = Path("/proc/uptime").read_text(encoding="ascii")
    up = float(text.split()[0])
    lines = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
    hung = re.findall(r"^\[ *([\d.]+)\] .*task kubelet:\d+ blocked for more than", lines, re.MULTILINE)
    if hung and (left := LOOKBACK + 5 - (up - float(hung[-1]))) > 0:
        time.sleep(left)


@dataclass(frozen=True)
class Watched:
    """A node with a detector."""

    group: Group
    machine: Machine
    before: dict[str, Any]  # a photograph, before the join

    @property
    def bed(self) -> Testbed:
        return self.group.bed

    @property
    def name(self) -> str:
        return self.machine.name

    def sh(self, script: str) -> str:
        """What somebody types at the machine."""
        return self.machine.run(["sh", "-c", script]).stdout

    def update(self, document: Document) -> Play:
        return self.group.play("update", document)


def watched(bed: Testbed, machine: Machine, version: str, inventory: Path) -> Watched:
    document = changed(fleet.join_document(bed), upgrade={"gateSeconds": GATE_SECONDS})
    before = photograph(machine)
    group = Group.joined(bed, [machine], with_versions(bed, document, npd=version), inventory)
    return Watched(group, machine, before)


@pytest.fixture(scope="module")
def node(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """A node that joined with node-problem-detector."""
    (machine,) = machines(("watched", "debian12"))
    quiet_kernel()
    return watched(bed, machine, versions.NPD, tmp_path_factory.mktemp("npd") / "hosts.yml")


# -- what it reports ---------------------------------------------------------------------------------------


def test_a_message_of_the_kernel_is_a_condition_and_an_event(node: Watched) -> None:
    bed, name = node.bed, node.name
    assert process(node.machine)[1] == versions.NPD
    assert reports(bed, node.machine), "the join has waited for that"
    assert {one["status"] for one in conditions(bed, name).values()} == {"False"}, conditions(bed, name)
    assert fleet.is_ready(fleet.node(bed, name))

    task = f"task kubelet:{time.time_ns() % 10**8} blocked for more than 122 seconds."
    node.sh(f"echo 'INFO: {task}' > /dev/kmsg")
    found = fleet.eventually("a condition", lambda: is_true(bed, name, "KernelDeadlock"), SECONDS)
    assert found["reason"] == "NodeTaskHung"
    assert task in found["message"]
    fleet.eventually(
        "events",
        lambda: all(
            any(task in one for one in events(bed, name, why)) for why in ("NodeTaskHung", "TaskHung")
        ),
        SECONDS,
    )
    again = fleet.succeeded(node.update(node.group.document))
    assert again.changed(name) == 0, again.output


def test_a_read_only_file_system_and_a_writable_one_again(node: Watched) -> None:
    bed, name = node.bed, node.name
    node.sh("mount --bind /var/log /var/log && mount -o remount,bind,ro /var/log")
    try:
        found = fleet.eventually("a condition", lambda: is_true(bed, name, "ReadonlyFilesystem"), SECONDS)
        assert found["message"] == "mounted read-only: /var/log"
        fleet.eventually(
            "an event",
            lambda: any("/var/log" in one for one in events(bed, name, "FilesystemIsReadOnly")),
            SECONDS,
        )
    finally:
        node.sh("umount /var/log")
    fleet.eventually("no problem", lambda: not is_true(bed, name, "ReadonlyFilesystem"), SECONDS)


def test_the_reason_of_this_collection_is_a_condition_and_an_event(node: Watched) -> None:
    bed, name = node.bed, node.name
    overrides = {"evictionHard": {"memory.available": "nonsense"}}  # the kubelet exits: it is rolled back
    code, message = updating.failure(
        node.update(changed(node.group.document, kubelet={"configOverrides": overrides})), name
    )
    assert "rolled back" in message, message
    found = fleet.eventually("a condition", lambda: is_true(bed, name, "FlexNodeProblem"), OWN_SECONDS)
    assert found["message"].startswith(f"{code}: "), found
    fleet.eventually(
        "an event",
        lambda: any(code in one for one in events(bed, name, "FlexNodeNotAsConfigured")),
        SECONDS,
    )
    fleet.succeeded(node.update(node.group.document))
    fleet.eventually("no problem", lambda: not is_true(bed, name, "FlexNodeProblem"), OWN_SECONDS)


def test_a_kubelet_that_does_not_stay_up(node: Watched) -> None:
    for _ in range(5):
        node.sh("systemctl kill --signal=KILL kubelet")
        time.sleep(4)  # systemd starts it again after 2 s
    found = fleet.eventually(
        "a condition", lambda: is_true(node.bed, node.name, "FrequentKubeletRestart"), 90
    )
    assert "kubelet.service was restarted" in found["message"]
    assert not is_true(node.bed, node.name, "FrequentContainerdRestart")
    fleet.eventually("Node Ready", lambda: updating.freshly_ready(node.bed, node.machine))


# -- what it may do ----------------------------------------------------------------------------------------


@pytest.fixture
def other(bed: Testbed) -> Iterator[str]:
    """A Node of somebody else."""
    name = "not-mine"
    bed.cluster.kubectl(
        "apply",
        "--filename=-",
        input=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
    )
    yield name
    bed.cluster.kubectl("delete", "node", name, "--ignore-not-found")


def test_its_credential_reaches_its_own_node_and_no_other(node: Watched, other: str) -> None:
    def kubectl(*words: str) -> tuple[bool, str]:
        done = node.machine.run(["kubectl", f"--kubeconfig={KUBECONFIG}", *words], check=False)
        return done.returncode == 0, done.stdout + done.stderr

    def patched(name: str, patch: str) -> str:
        # kubectl reads the subresource first, which nodes may not.
        script = ["python3", "-c", PATCH, node.bed.cluster.server, name, patch]
        return node.machine.run(script).stdout

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": "FlexNodeTried", "status": "False", "reason": "Tried", "lastHeartbeatTime": now}
    patch = json.dumps({"status": {"conditions": [condition]}})
    removed = json.dumps({"status": {"conditions": [{"type": "FlexNodeTried", "$patch": "delete"}]}})
    _allowed, said = kubectl("auth", "whoami")
    assert f"system:node:{node.name}" in said
    assert kubectl("get", "node", node.name)[0]
    assert patched(node.name, patch).startswith("200")
    assert patched(node.name, removed).startswith("200")
    for verb in ("create", "patch"):
        assert kubectl("auth", "can-i", verb, "events")[0], verb
    said = patched(other, patch)
    assert said.startswith("403"), said
    assert "is not allowed to modify" in said, said
    for act in (
        ("get", "secrets", "--all-namespaces"),
        ("get", "configmaps"),
        ("create", "configmap", "tried"),
    ):
        assert not kubectl(*act)[0], act


def test_its_process_is_confined(node: Watched) -> None:
    pid = process(node.machine)[0]
    status = dict(line.split(":\t", 1) for line in node.sh(f"cat /proc/{pid}/status").splitlines())
    assert int(status["CapEff"].strip(), 16) == 1 << 34, "CAP_SYSLOG"
    assert status["NoNewPrivs"].strip() == "1"
    inside = ["nsenter", f"--target={pid}", "--mount", "touch", "/etc/node-problem-detector/kernel.json"]
    assert "Read-only file system" in node.machine.run(inside, check=False).stderr
    assert f"pid={pid}," not in node.sh("ss -ltnp"), "it opens no port"
    flags = node.sh(f"tr '\\0' ' ' < /proc/{pid}/cmdline")
    assert "token" not in flags


# -- its life ----------------------------------------------------------------------------------------------


def test_update_rollback_removal_and_undo(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    (machine,) = machines(("detected", "ubuntu2204"))
    node = watched(bed, machine, versions.NPD_OLD, tmp_path / "hosts.yml")
    assert process(machine)[1] == versions.NPD_OLD
    pids = fleet.main_pids(machine)

    newer = with_versions(bed, node.group.document, npd=versions.NPD)
    run = fleet.succeeded(node.update(newer))
    assert f"npd {versions.NPD_OLD} -> {versions.NPD}" in run.output, run.output
    assert process(machine)[1] == versions.NPD
    assert reports(bed, machine)
    assert fleet.main_pids(machine) == pids, "kubelet and containerd are not touched"
    assert f'"npd": "{versions.NPD}"' in node.sh("aks-flex-node status --json")

    for version, code, cause in (
        (versions.NPD_EXITS, "FLEX-1501", "Failed to unmarshal"),
        (versions.NPD_SILENT, "FLEX-1511", "has not reported"),
    ):
        found, message = updating.failure(node.update(with_versions(bed, newer, npd=version)), node.name)
        assert found == code, message
        assert cause in message
        assert "rolled back" in message
        assert process(machine)[1] == versions.NPD
        fleet.eventually("reports of the version before", lambda: reports(bed, machine), 30)
        assert fleet.main_pids(machine) == pids
        assert fleet.is_ready(fleet.node(bed, node.name))

    node.sh(f"systemctl stop {UNIT} && echo '{{}}' > /etc/node-problem-detector/kernel.json")
    plan = node.sh("aks-flex-node plan")
    assert "start node-problem-detector.service" in plan, plan
    assert "update /etc/node-problem-detector/kernel.json" in plan
    node.sh("aks-flex-node update")
    assert reports(bed, machine)

    off = {**newer, "npd": {}}
    run = fleet.succeeded(node.update(off))
    assert conditions(bed, node.name) == {}
    assert "LoadState=not-found" in node.sh(f"systemctl show --property=LoadState {UNIT}")
    assert (
        node.sh("ls -d /etc/node-problem-detector /usr/local/bin/node-problem-detector 2>&1 || true").count(
            "No such file"
        )
        == 2
    )
    assert fleet.main_pids(machine) == pids
    time.sleep(12)  # the kubelet has reported since, and has not brought them back
    assert conditions(bed, node.name) == {}
    assert fleet.succeeded(node.update(off)).changed(node.name) == 0

    fleet.succeeded(node.update(newer))
    assert reports(bed, machine)
    fleet.succeeded(node.group.play("unbootstrap", newer))
    assert node.name not in fleet.node_names(bed)
    assert differences(node.before, photograph(machine)) == []


def test_one_that_was_added_and_does_not_work_leaves_no_conditions(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    (machine,) = machines(("undetected", "debian13"))
    document = changed(fleet.join_document(bed), upgrade={"gateSeconds": GATE_SECONDS})
    group = Group.joined(bed, [machine], document, tmp_path / "hosts.yml")
    before = photograph(machine)["files"]
    bad = with_versions(bed, document, npd=versions.NPD_SILENT)
    code, message = updating.failure(group.play("update", bad), machine.name)
    assert (code, "rolled back" in message) == ("FLEX-1511", True), message
    assert conditions(bed, machine.name) == {}
    after = photograph(machine)["files"]
    changed_files = {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
    assert not [path for path in changed_files if "problem" in path], changed_files
    fleet.succeeded(group.play("update", with_versions(bed, document, npd=versions.NPD)))
    assert reports(bed, machine)


def test_in_profile_token_it_uses_the_kubelets_exec_plugin(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    (machine,) = machines(("tokened", "ubuntu2404"))
    member = Member(bed, machine, "servicePrincipal", "token")
    member.exist()
    member.may()
    try:
        document = with_versions(bed, member.document(), npd=versions.NPD)
        inventory = member.inventory(tmp_path / "hosts.yml", document)
        fleet.succeeded(member.play("bootstrap", inventory))
        assert reports(bed, machine)
        machine.run(["systemctl", "restart", UNIT])
        fleet.eventually("reports of the new process", lambda: reports(bed, machine), 30)
    finally:
        member.may_nothing()
