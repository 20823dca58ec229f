# SPDX-License-Identifier: GPL-3.0-or-later
"""A change that breaks a node is taken back: the old version runs, the Node is Ready, the reason is known.

Seen from outside: the process that runs, its report at the API server, the container of a pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from testbed import Testbed
from testbed.basics import podman
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.updating import CONTAINERD, KUBELET, Document, Group, changed, with_versions

NAME = "careful"
READY_SECONDS = 30
# A kubelet that never reports can only be told by waiting; the others show themselves earlier.
GATE_SECONDS = 15
RETRY = ("--extra-vars", "flexnode_retry=true")


def bad_overrides(bed: Testbed, document: Document) -> Document:
    """The kubelet exits at once with an error about its own configuration file."""
    return changed(document, kubelet={"configOverrides": {"evictionHard": {"memory.available": "nonsense"}}})


def kubernetes(version: str) -> Callable[[Testbed, Document], Document]:
    """That version."""
    return lambda bed, document: with_versions(bed, document, kubernetes=version)


def containerd(version: str) -> Callable[[Testbed, Document], Document]:
    """That version."""
    return lambda bed, document: with_versions(bed, document, containerd=version)


@dataclass(frozen=True)
class Case:
    """A bad document, the unit that it breaks, and the cause that error and status name."""

    document: Callable[[Testbed, Document], Document]
    unit: str
    cause: str  # a regular expression


CASES = {
    "bad overrides": Case(bad_overrides, KUBELET, "quantities must match"),
    "kubelet exits": Case(kubernetes(versions.KUBELET_EXITS), KUBELET, "this build .* always exits"),
    "kubelet never Ready": Case(
        kubernetes(versions.KUBELET_NEVER_READY), KUBELET, "not Ready|can't reach the API server"
    ),
    "kubelet stops after 3 s": Case(
        kubernetes(versions.KUBELET_STOPS), KUBELET, "stopped after 3s|without a restart"
    ),
    "containerd refuses its configuration": Case(
        containerd(versions.CONTAINERD_REFUSES), CONTAINERD, "failed to load TOML"
    ),
}
SMOKE = "kubelet exits"


@dataclass(frozen=True)
class Node:
    """A node with a pod on it."""

    group: Group
    machine: Machine
    containers: dict[str, str]

    @property
    def bed(self) -> Testbed:
        return self.group.bed

    def apply(self, document: Document, *options: str) -> Play:
        """What a user does after a change."""
        return self.group.play("bootstrap", document, *options)

    def works(self, seconds: float) -> None:
        """The versions of the join run and report, and nothing happened to the pod."""
        fleet.eventually(
            "Node Ready, as its present kubelet reports it",
            lambda: updating.freshly_ready(self.bed, self.machine),
            seconds,
        )
        assert updating.running_version(self.machine, KUBELET) == versions.KUBERNETES
        assert updating.running_version(self.machine, CONTAINERD) == versions.CONTAINERD
        info = fleet.node(self.bed, NAME)["status"]["nodeInfo"]
        assert info["kubeletVersion"] == f"v{versions.KUBERNETES}"
        assert info["containerRuntimeVersion"] == f"containerd://{versions.CONTAINERD}"
        assert not fleet.node(self.bed, NAME)["spec"].get("unschedulable")
        assert updating.containers(self.bed, "bystander") == self.containers

    def rolls_back(self, document: Document, cause: str, *options: str) -> str:
        """A run that ends with the old state; returns the error's code. The benchmark measures its time."""
        run = self.apply(document, *options)
        code, message = updating.failure(run, NAME)
        assert "rolled back" in message, message
        assert re.search(cause, message), message
        self.works(READY_SECONDS)
        return code


@pytest.fixture(scope="module")
def working(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Node:
    """A node that works, with a pod."""
    (machine,) = machines((NAME, "debian12"))
    document = changed(fleet.join_document(bed), upgrade={"gateSeconds": GATE_SECONDS})
    group = Group.joined(bed, [machine], document, tmp_path_factory.mktemp("rollback") / "hosts.yml")
    updating.run_pods(bed, updating.pod(bed, "bystander", NAME))
    return Node(group, machine, updating.containers(bed, "bystander"))


@pytest.fixture
def node(working: Node) -> Iterator[Node]:
    """The same node for each test; one that a test left broken does not spoil the next test."""
    yield working
    working.apply(working.group.document)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.smoke] if name == SMOKE else []) for name in CASES]
)
def test_a_bad_change_is_rolled_back_and_blocked(node: Node, name: str) -> None:
    case = CASES[name]
    bad = case.document(node.bed, node.group.document)
    code = node.rolls_back(bad, case.cause)
    reason = updating.status(node.machine)
    assert code in reason
    assert "rolled back" in reason
    assert re.search(case.cause, reason), reason

    # It is not tried again by itself.
    pids = fleet.main_pids(node.machine)
    _, message = updating.failure(node.apply(bad), NAME)
    assert "blocked" in message, message
    assert "flexnode_retry" in message, message
    assert fleet.main_pids(node.machine) == pids
    node.works(1)

    # Only if someone says so.
    node.rolls_back(bad, case.cause, *RETRY)
    assert fleet.main_pids(node.machine)[case.unit] != pids[case.unit]

    # The document that works is what the node has: nothing to do, and the reason is gone.
    pids = fleet.main_pids(node.machine)
    run = fleet.succeeded(node.apply(node.group.document))
    assert run.changed(NAME) == 0, run.output
    assert fleet.main_pids(node.machine) == pids
    assert "rolled back" not in updating.status(node.machine)


def test_a_blocked_version_is_tried_again_in_another_document(node: Node) -> None:
    """Blocked is the document, not the number: what broke it may have been fixed beside it."""
    bad = with_versions(node.bed, node.group.document, kubernetes=versions.KUBELET_EXITS)
    cause = CASES["kubelet exits"].cause
    node.rolls_back(changed(bad, node={"labels": {"try": "one"}}), cause)
    node.rolls_back(changed(bad, node={"labels": {"try": "two"}}), cause)
    assert "try" not in fleet.node(node.bed, NAME)["metadata"]["labels"]
    fleet.succeeded(node.apply(node.group.document))


def test_a_change_that_works_is_applied_after_a_rollback(node: Node) -> None:
    bad = bad_overrides(node.bed, node.group.document)
    node.rolls_back(bad, CASES["bad overrides"].cause)
    good = {"evictionHard": {"memory.available": "64Mi"}}
    fleet.succeeded(node.apply(changed(node.group.document, kubelet={"configOverrides": good})))
    node.works(5)
    fleet.succeeded(node.apply(node.group.document))
    node.works(5)


def test_a_cut_line_during_the_gate_is_no_reason_to_roll_back(node: Node) -> None:
    """Nobody can say whether the Node is Ready: the change stays, and the next run completes it."""
    document = changed(node.group.document, node={"maxPods": 47})
    before = fleet.main_pids(node.machine)[KUBELET]
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(node.apply, document)
        fleet.eventually(
            "a new kubelet", lambda: fleet.main_pids(node.machine)[KUBELET] not in ("0", before), 60
        )
        podman.podman("stop", "--time", "0", node.bed.site.container("kube-apiserver"))
        try:
            run = running.result(timeout=120)
            code, message = updating.failure(run, NAME)
            pids = fleet.main_pids(node.machine)
        finally:
            node.bed.up()
    assert code == "FLEX-1504", message
    assert "rolled back" not in message
    fleet.succeeded(node.apply(document))
    assert fleet.main_pids(node.machine) == pids, "it was restarted once, before the line was cut"
    assert fleet.node(node.bed, NAME)["status"]["capacity"]["pods"] == "47"
    node.works(5)
