# SPDX-License-Identifier: GPL-3.0-or-later
"""Jobs of AWX: the templates of awx/data, run by ansible-runner in the image that ansible-builder built.

A job has what AWX gives it: credentials as files, environment and extra variables, an inventory without
secrets, the answers of a survey, no terminal. What came of it is looked at from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from secrets import randbelow
from typing import Any

import pytest
import yaml

from scripts import build_collection
from testbed import Testbed
from testbed.document import SITE
from testbed.execution import image as execution_environment
from testbed.execution.job import OF_RUNNER, PROJECT, Job, Result
from testbed.machine import Machine
from tests.e2e import cloud, fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.test_secrets import Searcher

STATE = "/var/lib/aks-flex-node"
OF_IMAGE = "/usr/share/ansible/collections/ansible_collections/aks/flexnode/"
OF_PROJECT = "/runner/requirements_collections/ansible_collections/aks/flexnode/"
CHECKED_KEYS = "-o StrictHostKeyChecking=yes -o UserKnownHostsFile=/runner/project/known_hosts"
GROUPS = "90_groups.constructed.yml"


@dataclass
class Awx:
    """Starts jobs, and knows which secrets they were given."""

    bed: Testbed
    image: str
    directory: Path
    secrets: dict[str, str] = field(default_factory=dict)
    jobs: int = field(default_factory=lambda: randbelow(10**6))
    """The number of the last job. A container is named after it, so other testbeds need other numbers."""

    def inventory(self, *machines: Machine, hosts: Mapping[str, Any] | None = None, **variables: Any) -> Path:
        """The files of a project's inventory: machines, and the groups that awx/project builds of them."""
        listed: dict[str, dict[str, Any]] = {
            machine.name: {
                "ansible_host": machine.ip,
                "flexnode_host_config": {"cni": {"podCIDR": machine.pod_cidr}},
            }
            for machine in machines
        }
        for name, over in (hosts or {}).items():
            listed[name]["flexnode_host_config"].update(over)
        checked = {"ansible_host_key_checking": True, "ansible_ssh_common_args": CHECKED_KEYS}
        place = self.directory / f"inventory-{self.jobs}"
        place.mkdir()
        group = {"aks_flexnode": {"hosts": listed, "vars": {**checked, **variables}}}
        (place / "10_machines.yml").write_text(yaml.safe_dump(group), encoding="utf-8")
        (place / GROUPS).write_bytes((PROJECT / "inventory" / GROUPS).read_bytes())
        return place

    def job(self, template: str, inventory: Path) -> Job:
        """A job with the project's files, and the host keys of the machines in it."""
        self.jobs += 1
        job = Job(self.directory / f"job-{self.jobs}", self.jobs, template, inventory)
        known = self.bed.site.directory / "ssh" / "known_hosts"
        (job.project / "known_hosts").write_bytes(known.read_bytes())
        (job.project / "ca.pem").write_text(self.bed.ca_pem, encoding="utf-8")
        return job

    def run(self, job: Job, machine: Machine, **options: Any) -> Result:
        """Run it with the credential of type Machine; whatever comes of it, it shows no secret."""
        self.secrets["the SSH key"] = machine.ssh_key.read_text(encoding="utf-8").splitlines()[2]
        done = job.run(self.image, key=machine.ssh_key, user=machine.ssh_user, **options)
        shown = Searcher(self.secrets).hits(dict(done.texts(leave_out=OF_RUNNER)))
        assert shown == [], done.output
        # ansible-runner itself keeps the environment of a job, and nothing else, in files of its own.
        kept = [(name, text) for name, text in done.texts() if Path(name).name in OF_RUNNER]
        given = {name: secret for name, secret in self.secrets.items() if name != "the Azure secret"}
        assert Searcher(given).hits(dict(kept)) == []
        assert "skipping:" not in done.output
        return done

    def add_node_secrets(self, job: Job, token: str) -> None:
        """A credential of type FlexNode node secrets, with one field filled in."""
        self.secrets["the token"] = token
        job.injected.add("FlexNode node secrets", bootstrap_token=token)

    def add_cluster(self, job: Job) -> None:
        """A credential of type FlexNode cluster."""
        text = self.bed.cluster.kubeconfig.read_text(encoding="utf-8")
        (user,) = yaml.safe_load(text)["users"]
        self.secrets["the key of the kubeconfig"] = user["user"]["client-key-data"]
        job.injected.add("FlexNode cluster", kubeconfig=text)


@pytest.fixture(scope="module")
def awx(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Awx:
    return Awx(bed, execution_environment.ensure(), tmp_path_factory.mktemp("awx"))


@pytest.fixture(scope="module")
def machine(machines: MachineMaker) -> Machine:
    return machines(("runner-1", "debian12"))[0]


@pytest.fixture(scope="module")
def other(machines: MachineMaker) -> Machine:
    return machines(("runner-2", "debian13"))[0]


@pytest.fixture(scope="module")
def settings(bed: Testbed) -> dict[str, Any]:
    """Variables of the inventory; the token is not among them."""
    document = bed.node_document()
    document["node"]["labels"] = {"site": "lab-1", "ring": "canary"}
    return {"flexnode_config_source": "inline", "flexnode_config": document}


@pytest.fixture(scope="module")
def token(bed: Testbed) -> str:
    """What the credential holds; it stays the same from job to job."""
    return bed.cluster.bootstrap_token()


def succeeded(done: Result) -> Result:
    assert (done.status, done.word) == (0, "successful"), done.output
    return done


def logins(machine: Machine) -> int:
    """How often somebody logged in by SSH, as the machine itself recorded it."""
    journal = machine.run(["journalctl", "--no-pager", "--grep=Accepted publickey"], check=False).stdout
    return journal.count("Accepted publickey")


def test_bootstrap_as_a_job_of_awx(
    bed: Testbed, awx: Awx, machine: Machine, settings: Mapping[str, Any], token: str
) -> None:
    """The collection of the image, the token from a credential, nothing else set."""
    job = awx.job("FlexNode bootstrap", awx.inventory(machine, **settings))
    awx.add_node_secrets(job, token)
    done = succeeded(awx.run(job, machine))
    node = fleet.node(bed, machine.name)
    assert fleet.is_ready(node)
    assert node["metadata"]["labels"]["site"] == "lab-1"
    # ansible-runner's own record is whole: AWX shows what is in these events.
    events = done.events()
    assert [one["counter"] for one in events] == list(range(1, len(events) + 1))
    assert done.changed(machine.name) > 0
    assert {one["task_path"][: len(OF_IMAGE)] for one in done.tasks()} == {OF_IMAGE}
    modules = {one.get("resolved_action") for one in done.tasks()}
    assert "aks.flexnode.flexnode_reconcile" in modules
    assert not modules & {"ansible.builtin.setup", "ansible.builtin.gather_facts"}


def test_a_second_job_changes_nothing(
    awx: Awx, machine: Machine, settings: Mapping[str, Any], token: str
) -> None:
    before = fleet.main_pids(machine)
    inventory = awx.inventory(machine, **settings)
    for check in (True, False):
        job = awx.job("FlexNode bootstrap", inventory)
        awx.add_node_secrets(job, token)
        done = succeeded(awx.run(job, machine, check=check))
        assert done.changed(machine.name) == 0, done.output
    assert fleet.main_pids(machine) == before


def test_update_with_the_defaults_of_its_survey(
    bed: Testbed, awx: Awx, machine: Machine, settings: Mapping[str, Any], token: str
) -> None:
    changed = {"node": {"labels": {"site": "lab-2", "ring": "canary"}}}
    inventory = awx.inventory(machine, hosts={machine.name: changed}, **settings)
    job = awx.job("FlexNode update", inventory)
    awx.add_node_secrets(job, token)
    awx.add_cluster(job)
    succeeded(awx.run(job, machine, limit="site_lab_2:&ring_canary"))
    assert fleet.node(bed, machine.name)["metadata"]["labels"]["site"] == "lab-2"


def test_status_is_one_table(awx: Awx, machine: Machine, other: Machine, settings: Mapping[str, Any]) -> None:
    """A machine that is no node has its row too, and fails the job."""
    done = succeeded(awx.run(awx.job("FlexNode status", awx.inventory(machine, **settings)), machine))
    (row,) = [line for line in done.output.splitlines() if machine.name in line and "Ready" in line]
    assert bed_version(settings) in row
    both = awx.run(awx.job("FlexNode status", awx.inventory(machine, other, **settings)), machine)
    assert both.word == "failed"
    assert {machine.name, other.name} == both.hosts()
    (stats,) = both.events("playbook_on_stats")
    assert set(stats["event_data"]["failures"]) == {other.name}


def bed_version(settings: Mapping[str, Any]) -> str:
    return str(settings["flexnode_config"]["kubernetes"]["version"])


def test_a_pod_with_the_kubeconfig_of_a_credential(
    bed: Testbed, awx: Awx, machine: Machine, settings: Mapping[str, Any]
) -> None:
    """AWX writes the kubeconfig to a file of the job, and the playbook finds it by a variable."""
    job = awx.job("FlexNode proof", awx.inventory(machine, **settings))
    awx.add_cluster(job)
    image = {"flexnode_proof_image": bed.registry.workload_image}
    done = succeeded(awx.run(job, machine, answers=image))
    assert done.events("runner_on_ok")


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ("runner-9", ""),
        ("ring_canry", ""),
        ("aks_flexnode:&ring_canry", ""),
        ("aks_flexnode:!ring_canry", "FLEX-1106"),
        ("!runner-1", "FLEX-1108"),
        ("", "FLEX-1108"),
    ],
)
def test_a_limit_typed_wrong_reaches_no_machine(
    bed: Testbed,
    awx: Awx,
    machine: Machine,
    other: Machine,
    settings: Mapping[str, Any],
    limit: str,
    code: str,
) -> None:
    """The machines themselves say that nobody logged in; the node stays a node."""
    before = [logins(one) for one in (machine, other)]
    job = awx.job("FlexNode unbootstrap", awx.inventory(machine, other, **settings))
    awx.add_cluster(job)
    done = awx.run(job, machine, limit=limit)
    assert (done.status != 0, done.word) == (True, "failed"), done.output
    said = " ".join(done.output.split())
    assert (code or "no hosts to target") in said
    assert [logins(one) for one in (machine, other)] == before
    assert fleet.is_ready(fleet.node(bed, machine.name))


def test_one_name_typed_wrong_leaves_the_others(
    bed: Testbed, awx: Awx, machine: Machine, other: Machine, settings: Mapping[str, Any]
) -> None:
    """Ansible warns of the name that it does not know, and works on the one that it does."""
    before = logins(other)
    job = awx.job("FlexNode status", awx.inventory(machine, other, **settings))
    done = succeeded(awx.run(job, machine, limit=f"{machine.name},runner-9"))
    assert done.hosts() == {machine.name}
    assert "runner-9" in done.output
    assert logins(other) == before


def test_a_machine_with_another_host_key_is_not_reached(
    awx: Awx, machine: Machine, other: Machine, settings: Mapping[str, Any]
) -> None:
    """AWX does not check host keys by itself; the variables of docs/awx.md make it do so."""
    job = awx.job("FlexNode status", awx.inventory(machine, **settings))
    known = (job.project / "known_hosts").read_text(encoding="utf-8").splitlines()
    (strange,) = [line.split(" ", 1)[1] for line in known if line.startswith(f"{other.name},")]
    (job.project / "known_hosts").write_text(f"{machine.name},{machine.ip} {strange}\n", encoding="utf-8")
    before = logins(machine)
    done = awx.run(job, machine)
    assert done.word == "failed"
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.output
    assert logins(machine) == before


def test_azure_login_and_the_collection_of_the_project(
    bed: Testbed, awx: Awx, other: Machine, tmp_path: Path
) -> None:
    """AWX's own Azure credential sets environment variables; the project brings the collection."""
    person = cloud.operator(bed, "awx", cloud.ROLE).environment
    awx.secrets["the Azure secret"] = person["AZURE_SECRET"]
    document = bed.node_document()
    inventory = awx.inventory(
        other,
        flexnode_config_source="cluster",
        flexnode_cluster_id=bed.azure.cluster_id,
        flexnode_config={part: document[part] for part in SITE},
    )
    job = awx.job("FlexNode bootstrap", inventory)
    job.install_requirements(build_collection.build(tmp_path))
    job.injected.add_azure(person)
    places = {name: person[name] for name in ("AZURE_AUTHORITY_HOST", "AZURE_RESOURCE_MANAGER_ENDPOINT")}
    trusted = {"REQUESTS_CA_BUNDLE": "/runner/project/ca.pem"}
    done = succeeded(awx.run(job, other, environment_of_awx={**places, **trusted}))
    assert fleet.is_ready(fleet.node(bed, other.name))
    assert {one["task_path"][: len(OF_PROJECT)] for one in done.tasks()} == {OF_PROJECT}
    # The search of every job finds a secret where there is one: in the environment that ansible-runner keeps.
    found = Searcher({"secret": person["AZURE_SECRET"]}).hits(dict(done.texts()))
    assert found == [f"secret: {name}" for name in OF_RUNNER]


def test_unbootstrap_of_the_machines_of_the_limit(
    bed: Testbed, awx: Awx, machine: Machine, other: Machine, settings: Mapping[str, Any]
) -> None:
    inventory = awx.inventory(machine, other, **settings)
    for one, rest in ((other, {machine.name}), (machine, set())):
        job = awx.job("FlexNode unbootstrap", inventory)
        awx.add_cluster(job)
        done = succeeded(awx.run(job, one, limit=one.name))
        assert done.hosts() == {one.name}
        assert {machine.name, other.name} & fleet.node_names(bed) == rest
        assert one.run(["test", "-e", STATE], check=False).returncode != 0
