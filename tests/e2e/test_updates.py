# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of working nodes: settings, versions, batches. Seen from outside."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from testbed import Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph
from tests.e2e.updating import CONTAINERD, KUBELET, Document, Group, changed, with_versions

Joiner = Callable[..., Group]
WITHOUT_SCHEMAS = "4d800d2354a0f4dbcc416fef6b96c25643ba7f30"  # the last commit before state had a schema


@pytest.fixture
def joined(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> Joiner:
    """`joined("name", kubernetes="1.34.3")`: a fresh machine that joined with these versions."""

    def join(*names: str, **wanted: str) -> Group:
        made = machines(*((name, "debian12") for name in names))
        document = with_versions(bed, fleet.join_document(bed), **wanted)
        return Group.joined(bed, made, document, tmp_path / "hosts.yml")

    return join


def updated(group: Group, document: Document, *options: str) -> Play:
    """An update that works, after which the Node is Ready as its present kubelet reports it."""
    run = fleet.succeeded(group.play("update", document, *options))
    for machine in group.machines:
        assert updating.freshly_ready(group.bed, machine), run.output
        assert not fleet.node(group.bed, machine.name)["spec"].get("unschedulable")
    return run


def info(bed: Testbed, name: str) -> dict[str, str]:
    """Versions of a Node, as the API server has them."""
    found: dict[str, str] = fleet.node(bed, name)["status"]["nodeInfo"]
    return found


def test_settings(bed: Testbed, joined: Joiner) -> None:
    """Labels and taints never restart the kubelet; a setting of the kubelet restarts only the kubelet."""
    name = "settled"
    group = joined(name)
    (machine,) = group.machines
    taint = {"key": "edge", "value": "true", "effect": "NoSchedule"}
    pids = fleet.main_pids(machine)

    labelled = changed(group.document, node={"labels": {"site": "lab-1"}})
    run = updated(group, labelled)
    assert fleet.node(bed, name)["metadata"]["labels"]["site"] == "lab-1"
    assert fleet.main_pids(machine) == pids
    assert "updated (labels)" in run.output

    tainted = changed(labelled, node={"taints": [taint]})
    run = updated(group, tainted)
    assert taint in fleet.node(bed, name)["spec"]["taints"]
    assert fleet.main_pids(machine) == pids
    assert "updated (taints)" in run.output

    larger = changed(tainted, node={"maxPods": 43})
    preview = fleet.succeeded(group.play("update", larger, "--check", "--diff"))
    assert re.search(r"^\+.*maxPods.*43", preview.output, re.MULTILINE), preview.output
    assert fleet.main_pids(machine) == pids
    run = updated(group, larger)
    assert fleet.node(bed, name)["status"]["capacity"]["pods"] == "43"
    assert "updated (maxPods)" in run.output
    after = fleet.main_pids(machine)
    assert after[KUBELET] != pids[KUBELET]
    assert after[CONTAINERD] == pids[CONTAINERD]

    again = updated(group, larger)
    assert again.changed(name) == 0, again.output
    assert "unchanged" in again.output
    assert fleet.main_pids(machine) == after

    updated(group, group.document)
    restored = fleet.node(bed, name)
    assert "site" not in restored["metadata"]["labels"]
    assert taint not in restored["spec"].get("taints", [])


@pytest.mark.parametrize(
    "old",
    [pytest.param(versions.KUBERNETES_RENUMBERED, marks=pytest.mark.smoke), versions.KUBERNETES_OLD_PATCH],
)
def test_patch_upgrade_keeps_the_containers(bed: Testbed, joined: Joiner, old: str) -> None:
    name = f"patched-{old.replace('.', '-')}"
    group = joined(name, kubernetes=old)
    (machine,) = group.machines
    updating.run_pods(bed, updating.pod(bed, "stays", name))
    before, pids = updating.containers(bed, "stays"), fleet.main_pids(machine)
    assert info(bed, name)["kubeletVersion"] == f"v{old}"
    assert updating.running_version(machine, KUBELET) == old

    updated(group, with_versions(bed, group.document, kubernetes=versions.KUBERNETES))

    assert info(bed, name)["kubeletVersion"] == f"v{versions.KUBERNETES}"
    assert updating.running_version(machine, KUBELET) == versions.KUBERNETES
    assert updating.containers(bed, "stays") == before
    after = fleet.main_pids(machine)
    assert after[CONTAINERD] == pids[CONTAINERD]
    assert after[KUBELET] != pids[KUBELET]


def test_minor_upgrade_drains_and_waits_for_a_disruption_budget(bed: Testbed, joined: Joiner) -> None:
    name = "drained"
    group = joined(name, kubernetes=versions.KUBERNETES_OLD_MINOR)
    (machine,) = group.machines
    updating.run_pods(bed, updating.deployment(bed, "guarded", name))
    before, pids = updating.containers(bed, "guarded"), fleet.main_pids(machine)
    bed.cluster.kubectl(
        "create", "poddisruptionbudget", "guarded", "--selector=app=guarded", "--min-available=1"
    )
    newer = with_versions(bed, group.document, kubernetes=versions.KUBERNETES)

    preview = fleet.succeeded(group.play("update", newer, "--check"))
    assert "drained first" in preview.output, preview.output
    assert not fleet.node(bed, name)["spec"].get("unschedulable")

    with ThreadPoolExecutor(1) as pool:
        try:
            running = pool.submit(updated, group, newer)
            fleet.eventually("a cordoned Node", lambda: fleet.node(bed, name)["spec"].get("unschedulable"))
            time.sleep(5)  # long enough for an update that does not wait
            assert not running.done()
            assert updating.containers(bed, "guarded") == before
            assert fleet.main_pids(machine) == pids
        finally:
            bed.cluster.kubectl("delete", "poddisruptionbudget", "guarded")
        running.result(timeout=180)

    assert info(bed, name)["kubeletVersion"] == f"v{versions.KUBERNETES}"
    after = fleet.eventually("the pod, in its new place", lambda: updating.containers(bed, "guarded"), 60)
    assert not before.keys() & after.keys()


def test_containerd_major_up_and_a_minor_back(bed: Testbed, joined: Joiner) -> None:
    name = "shipped"
    group = joined(name, containerd=versions.CONTAINERD_OLD)
    (machine,) = group.machines
    updating.run_pods(bed, updating.deployment(bed, "cargo", name))
    first = updating.containers(bed, "cargo")

    for version in (versions.CONTAINERD, versions.CONTAINERD_OLD_MINOR):
        updated(group, with_versions(bed, group.document, containerd=version))
        assert info(bed, name)["containerRuntimeVersion"] == f"containerd://{version}"
        assert updating.running_version(machine, CONTAINERD) == version
        running = fleet.eventually("the pod", lambda: updating.containers(bed, "cargo"), 60)
        assert not first.keys() & running.keys(), "a new major of the runtime is drained"
        updating.run_pods(bed, updating.pod(bed, f"fresh-{version.replace('.', '-')}", name))


def test_a_node_of_the_release_without_schemas(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    """Its state directory is understood: an update changes what changed, and the way back is exact.

    The program comes from the repository's history: this test needs a clone that has it.
    """
    name = "veteran"
    (machine,) = machines((name, "debian12"))
    before = photograph(machine)
    program = updating.program_of(WITHOUT_SCHEMAS, tmp_path)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    machine.copy_to(program, "/run/old.pyz")
    machine.run(["tee", "/run/config.json"], input=json.dumps(document))
    machine.run(["python3", "/run/old.pyz", "join", "--config", "/run/config.json"], timeout=300)
    assert "schema" not in machine.read("/var/lib/aks-flex-node/state.json")

    group = Group(bed, [machine], document, tmp_path / "hosts.yml")
    updated(group, changed(document, node={"maxPods": 45}))
    assert fleet.node(bed, name)["status"]["capacity"]["pods"] == "45"
    assert '"schema": 2' in machine.read("/var/lib/aks-flex-node/state.json")
    machine.run(["rm", "/run/old.pyz", "/run/config.json"])
    fleet.succeeded(group.play("unbootstrap", document, "--limit", name))
    assert differences(before, photograph(machine)) == []


def test_a_bad_machine_stops_the_batches(bed: Testbed, joined: Joiner) -> None:
    """Five machines, two at a time, the third is bad: the fifth is not touched, and all are accounted for."""
    names = [f"batch-{number}" for number in range(1, 6)]
    bad = names[2]
    group = joined(*names)
    machines: dict[str, Machine] = {machine.name: machine for machine in group.machines}
    before = {name: (fleet.main_pids(machine), fleet.snapshot(machine)) for name, machine in machines.items()}
    nonsense = {"kubelet": {"configOverrides": {"evictionHard": {"memory.available": "nonsense"}}}}
    wanted = changed(group.document, node={"maxPods": 44})

    run = group.play("update", wanted, "--extra-vars", "flexnode_serial=2", host_configs={bad: nonsense})

    _, message = updating.failure(run, bad)
    assert "rolled back" in message
    pods = {name: fleet.node(bed, name)["status"]["capacity"]["pods"] for name in names}
    assert [name for name in names if pods[name] == "44"] == [names[0], names[1], names[3]], run.output
    for name, machine in machines.items():
        fleet.eventually(f"{name} Ready", partial(updating.freshly_ready, bed, machine), 10)
    assert (fleet.main_pids(machines[names[4]]), fleet.snapshot(machines[names[4]])) == before[names[4]]
    assert not [event for event in run.events if event["host"] == names[4] and event["changed"]]
    results = ("updated (maxPods)", "updated (maxPods)", "rolled back", "updated (maxPods)", "not attempted")
    for name, result in zip(names, results, strict=True):
        row = rf"^.*{name}\b.*\b{re.escape(result)}"
        assert re.search(row, run.output, re.MULTILINE | re.IGNORECASE), run.output

    # Without the bad setting the same command finishes: only those that were left change.
    run = updated(group, wanted, "--extra-vars", "flexnode_serial=2")
    assert [name for name in names if run.changed(name)] == [bad, names[4]], run.output
