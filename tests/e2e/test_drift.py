# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes made by hand on a real node: found at the next check, then repaired or reported by their class.

Seen from outside: the files, the processes that run, the Node as its present kubelet reports it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from scripts import build_agent
from testbed import Testbed
from testbed.machine import Machine
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.updating import CONTAINERD, KUBELET

NAME = "drifts"
PROGRAM, CA, CONFIG = "/srv/aks-flex-node.pyz", "/srv/ca.pem", "/srv/config.json"
COMMAND = "aks-flex-node"
TIMER, POLL = "aks-flex-node-poll.timer", "aks-flex-node-poll.service"
UNITS = "/etc/systemd/system"
WANTS = f"{UNITS}/multi-user.target.wants"
STATE = "/var/lib/aks-flex-node"
MODULES = "/etc/modules-load.d/aks-flex-node.conf"
# Of the machine's own network namespace; no other process on it sets this one.
SYSCTL = "net.bridge.bridge-nf-call-ip6tables"
TOML = "/etc/containerd/config.toml"
GPU = "/etc/containerd/conf.d/99-gpu.toml"
OTHER = f"{UNITS}/{KUBELET}.d/99-site.conf"
TAINT = {"key": "plant", "value": "lab", "effect": "NoSchedule"}
RUNNING_AGAIN_SECONDS = 40


@dataclass(frozen=True)
class Node:
    """A node, and the one thing that others do to it."""

    bed: Testbed
    machine: Machine
    document: dict[str, Any]

    def sh(self, script: str, *, check: bool = True) -> str:
        """What an administrator types at the machine."""
        done = self.machine.run(["sh", "-c", script], check=check)
        return done.stdout + done.stderr

    def check(self) -> tuple[int, str]:
        """The whole check, now. Not by the link, which a row deletes."""
        done = self.machine.run(
            ["sh", "-c", f"/opt/aks-flex-node/agent/*/{COMMAND} poll --drift"], check=False
        )
        return done.returncode, done.stdout + done.stderr

    def items(self) -> dict[str, dict[str, Any]]:
        """drift.json by item."""
        text = self.sh(f"cat {STATE}/drift.json 2>/dev/null || echo '{{}}'")
        return {item["item"]: item for item in json.loads(text).get("items", ())}

    def plan(self) -> str:
        return self.machine.run([COMMAND, "plan"]).stdout

    def works(self) -> None:
        """The Node is Ready as its present kubelet reports it, and both run what is installed."""
        fleet.eventually("Node Ready", lambda: updating.freshly_ready(self.bed, self.machine))
        for unit, pid in fleet.main_pids(self.machine).items():
            installed = self.sh(f"readlink -f /usr/local/bin/{unit.removesuffix('.service')}")
            assert self.sh(f"readlink /proc/{pid}/exe") == installed


@pytest.fixture(scope="module")
def node(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    (machine,) = machines((NAME, "debian12"))
    machine.copy_to(build_agent.build(tmp_path_factory.mktemp("dist")), PROGRAM)
    machine.copy_to(bed.ca_file, CA)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    document["node"] = {**document.get("node", {}), "labels": {"site": "lab-1"}, "taints": [TAINT]}
    made = Node(bed, machine, document)
    machine.run(["tee", CONFIG], input=json.dumps({"config": document}))
    joined = machine.run(["python3", PROGRAM, "join", "--config", CONFIG], check=False)
    assert joined.returncode == 0, joined.stdout + joined.stderr
    yield made
    bed.unpublish(f"{NAME}.json")


def kubectl(*arguments: str) -> Callable[[Node], object]:
    """A change at the API server, by someone with the cluster's credentials."""
    return lambda on: on.bed.cluster.kubectl(*arguments)


@dataclass(frozen=True)
class Row:
    """A change by hand, the item that it is, and its class."""

    change: str | Callable[[Node], object]
    item: str  # with a slash at its end only its beginning: the rest is a version
    class_: str

    def matches(self, key: str) -> bool:
        return key.startswith(self.item) if self.item.endswith("/") else key == self.item


TREES = "/opt/aks-flex-node/versions"
# Changes that do not hide each other are made together: one check has to find them all.
TABLE: dict[str, dict[str, Row]] = {
    "files": {
        "content": Row(f"echo '# mine' >> {TOML}", f"file:{TOML}", "restart"),
        "mode": Row("chmod 666 /etc/default/kubelet", "file:/etc/default/kubelet", "restart"),
        "owner": Row(f"chown 1000:1000 {MODULES}", f"file:{MODULES}", "repair"),
        "deleted": Row("rm /etc/sysctl.d/99-zz-*", "file:/etc/sysctl.d/99-zz-aks-flex-node.conf", "repair"),
        "link for a file": Row(
            "ln -sf /dev/null /etc/default/kubeletconfig.json",
            "file:/etc/default/kubeletconfig.json",
            "restart",
        ),
        "drop-in": Row(
            f"rm {UNITS}/{KUBELET}.d/10-kubeadm.conf", f"file:{UNITS}/{KUBELET}.d/10-kubeadm.conf", "restart"
        ),
        "CA": Row("echo >> /etc/kubernetes/certs/ca.crt", "file:/etc/kubernetes/certs/ca.crt", "restart"),
        "server": Row(
            "sed -i 's#server: https://#server: https://old.#' /var/lib/kubelet/kubeconfig",
            "kubeconfig:/var/lib/kubelet/kubeconfig",
            "restart",
        ),
        "directory deleted": Row(
            "rmdir /etc/kubernetes/manifests", "directory:/etc/kubernetes/manifests", "repair"
        ),
        "directory mode": Row("chmod 777 /etc/kubernetes", "directory:/etc/kubernetes", "repair"),
        "our command": Row(
            "echo '# x' >> $(echo /opt/aks-flex-node/agent/*/flexnode/secret.py)",
            "program:/opt/aks-flex-node/agent/",
            "report",  # what runs can't repair itself
        ),
        "its link": Row(f"rm /usr/local/bin/{COMMAND}", f"link:/usr/local/bin/{COMMAND}", "repair"),
    },
    "versions": {
        "altered": Row(
            f"cd {TREES}/kubelet/*; cp -p kubelet new; echo >> new; mv new kubelet",
            f"tree:{TREES}/kubelet/",
            "restart",
        ),
        "replaced by a copy": Row(
            f"cd {TREES}/containerd/*; cp -p containerd new; mv new containerd",
            f"unit:{CONTAINERD}",
            "restart",
        ),
        "incomplete": Row(f"rm {TREES}/runc/*/runc", f"tree:{TREES}/runc/", "repair"),
        "mode": Row(f"chmod 700 {TREES}/cni-plugins/*/vlan", f"tree:{TREES}/cni-plugins/", "repair"),
        "manifest": Row(f"rm {TREES}/kubectl/*/.manifest.json", f"tree:{TREES}/kubectl/", "repair"),
        "link to another": Row(
            "ln -sfn /bin/true /usr/local/bin/kubeadm", "link:/usr/local/bin/kubeadm", "repair"
        ),
        "link deleted": Row("rm /usr/local/bin/ctr", "link:/usr/local/bin/ctr", "repair"),
        "file for a link": Row(
            "rm /usr/local/sbin/runc; cp /bin/true /usr/local/sbin/runc",
            "link:/usr/local/sbin/runc",
            "repair",
        ),
        "plugin": Row("rm /opt/cni/bin/bridge", "link:/opt/cni/bin/bridge", "repair"),
    },
    "units": {
        "masked": Row(
            f"systemctl stop {KUBELET}; ln -sf /dev/null {UNITS}/{KUBELET}; systemctl daemon-reload",
            f"file:{UNITS}/{KUBELET}",
            "restart",
        ),
        "stopped": Row("true", f"unit:{KUBELET}", "restart"),
        "edited": Row(
            f"sed -i s/RestartSec=1/RestartSec=9/ {UNITS}/{CONTAINERD}; systemctl daemon-reload",
            f"file:{UNITS}/{CONTAINERD}",
            "restart",
        ),
        "disabled": Row(f"rm {WANTS}/{CONTAINERD}", f"link:{WANTS}/{CONTAINERD}", "repair"),
        "drop-in of another owner": Row(
            f"printf '[Service]\\nNice=1\\n' > {OTHER}; systemctl daemon-reload", f"drop-in:{OTHER}", "report"
        ),
    },
    # Alone: the bridge CNI plugin sets it to 1 whenever it connects a pod, and other changes restart pods.
    "forwarding": {
        "sysctl": Row("echo 0 > /proc/sys/net/ipv4/ip_forward", "sysctl:net.ipv4.ip_forward", "repair"),
    },
    "kernel and Node": {
        "sysctl": Row(f"echo 0 > /proc/sys/{SYSCTL.replace('.', '/')}", f"sysctl:{SYSCTL}", "repair"),
        "fstab": Row("echo '/none none swap sw 0 0' >> /etc/fstab", "fstab:/etc/fstab", "repair"),
        "swap unit": Row(
            f"printf '[Swap]\\nWhat=/none\\n' > {UNITS}/none.swap", f"link:{UNITS}/none.swap", "repair"
        ),
        "label": Row(kubectl("label", "node", NAME, "--overwrite", "site=x"), "label:site", "repair"),
        "label of ours": Row(
            kubectl("label", "node", NAME, "kubernetes.azure.com/managed-"),
            "label:kubernetes.azure.com/managed",
            "repair",
        ),
        "taint": Row(kubectl("taint", "node", NAME, "plant-"), "taint:plant:NoSchedule", "report"),
        "kubelet disabled": Row(f"systemctl disable {KUBELET}", f"link:{WANTS}/{KUBELET}", "repair"),
    },
}


def test_the_table_is_long_enough() -> None:
    assert sum(len(group) for group in TABLE.values()) >= 25


@pytest.mark.parametrize(
    "group", [pytest.param(name, marks=[pytest.mark.smoke] * (name == "units")) for name in TABLE]
)
def test_changes_by_hand(node: Node, group: str) -> None:
    assert node.check() == (0, ""), "there is nothing to find yet"
    for row in TABLE[group].values():
        node.sh(row.change) if isinstance(row.change, str) else row.change(node)
    status, said = node.check()
    assert status == 0, said
    found = node.items()
    matching = {
        name: [item for key, item in found.items() if row.matches(key)] for name, row in TABLE[group].items()
    }
    assert [name for name, items in matching.items() if len(items) != 1] == [], said
    for name, row in TABLE[group].items():
        (item,) = matching[name]
        state = "reported" if row.class_ == "report" else "repaired"
        assert (item["class"], item["state"]) == (row.class_, state), f"{name}: {item}"
        assert item["what"] in said
    assert node.plan() == "nothing to do\n"
    node.works()
    assert node.check() == (0, ""), "the second check is quiet"


def test_a_changed_command_is_installed_again_from_the_file_that_it_came_from(node: Node) -> None:
    assert "program:" in str(node.items().keys())
    node.machine.run(["python3", PROGRAM, "update"])
    node.sh(f"! grep -q '^# x' $(dirname $(readlink -f /usr/local/bin/{COMMAND}))/flexnode/secret.py")
    # An update begins a new record: what is only reported is reported again, and nothing else.
    status, said = node.check()
    assert (status, [line for line in said.splitlines() if "(reported only)" not in line]) == (0, [])
    assert "program:" not in said
    assert node.check() == (0, "")
    assert "program:" not in str(node.items().keys())


def test_what_was_only_reported_is_still_there(node: Node) -> None:
    """Also shows that a node may not repair its taints; then both are gone from the record."""
    assert node.sh(f"cat {OTHER}").startswith("[Service]")
    assert "plant" not in json.dumps(fleet.node(node.bed, NAME)["spec"].get("taints") or [])
    node.sh(f"rm {OTHER}; systemctl daemon-reload")
    node.bed.cluster.kubectl("taint", "node", NAME, "plant=lab:NoSchedule")
    assert node.check() == (0, "")
    assert {item["state"] for item in node.items().values()} <= {"repaired"}


def test_a_drop_in_of_a_gpu_operator_survives(node: Node) -> None:
    drop_in = (
        "version = 3\n"
        '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.gpu]\n'
        '  runtime_type = "io.containerd.runc.v2"\n'
    )
    node.machine.run(["tee", GPU], input=drop_in)
    node.sh(f"systemctl restart {CONTAINERD}; sed -i '/SystemdCgroup/d' {TOML}")
    status, said = node.check()
    assert status == 0, said
    assert f"update {TOML}" in said
    assert "gpu" not in said
    assert node.machine.read(GPU) == drop_in
    assert "runtimes.gpu" in node.sh("containerd config dump")
    assert node.check() == (0, "")


def test_a_fighting_process_ends_contended(node: Node) -> None:
    node.machine.run([COMMAND, "update"])  # counts from here
    fight = f"while sleep 0.3; do echo mine > {MODULES}; done"
    node.machine.run(["systemd-run", "--unit=fighter", "sh", "-c", fight])
    try:
        states = []
        for _check in range(4):
            time.sleep(0.7)
            assert node.check()[0] == 0
            states.append(node.items()[f"file:{MODULES}"]["state"])
        assert states == ["repaired"] * 3 + ["contended"]
        assert node.check() == (0, ""), "left alone, and said once"
        assert node.machine.read(MODULES) == "mine\n"
        node.sh(f"systemctl stop {KUBELET}")
        assert node.check()[0] == 0, "all else is repaired"
        assert node.machine.read(MODULES) == "mine\n"
        assert "contended" in json.dumps(node.items())
    finally:
        node.machine.run(["systemctl", "stop", "fighter"])
    node.machine.run([COMMAND, "update"])
    assert "mine" not in node.machine.read(MODULES)
    assert node.items() == {}


def sandbox(node: Node, *command: str) -> str:
    """A command with the restrictions of the poll service, as installed."""
    service = node.machine.read(f"{UNITS}/{POLL}").partition("[Service]")[2]
    wanted = [line for line in service.splitlines() if "=" in line and not line.startswith("#")]
    left_out = ("Type=", "ExecStart=", "TimeoutStartSec=", "LogLevelMax=")
    properties = [f"--property={line}" for line in wanted if not line.startswith(left_out)]
    done = node.machine.run(
        ["systemd-run", "--quiet", "--wait", "--pipe", *properties, *command], check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_follow_with_the_timer(node: Node) -> None:
    """From here on the node polls a URL: its timer runs as installed."""
    document = {**node.document, "continuousMonitoring": True}
    url = node.bed.publish(f"{NAME}.json", json.dumps({"config": document, "configVersion": "1"}).encode())
    node.machine.run([COMMAND, "update", "--config-url", url, "--ca-cert", CA, "--durable"])
    fleet.eventually("the timer", lambda: node.sh(f"systemctl is-active {TIMER}") == "active\n")


def test_the_sandbox_makes_the_same_plan_as_a_shell(node: Node) -> None:
    node.sh(f"systemctl stop {TIMER}")  # nobody repairs meanwhile; it is part of the plan, too
    try:
        assert sandbox(node, f"/usr/local/bin/{COMMAND}", "plan") == node.plan()
        node.sh(f"echo x >> {TOML}; chmod 600 {MODULES}; echo 0 > /proc/sys/{SYSCTL.replace('.', '/')}")
        node.sh(f"cd {TREES}/kubelet/*; cp -p kubelet new; mv new kubelet")
        seen = node.plan()
        assert sandbox(node, f"/usr/local/bin/{COMMAND}", "plan") == seen
        assert f"restart {KUBELET}" in seen
        assert len(seen.splitlines()) == 6, seen  # with the timer, and the count
    finally:
        assert node.check()[0] == 0
    assert node.sh(f"systemctl is-active {TIMER}") == "active\n"
    node.works()


def test_ticks_that_find_nothing_write_and_log_nothing(node: Node) -> None:
    def written() -> str:
        return node.sh(f"find {STATE} /etc /opt/aks-flex-node -not -name '*.pyc' -printf '%p %T@ %i\\n'")

    since = node.sh("date '+%F %T'").strip()
    before = written()
    for _tick in range(3):
        node.sh(f"rm -f /run/aks-flex-node/drift-checked; systemctl start {POLL}")
    assert written() == before
    lines = node.sh(f"journalctl --quiet --output=cat --since='{since}' -u {POLL} -u aks-flex-node-apply")
    assert lines == ""


@pytest.mark.parametrize(
    ("unit", "how"),
    [
        (KUBELET, f"systemctl stop {KUBELET}"),
        (KUBELET, f"systemctl kill --signal=KILL {KUBELET}"),
        (KUBELET, f"systemctl disable --now {KUBELET}"),
        (CONTAINERD, f"systemctl stop {CONTAINERD}"),
        (
            CONTAINERD,
            f"systemctl stop {CONTAINERD}; ln -sf /dev/null {UNITS}/{CONTAINERD}; systemctl daemon-reload",
        ),
    ],
)
def test_it_runs_again_within_one_tick(node: Node, unit: str, how: str) -> None:
    node.machine.run([COMMAND, "update"])  # so that nothing is contended by what tests before this did
    before = fleet.main_pids(node.machine)[unit]
    node.sh(how)
    start = time.monotonic()
    fleet.eventually(
        f"a new process of {unit}",
        lambda: fleet.main_pids(node.machine)[unit] not in ("0", before),
        RUNNING_AGAIN_SECONDS,
    )
    print(f"{how}: running again after {time.monotonic() - start:.1f} s")
    node.works()
    fleet.eventually(
        "the end of the repair",
        lambda: node.sh("systemctl show --value -p ActiveState aks-flex-node-apply") == "inactive\n",
    )
    assert node.plan() == "nothing to do\n"


def test_report_and_off(node: Node, tmp_path: Path) -> None:
    for mode, states in (("report", {"reported"}), ("off", set[str]())):
        document = {**node.document, "drift": {"mode": mode}}
        node.machine.run(["tee", CONFIG], input=json.dumps({"config": document}))
        node.machine.run([COMMAND, "update", "--config", CONFIG])
        node.sh(f"systemctl stop {KUBELET}; echo x >> {MODULES}")
        assert node.check()[0] == 0
        assert {item["state"] for item in node.items().values()} == states
        assert fleet.main_pids(node.machine)[KUBELET] == "0"
        node.machine.run([COMMAND, "update"])
        node.works()
