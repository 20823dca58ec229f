# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines become Ready nodes by one playbook run, stay as they are, and leave again. Seen from outside."""

from __future__ import annotations

import base64
import ipaddress
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from scripts import build_collection
from testbed import Testbed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.conftest import MachineMaker

# Each platform with each containerd line.
MATRIX = {
    "bookworm-2x": ("debian12", versions.CONTAINERD),
    "bookworm-17": ("debian12", versions.CONTAINERD_OLD),
    "trixie-2x": ("debian13", versions.CONTAINERD),
    "trixie-17": ("debian13", versions.CONTAINERD_OLD),
}
USUAL = "bookworm-2x"
GROUPS = {"usual": (USUAL,), "others": tuple(name for name in MATRIX if name != USUAL)}
LABELS = {"site": "lab-1", "example.com/rack": "r7"}
TAINT = {"key": "edge", "value": "true", "effect": "NoSchedule"}
MODULE_RUNS = 8


@dataclass(frozen=True)
class Joined:
    """Machines after one bootstrap, with every word that it can say."""

    inventory: Path
    machines: dict[str, Machine]
    run: Play
    token: str


@pytest.fixture(scope="module", params=[pytest.param("usual", marks=pytest.mark.smoke), "others"])
def joined(
    bed: Testbed,
    machines: MachineMaker,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Joined:
    """Machines that joined in one run: a usual one, and one of each other kind."""
    names = GROUPS[request.param]
    made = machines(*((name, MATRIX[name][0]) for name in names))
    document = fleet.join_document(bed)
    document["node"] |= {"labels": LABELS, "taints": [TAINT], "maxPods": 42}
    for version in sorted({MATRIX[name][1] for name in names} - {versions.CONTAINERD}):
        document = updating.with_served(bed, document, containerd=version)
    path = fleet.write_inventory(
        bed,
        made,
        tmp_path_factory.mktemp(request.param) / "edge_hosts.yml",
        flexnode_config=document,
        host_configs={name: {"containerd": {"version": MATRIX[name][1]}} for name in names},
    )
    run = fleet.succeeded(fleet.play("bootstrap", path, "-vvv", "--diff"))
    token = document["azure"]["bootstrapToken"]["token"]
    return Joined(path, {machine.name: machine for machine in made}, run, token)


def test_node_is_ready_with_what_was_asked_for(bed: Testbed, joined: Joined) -> None:
    for name in joined.machines:
        seen = fleet.node(bed, name)
        info = seen["status"]["nodeInfo"]
        assert fleet.is_ready(seen)
        assert info["kubeletVersion"] == f"v{bed.cluster.version}"
        assert info["containerRuntimeVersion"] == f"containerd://{MATRIX[name][1]}"
        assert LABELS.items() <= seen["metadata"]["labels"].items()
        assert seen["metadata"]["labels"]["kubernetes.azure.com/managed"] == "false"
        assert TAINT in seen["spec"]["taints"]
        assert seen["status"]["capacity"]["pods"] == "42"
        platform = "bookworm" if MATRIX[name][0] == "debian12" else "trixie"
        assert platform in info["osImage"]


def test_pod_placed_by_the_scheduler_runs_and_can_be_watched(bed: Testbed, joined: Joined) -> None:
    for name, machine in joined.machines.items():
        runs_a_pod(bed, machine, name)


def runs_a_pod(bed: Testbed, machine: Machine, name: str) -> None:
    """A pod on one node: its address, its log, a command in it."""
    pod = f"hello-{name}"
    bed.cluster.kubectl("apply", "-f", "-", input=json.dumps(_pod(bed, pod, name)))
    try:
        bed.cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=60s")
        status = json.loads(bed.cluster.kubectl("get", "pod", pod, "-o", "json"))
        assert status["spec"]["nodeName"] == name
        address = ipaddress.ip_address(status["status"]["podIP"])
        assert address in ipaddress.ip_network(machine.pod_cidr)
        assert bed.cluster.kubectl("logs", pod).strip() == f"hello from {pod}"
        assert bed.cluster.kubectl("exec", pod, "--", "hostname").strip() == pod
    finally:
        bed.cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")


def _pod(bed: Testbed, name: str, node: str) -> dict[str, Any]:
    """A pod that only the scheduler can place: by a label of the node, not by its name."""
    script = f"echo hello from {name}; sleep 3600"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node, "site": "lab-1"},
            "tolerations": [{"key": "edge", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": bed.registry.workload_image, "command": ["/bin/sh", "-c", script]}
            ],
        },
    }


def test_few_modules_run_on_each_machine(joined: Joined) -> None:
    for name in joined.machines:
        runs = joined.run.modules(name)
        assert 1 <= len(runs) <= MODULE_RUNS, runs


def test_second_bootstrap_changes_nothing(joined: Joined) -> None:
    before = {name: (fleet.main_pids(m), fleet.snapshot(m)) for name, m in joined.machines.items()}
    run = fleet.succeeded(fleet.play("bootstrap", joined.inventory))
    for name, machine in joined.machines.items():
        assert run.changed(name) == 0, run.output
        assert (fleet.main_pids(machine), fleet.snapshot(machine)) == before[name]


def test_check_mode_on_a_converged_machine_is_empty(joined: Joined) -> None:
    run = fleet.succeeded(fleet.play("bootstrap", joined.inventory, "--check", "--diff"))
    for name in joined.machines:
        assert run.changed(name) == 0, run.output
        assert run.result(name, "flexnode_reconcile")["actions"] == []


def test_status_shows_every_node(joined: Joined) -> None:
    run = fleet.succeeded(fleet.play("status", joined.inventory))
    for name in joined.machines:
        status = run.result(name, "flexnode_status_info")["status"]
        assert status["node"]["status"] == "Ready"
        assert status["drift"] == []
        assert status["phase"] == "NodeJoined"


def test_changed_label_reaches_the_node_without_a_restart(bed: Testbed, joined: Joined) -> None:
    name, machine = next(iter(joined.machines.items()))
    before = fleet.main_pids(machine)
    changed = ["-e", json.dumps({"flexnode_hosts": name})]
    inventory = yaml.safe_load(joined.inventory.read_text())
    inventory["all"]["hosts"][name]["flexnode_host_config"]["node"] = {"labels": {"site": "lab-2"}}
    path = joined.inventory.with_name("relabelled.yml")
    path.write_text(yaml.safe_dump(inventory))
    fleet.succeeded(fleet.play("bootstrap", path, *changed))
    assert fleet.node(bed, name)["metadata"]["labels"]["site"] == "lab-2"
    fleet.succeeded(fleet.play("bootstrap", joined.inventory, *changed))
    assert fleet.node(bed, name)["metadata"]["labels"]["site"] == "lab-1"
    assert fleet.main_pids(machine)["containerd.service"] == before["containerd.service"]


def test_secrets_stay_out_of_sight(joined: Joined) -> None:
    """In all that the first run said, in the journal, and in files that others can read."""
    secret = joined.token.partition(".")[2]
    assert secret not in joined.run.output
    assert secret not in json.dumps(list(joined.run.events))
    for machine in joined.machines.values():
        assert secret not in machine.run(["journalctl", "--no-pager"]).stdout
        assert_private(machine, joined.token)


def assert_private(machine: Machine, token: str) -> None:
    """Only root can read the files that hold the token."""
    encoded = base64.b64encode(token.encode()).decode()
    pattern = f"{token.partition('.')[2]}|{encoded}"
    places = ("/etc", "/var/lib", "/var/log", "/opt", "/tmp", "/run", "/home")
    found = machine.run(["grep", "-rlE", pattern, *places], check=False).stdout.split()
    assert found, "the token must be somewhere, or this looks in the wrong places"
    for path in found:
        mode = machine.run(["stat", "-c", "%a %U", path]).stdout.strip()
        assert mode == "600 root", f"{path} {mode}"


# ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Renewing:
    """A machine whose kubelet renews its certificate soon."""

    machine: Machine
    first: x509.Certificate


@pytest.fixture(scope="module")
def renewing(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Renewing:
    """A certificate that the kubelet renews within two minutes, while other tests run.

    The signer dates certificates back by five minutes and the kubelet renews after 70 to 90 % of the whole
    lifetime: with 130 s left that is 1 to 87 s from now.
    """
    (machine,) = machines(("renewing", "debian12"))
    path = tmp_path_factory.mktemp("renewing") / "hosts.yml"
    inventory = fleet.write_inventory(bed, [machine], path, flexnode_config=fleet.join_document(bed))
    before = bed.cluster.signing_duration
    bed.cluster.set_signing_duration("130s")
    try:
        fleet.succeeded(fleet.play("bootstrap", inventory))
        return Renewing(machine, _certificate(machine))
    finally:
        bed.cluster.set_signing_duration(before)


def test_kubelet_gets_a_certificate_of_its_own(bed: Testbed, renewing: Renewing) -> None:
    name = renewing.first.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    assert name == "system:node:renewing"
    cluster_ca = x509.load_pem_x509_certificate(bed.cluster.ca_pem.encode())
    renewing.first.verify_directly_issued_by(cluster_ca)


def _certificate(machine: Machine) -> x509.Certificate:
    pem = machine.read("/var/lib/kubelet/pki/kubelet-client-current.pem")
    return x509.load_pem_x509_certificate(pem.encode())


def test_fresh_machine_plan_prepare_bootstrap_leave_and_again(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    (machine,) = machines(("whole-life", "debian13"))
    document = fleet.join_document(bed)
    inventory = fleet.write_inventory(bed, [machine], tmp_path / "hosts.yml", flexnode_config=document)
    fresh = fleet.snapshot(machine)

    # check mode tells all and changes nothing
    preview = fleet.succeeded(fleet.play("bootstrap", inventory, "--check", "--diff"))
    planned = preview.result("whole-life", "flexnode_reconcile")["actions"]
    assert fleet.snapshot(machine) == fresh
    assert "install kubelet 1.34.4" in planned
    assert "start kubelet.service" in planned
    assert "/etc/containerd/config.toml" in preview.output
    assert document["azure"]["bootstrapToken"]["token"] not in preview.output

    # prepare fetches everything but joins nothing; bootstrap then fetches nothing
    fleet.succeeded(fleet.play("prepare", inventory))
    assert "whole-life" not in fleet.node_names(bed)
    assert fleet.main_pids(machine) == {"containerd.service": "0", "kubelet.service": "0"}
    served = len(bed.mirror.requests())
    run = fleet.succeeded(fleet.play("bootstrap", inventory))
    assert len(bed.mirror.requests()) == served
    assert fleet.is_ready(fleet.node(bed, "whole-life"))
    # what was planned on the fresh machine is what was done by the two together
    assert set(run.result("whole-life", "flexnode_reconcile")["actions"]) <= set(planned)

    # leave: nothing of it stays, twice over
    fleet.succeeded(fleet.play("unbootstrap", inventory))
    assert "whole-life" not in fleet.node_names(bed)
    assert fleet.snapshot(machine) == fresh
    units = machine.run(
        ["systemctl", "list-unit-files", "containerd.service", "kubelet.service"], check=False
    )
    assert "0 unit files" in units.stdout
    again = fleet.succeeded(fleet.play("unbootstrap", inventory))
    assert again.changed("whole-life") == 0

    # and the machine can join again
    fleet.succeeded(fleet.play("bootstrap", inventory))
    assert fleet.is_ready(fleet.node(bed, "whole-life"))


def test_installed_collection_works_without_the_checkout(
    bed: Testbed, machines: MachineMaker, tmp_path: Path
) -> None:
    """As a user has it: the tarball installed, no ansible.cfg of ours, no pipelining."""
    (machine,) = machines(("installed", "debian13"))
    galaxy = [str(Path(sys.executable).with_name("ansible-galaxy")), "collection"]
    tarball = build_collection.build(tmp_path / "dist")
    collections = tmp_path / "collections"
    subprocess.run([*galaxy, "install", str(tarball), "-p", str(collections)], check=True, cwd=tmp_path)
    inventory = fleet.write_inventory(
        bed, [machine], tmp_path / "edge_hosts.yml", flexnode_config=fleet.join_document(bed)
    )
    users = {"ANSIBLE_CONFIG": str(tmp_path / "none.cfg"), "ANSIBLE_COLLECTIONS_PATH": str(collections)}
    for playbook, present in (("bootstrap", True), ("status", True), ("unbootstrap", False)):
        run = fleet.play(f"aks.flexnode.{playbook}", inventory, environment=users, directory=tmp_path)
        fleet.succeeded(run)
        assert ("installed" in fleet.node_names(bed)) is present


def test_kubelet_renews_its_certificate(bed: Testbed, renewing: Renewing) -> None:
    """Last in this file: it had the time of the other tests to do so."""
    fleet.eventually(
        "a renewed certificate",
        lambda: _certificate(renewing.machine).serial_number != renewing.first.serial_number,
        120,
    )
    assert fleet.is_ready(fleet.node(bed, "renewing"))
