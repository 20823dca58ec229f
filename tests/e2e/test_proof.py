# SPDX-License-Identifier: GPL-3.0-or-later
"""After a join, pods work on the node - or a sentence says what does not, and why. Nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import ROOT, Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker

# Each platform, each containerd line.
MATRIX = {"proven-12": ("debian12", versions.CONTAINERD), "proven-13": ("debian13", versions.CONTAINERD_OLD)}
TAINT = {"key": "edge", "value": "true", "effect": "NoExecute"}
LABEL = "aks.flexnode/proof"
CHECKS = ["pod", "dns", "service", "logs", "exec"]
DNS = ("--namespace=kube-system", "--selector=k8s-app=kube-dns")


@dataclass(frozen=True)
class Pair:
    """Two nodes, joined and proven by one playbook run."""

    bed: Testbed
    inventory: Path
    machines: Mapping[str, Machine]
    run: Play

    def prove(self, *names: str, seconds: int = 60, options: tuple[str, ...] = ()) -> Play:
        """Run the proof again, for some of the nodes."""
        more = {"flexnode_proof_nodes": list(names or MATRIX), "flexnode_proof_timeout": seconds}
        run = fleet.play("proof", self.inventory, "-e", json.dumps(more), *options)
        assert leftovers(self.bed) == []
        return run


def result(run: Play) -> Mapping[str, Any]:
    """What the module returned."""
    return run.result("localhost", "flexnode_proof")


def fault(run: Play, name: str) -> Mapping[str, Any]:
    """What the proof found wrong with a node."""
    assert run.status != 0, run.output
    (node,) = [node for node in result(run)["nodes"] if node["name"] == name]
    assert not node["passed"]
    error: Mapping[str, Any] = node["error"]
    return error


def leftovers(bed: Testbed) -> list[str]:
    """Everything in the cluster that a proof made."""
    kinds = "namespaces,pods,services"
    found = bed.cluster.kubectl("get", kinds, "--all-namespaces", f"--selector={LABEL}", "--output=name")
    return found.split()


@pytest.fixture(scope="module")
def pair(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    made = machines(*((name, platform) for name, (platform, _) in MATRIX.items()))
    _forget_lost_pods(bed)
    document = updating.with_served(bed, fleet.join_document(bed), containerd=versions.CONTAINERD_OLD)
    document["node"] |= {"taints": [TAINT]}
    path = fleet.write_inventory(
        bed,
        made,
        tmp_path_factory.mktemp("proof") / "edge_hosts.yml",
        flexnode_config=document,
        flexnode_kubeconfig=str(bed.cluster.kubeconfig),
        flexnode_proof=True,
        flexnode_proof_image=bed.registry.workload_image,
        host_configs={name: {"containerd": {"version": line}} for name, (_, line) in MATRIX.items()},
    )
    run = fleet.succeeded(fleet.play("bootstrap", path))
    return Pair(bed, path, {machine.name: machine for machine in made}, run)


def _forget_lost_pods(bed: Testbed) -> None:
    """Remove DNS pods of machines that earlier tests took away: Kubernetes itself needs a minute for it."""
    nodes = fleet.node_names(bed)
    pods = json.loads(bed.cluster.kubectl("get", "pods", *DNS, "--output=json"))["items"]
    for pod in pods:
        if pod["spec"].get("nodeName") and pod["spec"]["nodeName"] not in nodes:
            name = pod["metadata"]["name"]
            bed.cluster.kubectl(
                "delete", "pod", name, "--namespace=kube-system", "--force", "--grace-period=0"
            )


def _dns_node(bed: Testbed) -> str:
    return bed.cluster.kubectl("get", "pods", *DNS, "--output=jsonpath={.items[0].spec.nodeName}")


# ---------------------------------------------------------------------------------------------------------


def test_bootstrap_proves_every_node(pair: Pair) -> None:
    proven = result(pair.run)
    assert sorted(node["name"] for node in proven["nodes"]) == sorted(MATRIX)
    for node in proven["nodes"]:
        assert [(check["name"], check["status"]) for check in node["checks"]] == [
            (name, "passed") for name in CHECKS
        ]
        assert f"{node['name']}  proven" in pair.run.output
    assert not proven["changed"]
    assert proven["remains"] == []
    assert leftovers(pair.bed) == []


def test_names_are_resolved_from_the_node_that_has_no_dns_pod(pair: Pair) -> None:
    """Pods reach pods of the other node, by a Service."""
    other = next(name for name in MATRIX if name != _dns_node(pair.bed))
    fleet.succeeded(pair.prove(other))


def test_check_mode_tells_and_makes_nothing(pair: Pair) -> None:
    told = result(fleet.succeeded(pair.prove(options=("--check",))))
    assert told["actions"] == [f"test pods on Node {name}: {', '.join(CHECKS)}" for name in MATRIX]
    assert "nodes" not in told


def test_given_namespace_is_used_and_stays(pair: Pair) -> None:
    kubectl = pair.bed.cluster.kubectl
    kubectl("create", "namespace", "ours")
    try:
        fleet.succeeded(pair.prove("proven-12", options=("-e", "flexnode_proof_namespace=ours")))
        assert "ours" in kubectl("get", "namespaces", "--output=name")
    finally:
        kubectl("delete", "namespace", "ours")


def test_unknown_node_is_named_and_the_other_is_proven(pair: Pair) -> None:
    run = pair.prove("proven-12", "nowhere")
    assert fault(run, "nowhere")["what"] == "there is no Node nowhere"
    assert result(run)["nodes"][0]["passed"]


# ---------------------------------------------------------------------------------------------------------


@contextmanager
def closed_port(machine: Machine) -> Iterator[None]:
    """A firewall that refuses the kubelet's port from outside."""
    port = ("-i", "eth0", "-p", "tcp", "--dport", "10250")
    rule = ["INPUT", *port, "-j", "REJECT", "--reject-with", "tcp-reset"]
    machine.run(["iptables", "--insert", *rule])
    try:
        yield
    finally:
        machine.run(["iptables", "--delete", *rule])


def test_closed_kubelet_port_is_named(pair: Pair) -> None:
    machine = pair.machines["proven-12"]
    with closed_port(machine):
        run = pair.prove()
    error = fault(run, "proven-12")
    assert error["code"] == "FLEX-1604"
    said = f"Joined, but logs are not available: the cluster cannot reach {machine.ip}:10250"
    assert said in " ".join(run.output.split()), error
    other = next(node for node in result(run)["nodes"] if node["name"] == "proven-13")
    assert other["passed"]  # one node's fault is not the other's


@contextmanager
def without_kube_proxy(bed: Testbed, name: str) -> Iterator[None]:
    """A DaemonSet that does not select a node, as happens to nodes without the labels it wants."""

    def select(term: dict[str, Any] | None) -> None:
        node = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}} if term else None
        patch = {"spec": {"template": {"spec": {"affinity": node}}}}
        where = ("daemonset/kube-proxy", "--namespace=kube-system", "--type=merge")
        bed.cluster.kubectl("patch", *where, "--patch", json.dumps(patch))

    def runs() -> bool:
        chosen = ("--selector=k8s-app=kube-proxy", f"--field-selector=spec.nodeName={name}")
        return "kube-proxy" in bed.cluster.kubectl("get", "pods", "-n", "kube-system", *chosen, "-o", "name")

    hostname = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [name]}
    select({"nodeSelectorTerms": [{"matchExpressions": [hostname]}]})
    try:
        fleet.eventually("no kube-proxy on the node", lambda: not runs())
        yield
    finally:
        select(None)
        bed.cluster.kubectl(
            "rollout", "status", "daemonset/kube-proxy", "--namespace=kube-system", "--timeout=60s"
        )


def test_missing_kube_proxy_is_named(pair: Pair) -> None:
    with without_kube_proxy(pair.bed, "proven-13"):
        run = pair.prove("proven-13")
    error = fault(run, "proven-13")
    assert error["code"] == "FLEX-1603"
    assert error["what"] == "Joined, but Services are not reachable from this node"
    assert "kube-proxy does not run on it (no pod of kube-proxy on proven-13)" in error["why"]


def test_dns_that_does_not_run_is_named(pair: Pair) -> None:
    kubectl = pair.bed.cluster.kubectl
    scale = ("scale", "deployment/coredns", "--namespace=kube-system")
    kubectl(*scale, "--replicas=0")
    try:
        fleet.eventually("no DNS pod", lambda: not kubectl("get", "pods", *DNS, "--output=name").strip())
        run = pair.prove("proven-12")
    finally:
        kubectl(*scale, "--replicas=1")
        kubectl("rollout", "status", "deployment/coredns", "--namespace=kube-system", "--timeout=60s")
    error = fault(run, "proven-12")
    assert error["code"] == "FLEX-1602"
    assert error["what"] == "Joined, but names are not resolved on this node"
    assert "no pod of the cluster's DNS runs" in error["why"]


def test_dns_that_is_out_of_reach_is_named(pair: Pair) -> None:
    """The way to the other node's pods is cut."""
    there = pair.machines[_dns_node(pair.bed)]
    here = next(machine for machine in pair.machines.values() if machine is not there)
    here.run(["ip", "route", "replace", "blackhole", there.pod_cidr])
    try:
        run = pair.prove(here.name)
    finally:
        here.run(["ip", "route", "replace", there.pod_cidr, "via", there.ip])
    error = fault(run, here.name)
    assert error["code"] == "FLEX-1602"
    assert f"the cluster's DNS at {pair.bed.cluster.dns_service_ip} does not answer" in error["why"]
    assert f"on {there.name}" in error["why"]


def test_wrong_name_server_is_named(pair: Pair) -> None:
    """The configuration names an address where no DNS is."""
    name, wrong = "proven-12", "10.0.0.99"
    inventory = yaml.safe_load(pair.inventory.read_text())
    inventory["all"]["hosts"][name]["flexnode_host_config"]["node"] = {"kubelet": {"dnsServiceIP": wrong}}
    path = pair.inventory.with_name("wrong_dns.yml")
    path.write_text(yaml.safe_dump(inventory))
    only = ("-e", json.dumps({"flexnode_hosts": name, "flexnode_proof_timeout": 60}))
    run = fleet.play("bootstrap", path, *only)
    try:
        error = fault(run, name)
        right = pair.bed.cluster.dns_service_ip
        assert error["why"] == f"pods ask {wrong}, but the cluster's DNS is at {right}"
        again = "run playbook aks.flexnode.bootstrap again"
        assert error["fix"] == f"set node.kubelet.dnsServiceIP to {right} and {again}"
    finally:
        fleet.succeeded(fleet.play("bootstrap", pair.inventory, *only))
    assert leftovers(pair.bed) == []


# ---------------------------------------------------------------------------------------------------------


def test_what_a_killed_proof_left_is_removed_by_the_next(pair: Pair) -> None:
    process = _start(pair)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert leftovers(pair.bed) != []
    fleet.succeeded(fleet.play("proof", pair.inventory))
    fleet.eventually("nothing is left", lambda: leftovers(pair.bed) == [])


def test_interrupted_proof_leaves_nothing(pair: Pair) -> None:
    process = _start(pair)
    os.killpg(process.pid, signal.SIGINT)
    process.wait(timeout=60)
    fleet.eventually("nothing is left", lambda: leftovers(pair.bed) == [])


def _start(pair: Pair) -> subprocess.Popen[bytes]:
    """A proof that has made something, in a process group of its own."""
    process = subprocess.Popen(
        [str(Path(sys.executable).parent / "ansible-playbook"), "playbooks/proof.yml", "-i", pair.inventory],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    fleet.eventually("the pods of a proof", lambda: any("pod/" in name for name in leftovers(pair.bed)))
    return process
