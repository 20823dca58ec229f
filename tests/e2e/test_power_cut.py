# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine is switched off in each phase of an update: it comes back as a node, and the next run completes.

Phases that last milliseconds are stretched: a process on the machine freezes the update (SIGSTOP) as soon as
its record says that the phase has begun. What is on the disk then is what a power cut leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from testbed import Fault, Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.updating import KUBELET, Document, Group, changed, with_versions

OLD, NEW = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES
FREEZER = """
import json, os, signal, sys, time
os.nice(-20)  # it sleeps between two looks and goes first when it wakes: a phase may last milliseconds
deadline = time.monotonic() + 120
def stage():
    try:
        with open("/var/lib/aks-flex-node/transaction.json") as file:
            return json.load(file)["stage"]
    except (OSError, ValueError):
        return ""
while stage() != sys.argv[1]:
    if time.monotonic() > deadline:
        sys.exit("the update did not come to: " + sys.argv[1])
    time.sleep(0.0005)
with open("/run/aks-flex-node/lease.json") as file:
    update = json.load(file)["pid"]
os.kill(update, signal.SIGSTOP)
if stage() != sys.argv[1]:
    os.kill(update, signal.SIGCONT)
    sys.exit("the update was frozen too late: " + stage())
"""


@pytest.fixture(scope="module")
def group(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Group:
    """A node with a pod that no drain may evict."""
    made = machines(("unplugged", "debian12"))
    document = with_versions(bed, fleet.join_document(bed), kubernetes=OLD)
    return Group.joined(bed, made, document, tmp_path_factory.mktemp("cut") / "hosts.yml")


@pytest.fixture
def machine(group: Group) -> Iterator[Machine]:
    """The node at the old version, and again after the test."""
    (machine,) = group.machines
    assert updating.running_version(machine, KUBELET) == OLD
    yield machine
    back = changed(group.document, upgrade={"allowDowngrade": True})
    fleet.succeeded(group.play("update", back))


@contextmanager
def switched_off(group: Group, document: Document, when: Callable[[Future[Play]], None]) -> Iterator[None]:
    """An update during which the machine loses its power, and has it back when the block ends."""
    (machine,) = group.machines
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(group.play, "update", document)
        try:
            when(running)
            assert not running.done(), running.result().output
            machine.stop()
            yield
        finally:
            machine.start()
        assert running.result(timeout=180).status != 0


def comes_back(group: Group, *kubelets: str) -> None:
    """By itself, with one of these versions."""
    (machine,) = group.machines
    fleet.eventually("Node Ready", partial(updating.freshly_ready, group.bed, machine), 90)
    assert updating.running_version(machine, KUBELET) in kubelets


def completes(group: Group, document: Document) -> None:
    """The same command again ends in the new version, and then has nothing to do."""
    (machine,) = group.machines
    fleet.succeeded(group.play("update", document))
    assert updating.freshly_ready(group.bed, machine)
    found = fleet.node(group.bed, machine.name)
    assert updating.running_version(machine, KUBELET) == NEW
    assert found["status"]["nodeInfo"]["kubeletVersion"] == f"v{NEW}"
    assert not found["spec"].get("unschedulable")
    again = fleet.succeeded(group.play("update", document))
    assert again.changed(machine.name) == 0, again.output


def frozen(machine: Machine, stage: str, _running: Future[Play]) -> None:
    """Wait until the update is frozen in a stage."""
    machine.run(["python3", "-c", FREEZER, stage], timeout=150)


def test_while_fetching(bed: Testbed, group: Group, machine: Machine) -> None:
    newer = with_versions(bed, group.document, kubernetes=NEW)
    served = len(bed.mirror.requests())
    bed.mirror.fail(Fault("*/kubectl", delay=8))

    def fetching(_running: Future[Play]) -> None:
        fleet.eventually("the first download", lambda: len(bed.mirror.requests()) > served)

    with switched_off(group, newer, fetching):
        bed.mirror.heal()
    comes_back(group, OLD)
    completes(group, newer)


def test_while_draining(bed: Testbed, group: Group, machine: Machine) -> None:
    newer = changed(with_versions(bed, group.document, kubernetes=NEW), upgrade={"drain": "always"})
    updating.run_pods(bed, updating.deployment(bed, "unmoved", machine.name))
    budget = ("poddisruptionbudget", "unmoved")
    bed.cluster.kubectl("create", *budget, "--selector=app=unmoved", "--min-available=1")

    def draining(_running: Future[Play]) -> None:
        cordoned = lambda: fleet.node(bed, machine.name)["spec"].get("unschedulable")  # noqa: E731
        fleet.eventually("a cordoned Node", cordoned)

    try:
        with switched_off(group, newer, draining):
            pass
        comes_back(group, OLD)
    finally:
        bed.cluster.kubectl("delete", *budget)
    completes(group, newer)
    bed.cluster.kubectl("delete", "deployment", "unmoved")


@pytest.mark.parametrize("stage", ["applying", "proving", "committed"])
def test_while_changing(bed: Testbed, group: Group, machine: Machine, stage: str) -> None:
    newer = with_versions(bed, group.document, kubernetes=NEW)
    with switched_off(group, newer, partial(frozen, machine, stage)):
        pass
    comes_back(group, *((OLD, NEW) if stage == "applying" else (NEW,)))
    completes(group, newer)


def test_while_rolling_back(bed: Testbed, group: Group, machine: Machine) -> None:
    """Whoever comes next completes the rollback, also a run that wants the same bad document."""
    bad = with_versions(bed, group.document, kubernetes=versions.KUBELET_EXITS)
    with switched_off(group, bad, partial(frozen, machine, "rolling back")):
        pass
    code, message = updating.failure(group.play("update", bad), machine.name)
    assert code == "FLEX-1508", message
    comes_back(group, OLD)
    assert "rolled back" in updating.status(machine)
    run = fleet.succeeded(group.play("update", group.document))
    assert run.changed(machine.name) == 0, run.output
