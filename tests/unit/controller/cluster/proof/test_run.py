# SPDX-License-Identifier: GPL-3.0-or-later
"""A proof removes what it made, whatever happens. The cluster is a dictionary here."""

from __future__ import annotations

import os
import socket
from typing import Any, cast

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import OtherCluster
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof import objects, run
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.cluster import Cluster
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.proof.verdict import Answer
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.targets import Target
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NodeNotReady

REPORT = "service passed\ndns passed\nnameserver 10.0.0.10\nname proof\nName: proof\nAddress: 10.0.7.7\n"
NODE = {
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }
}

TERMINATING: dict[str, Any] = {"metadata": {"name": "terminating"}}


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


class FakeCluster:
    """Pods run at once, on nodes that exist."""

    server = "https://lab.example"

    def __init__(self, *, stubborn: bool = False) -> None:
        self.nodes = {"edge-1": NODE}
        self.namespaces: dict[str, Any] = {}
        self.found: dict[tuple[str, str], Any] = {}
        self.stubborn = stubborn
        self.log_answer: Answer | BaseException = Answer("flexnode-proof\n")
        self.images: list[str] = []

    def node(self, name: str) -> Any:
        return self.nodes.get(name)

    def namespace(self, name: str) -> Any:
        if self.namespaces.get(name) == TERMINATING and not self.found:
            del self.namespaces[name]
        return self.namespaces.get(name)

    def create_namespace(self, body: Any) -> None:
        self.namespaces[body["metadata"]["name"]] = body

    def create_service(self, _namespace: str, body: Any) -> Any:
        self.found["Service", body["metadata"]["name"]] = body
        return {**body, "spec": {"clusterIP": "10.0.7.7"}}

    def create_pod(self, _namespace: str, body: Any) -> None:
        ended = {"name": "report", "state": {"terminated": {"exitCode": 0, "message": REPORT}}}
        status = {
            "phase": "Running",
            "podIP": "10.244.20.5",
            "initContainerStatuses": [ended],
            "containerStatuses": [{"name": "probe", "state": {"running": {}}}],
        }
        self.found["Pod", body["metadata"]["name"]] = {**body, "status": status}
        containers = [*body["spec"].get("initContainers", ()), *body["spec"]["containers"]]
        self.images += [one["image"] for one in containers]

    def pods(self, _namespace: str, _selector: str) -> list[Any]:
        return [one for (kind, _), one in self.found.items() if kind == "Pod"]

    def log(self, *_where: str) -> Answer:
        if isinstance(self.log_answer, BaseException):
            raise self.log_answer
        return self.log_answer

    def run(self, *_what: Any) -> Answer:
        return Answer("flexnode-proof\n")

    def proofs(self) -> list[Any]:
        return list(self.namespaces.values())

    def objects(self, _namespace: str, _selector: str) -> list[tuple[str, Any]]:
        return [(kind, one) for (kind, _), one in self.found.items()]

    def delete(self, kind: str, _namespace: str, name: str, *, grace: int | None = None) -> None:
        if not self.stubborn or grace == 0:
            self.found.pop((kind, name), None)

    def delete_namespace(self, name: str) -> None:
        """It stays for as long as something is in it."""
        self.namespaces[name] = TERMINATING
        self.namespace(name)


class SlowCluster(FakeCluster):
    """Pods of a node run some seconds after they were created."""

    def __init__(self, clock: Clock, **seconds: float) -> None:
        super().__init__()
        self.clock, self.seconds = clock, {name.replace("_", "-"): wait for name, wait in seconds.items()}
        self.nodes = dict.fromkeys(self.seconds, NODE)
        self.runs_at: dict[str, float] = {}

    def create_pod(self, namespace: str, body: Any) -> None:
        super().create_pod(namespace, body)
        (term,) = body["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        (node,) = term["matchFields"][0]["values"]
        self.runs_at[body["metadata"]["name"]] = self.clock.monotonic() + self.seconds[node]

    def pods(self, namespace: str, selector: str) -> list[Any]:
        now = self.clock.monotonic()
        found = super().pods(namespace, selector)
        return [
            pod if now >= self.runs_at[pod["metadata"]["name"]] else {**pod, "status": {"phase": "Pending"}}
            for pod in found
        ]

    def warnings(self, _namespace: str, _pod: str) -> list[str]:
        return ["no answer of the kubelet"]


def prove(
    cluster: FakeCluster, *names: str | Target, clock: Clock | None = None
) -> tuple[list[run.NodeProof], list[str]]:
    clock = clock or Clock()
    made = run.new_run("busybox", 120, "", clock, len(names))
    nodes = [name if isinstance(name, Target) else Target(name) for name in names]
    return run.prove(lambda: cast(Cluster, cluster), made, nodes, True, clock)


def test_passes_and_leaves_nothing() -> None:
    cluster = FakeCluster()
    (proof,), remains = prove(cluster, "edge-1")
    assert proof.error is None
    assert proof.summary.startswith("edge-1  proven  pod, dns, service, logs, exec")
    assert (remains, cluster.found, cluster.namespaces) == ([], {}, {})


def test_one_node_does_not_spoil_the_other() -> None:
    cluster = FakeCluster()
    first, second = prove(cluster, "edge-1", "edge-9")[0]
    assert first.error is None
    assert isinstance(second.error, NodeNotReady)
    assert cluster.found == {}


def test_pods_on_a_node_of_another_machine_prove_nothing() -> None:
    """Its name is the same, its cluster is not: the kubeconfig is of another one."""
    cluster = FakeCluster()
    status: dict[str, Any] = NODE["status"]
    cluster.nodes["edge-1"] = {"status": {**status, "nodeInfo": {"machineID": "1" * 32}}}
    (own,), _remains = prove(cluster, Target("edge-1", "1" * 32))
    assert own.error is None
    (other,), remains = prove(cluster, Target("edge-1", "2" * 32))
    assert isinstance(other.error, OtherCluster)
    assert other.error.where == cluster.server
    assert (remains, cluster.found, cluster.namespaces) == ([], {}, {})


def test_each_node_pulls_its_own_image() -> None:
    cluster = FakeCluster()
    prove(cluster, Target("edge-1", image="registry.site/busybox"))
    prove(cluster, "edge-1")
    assert cluster.images == [*["registry.site/busybox"] * 3, *["busybox"] * 3]


def test_each_node_has_the_whole_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes wait for a free thread: the time of one that hangs is not taken from those after it."""
    monkeypatch.setattr(run, "AT_ONCE", 1)
    clock = Clock()
    cluster = SlowCluster(clock, hangs=1000, edge_2=30, edge_3=119, edge_4=125)
    proofs, _remains = prove(cluster, "hangs", "edge-2", "edge-3", "edge-4", clock=clock)
    assert [(proof.name, proof.error is None) for proof in proofs] == [
        ("hangs", False),
        ("edge-2", True),
        ("edge-3", True),
        ("edge-4", False),
    ]
    assert 120 <= proofs[0].seconds < 125, "and no more than that"


def test_what_a_proof_of_many_nodes_made_is_not_a_leftover_while_it_runs() -> None:
    clock = Clock()
    few, many = (run.new_run("busybox", 120, "", clock, nodes) for nodes in (1, 10 * run.AT_ONCE))
    assert few.expires >= clock.now() + 120
    assert many.expires >= clock.now() + 10 * 120


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(1)])
def test_interrupted_proof_leaves_nothing(end: BaseException) -> None:
    cluster = FakeCluster()
    cluster.log_answer = end
    with pytest.raises(type(end)):
        prove(cluster, "edge-1")
    assert (cluster.found, cluster.namespaces) == ({}, {})


def test_pod_that_its_kubelet_does_not_give_up_is_removed_by_force() -> None:
    cluster = FakeCluster(stubborn=True)
    assert prove(cluster, "edge-1")[1] == []
    assert cluster.found == {}


def test_what_a_killed_proof_left_is_removed() -> None:
    cluster = FakeCluster()
    for name, owner in (("dead", f"{socket.gethostname()}/999999999"), ("busy", f"{socket.gethostname()}/1")):
        left = objects.Run("x", name, "busybox", 120, owner, 5000)
        cluster.create_namespace(objects.namespace(left))
    prove(cluster, "edge-1")
    assert list(cluster.namespaces) == ["busy"]
    assert os.getpid() != 1
