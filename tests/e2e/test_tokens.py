# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a bootstrap token: one join, and a clear word about what became of it when that goes wrong.

The provider is the emulated one, with real tokens and addresses; kubelets and API server are real. What was
done with a token is read from the API server's audit log, which is switched on for these tests.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from scripts import build_agent
from testbed import Testbed
from testbed.basics import files
from testbed.machine import Machine
from testbed.playbooks import Play
from tests.e2e import cloud, fleet
from tests.e2e.audit import Audit, audit
from tests.e2e.cloud import Operator
from tests.e2e.conftest import MachineMaker

__all__ = ["audit"]

NAME, FOLLOWER = "tokens-1", "tokens-2"
STATE = "/var/lib/aks-flex-node"
PROGRAM, DRIVER, CA = "/srv/aks-flex-node.pyz", "/srv/killer.py", "/srv/ca.pem"
TRUSTED = "/etc/ssl/certs/ca-certificates.crt"
NETWORK = "/etc/cni/net.d/05-site.conflist"
SIGKILLED = 137
COMMAND = "ansible-playbook -i INVENTORY aks.flexnode.config_tokens"
APPROVAL = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
# Runs on the machine: the command itself, which dies at a point.
KILLER = """
import os, signal, sys
program, point, *arguments = sys.argv[1:]
sys.path.insert(0, program)
from flexnode.cli import main
from flexnode.node_object.gates import NodeReady
from flexnode.engine.records.state import Store

def last(step=None):
    def ending(*given, **options):
        if step:
            step(*given, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return ending

if point == "stored":  # the configuration is here, nothing else
    Store.set_current_config = last(Store.set_current_config)
elif point == "attempt":  # all is in place, the kubelet is about to be started
    Store.set_join = last(Store.set_join)
elif point == "started":  # the kubelet runs, and has its token
    NodeReady.pass_ = last()
sys.exit(main(arguments))
"""


def site_build(bed: Testbed, directory: Path) -> Path:
    """The program for this site: the provider's bundles name no mirror, so the mirror stands for upstream."""
    plain = build_agent.build(directory)
    made = directory / "site.pyz"
    rows = (
        f"{name} {version} {digests.get('amd64', '-')} {digests.get('arm64', '-')}"
        for name, versions in bed.mirror.catalogue.items()
        for version, digests in versions.items()
    )
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            content = old.read(name).decode()
            if name.endswith("/catalogue/data.py"):
                content = 'TABLE = """\n{}\n"""\n'.format("\n".join(rows))
            elif name.endswith("/catalogue/artifacts.py"):
                content = re.sub(r'"https://(github\.com|dl\.k8s\.io)', rf'"{bed.mirror.url}/\1', content)
            new.writestr(name, content)
    return made


def site_network(machine: Machine) -> str:
    """What a cluster's network plugin would leave here: the provider's bundles leave the network to it."""
    ranges = [[{"subnet": machine.pod_cidr}]]
    bridge = {"type": "bridge", "bridge": "site0", "ipam": {"type": "host-local", "ranges": ranges}}
    return json.dumps({"cniVersion": "1.0.0", "name": "site", "plugins": [bridge]})


@pytest.fixture(scope="module")
def operator(bed: Testbed) -> Operator:
    return cloud.operator(bed, "token-operator", cloud.ROLE)


@pytest.fixture(autouse=True)
def _usual(bed: Testbed) -> Iterator[None]:
    """Azure as it is by default."""
    bed.azure.heal()
    bed.azure.settings()
    yield
    bed.azure.settings()


@contextmanager
def no_approvals(bed: Testbed) -> Iterator[None]:
    """The cluster approves no request of a bootstrap token for the while."""
    bindings = json.loads(bed.cluster.kubectl("get", "clusterrolebindings", "--output=json"))["items"]
    taken = [one for one in bindings if one["roleRef"]["name"] == APPROVAL]
    assert taken
    for one in taken:
        bed.cluster.kubectl("delete", "clusterrolebinding", one["metadata"]["name"])
    try:
        yield
    finally:
        for one in taken:
            again = {**one, "metadata": {"name": one["metadata"]["name"]}}
            bed.cluster.kubectl("create", "--filename=-", input=json.dumps(again))


@dataclass(frozen=True)
class Invited:
    """An address that the provider issued, and the token at it."""

    bed: Testbed
    url: str
    token: str

    @classmethod
    def at(cls, bed: Testbed, url: str) -> Invited:
        """What lies at an address."""
        answer = requests.get(url, verify=str(bed.ca_file), timeout=10)
        answer.raise_for_status()
        return cls(bed, url, answer.json()["config"]["azure"]["bootstrapToken"]["token"])

    @property
    def id(self) -> str:
        """The public part of the token."""
        return self.token.partition(".")[0]

    def http_status(self) -> int:
        """How the address answers now."""
        return requests.get(self.url, verify=str(self.bed.ca_file), timeout=10).status_code

    def in_cluster(self) -> bool:
        """Whether the token exists."""
        return f"secret/bootstrap-token-{self.id}" in cloud.token_names(self.bed)

    def state(self) -> str:
        """What the provider says about it: open, used or closed."""
        (mine,) = [one for one in self.bed.azure.invitations() if one["token_id"] == self.id]
        return str(mine["state"])

    def requested(self) -> bool:
        """Whether a certificate was asked for with the token."""
        found = json.loads(self.bed.cluster.kubectl("get", "csr", "--output=json"))["items"]
        return any(one["spec"].get("username") == f"system:bootstrap:{self.id}" for one in found)

    def dies(self) -> None:
        """Both end, by the provider's hand."""
        fleet.eventually("end of the invitation", lambda: self.state() == "closed")
        assert self.http_status() == 403
        assert not self.in_cluster()


@dataclass(frozen=True)
class Edge:
    """A machine that joins by itself or by a playbook, and an operator who has addresses issued for it."""

    bed: Testbed
    operator: Operator
    machine: Machine
    directory: Path

    @property
    def inventory(self) -> Path:
        """Source rp. A gate that gives up soon: some of these joins can't succeed."""
        path = self.directory / "hosts.yml"
        return self.operator.inventory(path, "rp", [self.machine], upgrade={"gateSeconds": 20})

    def issued(self, playbook: str) -> Invited:
        """A new address, by config_put or config_tokens."""
        given = f"flexnode_url_directory={self.directory}"
        fleet.succeeded(self.operator.play(playbook, self.inventory, "-e", given))
        kept = self.directory / f"{self.machine.name}.url"
        assert kept.stat().st_mode & 0o777 == 0o600
        return Invited.at(self.bed, kept.read_text().strip())

    def bootstrap(self, given: Invited | None = None, *options: str, playbook: str = "bootstrap") -> Play:
        """The playbook: with source rp, or with an address that was issued before."""
        if given:
            over = self.directory / "over.json"
            variables = {"flexnode_config_source": "url", "flexnode_config_url": given.url}
            files.write(over, json.dumps(variables), 0o600)
            options = ("-e", f"@{over}", *options)
        return self.operator.play(playbook, self.inventory, *options)

    def join(self, given: Invited, point: str = "") -> tuple[int, str]:
        """The command at the machine; it dies at a point, if one is named."""
        program = ["python3", DRIVER, PROGRAM, point] if point else ["python3", PROGRAM]
        argv = [*program, "join", "--config-url", "-", "--ca-cert", CA]
        done = self.machine.run(argv, input=given.url, check=False, timeout=180)
        return done.returncode, done.stdout + done.stderr

    def joins(self, given: Invited) -> str:
        """The command, and a Ready node."""
        status, said = self.join(given)
        assert status == 0, said
        assert self.ready()
        return said

    def leave(self) -> None:
        """Start over."""
        done = self.machine.run(["python3", PROGRAM, "unbootstrap"], check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def ready(self) -> bool:
        """Whether the cluster has it as a Ready node."""
        names = fleet.node_names(self.bed)
        return self.machine.name in names and fleet.is_ready(fleet.node(self.bed, self.machine.name))

    def kubelet(self) -> str:
        """State of the kubelet, and whether it starts at boot."""
        asked = ["systemctl", "is-active", "kubelet"], ["systemctl", "is-enabled", "kubelet"]
        return " ".join(self.machine.run(argv, check=False).stdout.strip() for argv in asked)

    def outcome(self) -> dict[str, str]:
        """What the machine remembers of its token."""
        found: dict[str, str] = json.loads(self.machine.read(f"{STATE}/state.json"))["join"]
        return found

    def seen(self) -> tuple[dict[str, str], str]:
        """Processes and files, to see that nothing was touched."""
        return fleet.main_pids(self.machine), fleet.snapshot(self.machine)


@pytest.fixture(scope="module")
def edge(
    bed: Testbed, operator: Operator, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory
) -> Edge:
    (machine,) = machines((NAME, "debian12"))
    directory = tmp_path_factory.mktemp("edge")
    machine.copy_to(site_build(bed, directory), PROGRAM)
    machine.copy_to(bed.ca_file, CA)
    machine.run(["tee", DRIVER], input=KILLER)
    machine.run(["tee", "--append", TRUSTED], input=bed.ca_pem)
    machine.run(["mkdir", "-p", "/etc/cni/net.d"])
    machine.run(["tee", NETWORK], input=site_network(machine))
    return Edge(bed, operator, machine, directory)


@pytest.fixture(scope="module")
def first(edge: Edge) -> Invited:
    """The address of the first join."""
    return edge.issued("config_put")


class TestOneJoin:
    """One address: crashes before the attempt, the join, and what is left of it."""

    def test_a_crash_before_the_attempt_costs_nothing(self, edge: Edge, first: Invited) -> None:
        for point in ("stored", "attempt"):
            status, said = edge.join(first, point)
            assert status == SIGKILLED, said
            assert edge.kubelet().startswith("inactive")
            assert not first.requested()
            assert (first.state(), first.http_status(), first.in_cluster()) == ("open", 200, True)
        assert edge.outcome() == {"token": first.id, "outcome": "attempted"}
        edge.joins(first)
        assert edge.outcome() == {"token": first.id, "outcome": "joined"}

    def test_url_and_token_die_with_the_join(self, first: Invited) -> None:
        first.dies()

    def test_afterwards_the_dead_url_is_a_warning_and_nothing_else(self, edge: Edge, first: Invited) -> None:
        before = edge.seen()
        said = edge.joins(first)
        assert "warning: " in said
        assert "HTTP 403" in said
        assert "has joined" in said
        assert "unchanged" in said
        assert edge.seen() == before


def test_a_crash_after_the_start_the_kubelet_joins_alone(edge: Edge) -> None:
    """Consumed and joined, and nobody saw it: the same command finds out, and restarts nothing."""
    edge.leave()
    given = edge.issued("config_put")
    status, said = edge.join(given, "started")
    assert status == SIGKILLED, said
    fleet.eventually("a Ready node", edge.ready)
    given.dies()
    pids = fleet.main_pids(edge.machine)
    assert "HTTP 403" in edge.joins(given)
    assert fleet.main_pids(edge.machine) == pids
    assert edge.outcome() == {"token": given.id, "outcome": "joined"}


def test_nothing_but_the_kubelet_authenticates_with_the_token(edge: Edge, audit: Audit) -> None:
    """By the API server's audit log: nothing for check mode, preflight and plan, then the kubelet alone."""
    edge.leave()
    given = edge.issued("config_put")
    fleet.succeeded(edge.bootstrap(given, "--check", "--diff"))
    fleet.succeeded(edge.bootstrap(given, playbook="preflight"))
    planned = edge.machine.run(
        ["python3", PROGRAM, "plan", "--config-url", "-", "--ca-cert", CA], input=given.url
    )
    assert "start kubelet.service" in planned.stdout
    assert audit.of_token(given.id) == []
    assert edge.bed.cluster.whoami(given.token) == f"system:bootstrap:{given.id}"  # the log sees such a use
    (tried,) = audit.of_token(given.id)
    assert not tried["userAgent"].startswith("kubelet/")
    fleet.succeeded(edge.bootstrap(given))
    assert edge.ready()
    asked = ["systemctl", "show", "--property=ExecMainStartTimestamp", "--value", "--timestamp=unix"]
    started = float(edge.machine.run([*asked, "kubelet"]).stdout.strip().removeprefix("@"))
    _tried, *made = audit.of_token(given.id)
    print(f"requests with the token: {[(one['verb'], one['requestURI'], one['userAgent']) for one in made]}")
    assert ("create", "certificatesigningrequests") in {
        (one["verb"], one["objectRef"]["resource"]) for one in made
    }
    for one in made:
        assert one["userAgent"].startswith("kubelet/"), one
        assert one["sourceIPs"] == [edge.machine.ip], one
        assert when(one) >= started, one


def when(event: dict[str, Any]) -> float:
    """When a request came, in seconds since 1970."""
    then = datetime.datetime.strptime(event["requestReceivedTimestamp"], "%Y-%m-%dT%H:%M:%S.%fZ")
    return then.replace(tzinfo=datetime.timezone.utc).timestamp()


def test_the_playbook_with_a_dead_url_warns_and_changes_nothing(edge: Edge) -> None:
    """Runs on the node that the playbook made: its own address is dead by now."""
    given = Invited(edge.bed, *dead(edge))
    given.dies()
    before = edge.seen()
    run = fleet.succeeded(edge.bootstrap(given))
    assert run.changed(NAME) == 0, run.output
    assert "This machine has joined" in run.output
    assert "HTTP 403" in run.output
    assert given.token not in run.output
    assert edge.seen() == before


def dead(edge: Edge) -> tuple[str, str]:
    """Address and token of the join before."""
    document = json.loads(edge.machine.read(f"{STATE}/current-config.json"))
    url = (edge.directory / f"{NAME}.url").read_text().strip()
    return url, document["azure"]["bootstrapToken"]["token"]


class TestConsumedAndNotJoined:
    """The token is used, and the cluster approves nothing: the provider revokes it meanwhile."""

    def consumed(self, edge: Edge, given: Invited) -> str:
        """A join that can't succeed; what it said."""
        edge.bed.azure.settings(join_seconds=3)
        with no_approvals(edge.bed):
            run = edge.bootstrap(given)
            given.dies()
        assert run.status != 0, run.output
        return run.output

    def test_one_clear_error_and_then_silence(self, edge: Edge, audit: Audit) -> None:
        edge.leave()
        given = edge.issued("config_put")
        said = self.consumed(edge, given)
        assert set(re.findall(r"FLEX-\d{4}", said)) == {"FLEX-1503"}, said
        assert COMMAND in said
        assert given.token not in said
        assert edge.kubelet() == "inactive disabled"
        outcome = edge.outcome()
        assert given.id in outcome.pop("what")
        digest = hashlib.sha256(given.token.encode()).hexdigest()
        assert outcome == {"token": given.id, "outcome": "refused", "digest": digest}
        assert NAME not in fleet.node_names(edge.bed)

        used, before = len(audit.events()), edge.seen()
        self.stops_at_once(edge, given)
        assert edge.seen() == before
        assert edge.kubelet() == "inactive disabled"
        time.sleep(3)
        assert len(audit.events()) == used, "a dead token was shown to the API server again"

    def stops_at_once(self, edge: Edge, given: Invited) -> None:
        """By its address, which is refused; by the token itself, which is remembered."""
        status, said = edge.join(given)
        assert status == 1, said
        assert "FLEX-1103" in said
        assert "HTTP 403" in said
        assert COMMAND in said
        document = json.loads(edge.machine.read(f"{STATE}/current-config.json"))
        assert document["azure"]["bootstrapToken"]["token"] == given.token
        edge.machine.run(["tee", "/srv/config.json"], input=json.dumps(document))
        began = time.monotonic()
        done = edge.machine.run(["python3", PROGRAM, "join", "--config", "/srv/config.json"], check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 1, said
        assert "FLEX-1503" in said
        assert "in an earlier run, and this run did not try it again" in said
        assert (
            "set it as azure.bootstrapToken.token in the file, then run `aks-flex-node join --config FILE`"
            in said
        )
        assert time.monotonic() - began < 5, "it waited for something"

    def test_bootstrap_again_has_a_new_token_issued(self, edge: Edge) -> None:
        edge.bed.azure.forget_requests()
        fleet.succeeded(edge.bootstrap())
        assert edge.operator.calls("POST", "/regenerateToken") == 1
        assert edge.operator.calls("PUT", f"/flexNodeConfig/{NAME}") == 0
        assert edge.ready()

    def test_a_regenerated_address_lets_the_machine_join_by_itself(self, edge: Edge) -> None:
        edge.leave()
        given = edge.issued("config_put")
        assert "FLEX-1503" in self.consumed(edge, given)
        again = edge.issued("config_tokens")
        assert again.id != given.id
        edge.joins(again)
        assert edge.outcome() == {"token": again.id, "outcome": "joined"}


def test_an_expired_token_is_named_and_regenerating_works(edge: Edge) -> None:
    """Nobody used it in its time: the provider cleans up, the next run asks for another."""
    edge.leave()
    edge.bed.azure.settings(bootstrap_token_seconds=8)
    given = edge.issued("config_put")
    given.dies()
    assert not given.requested()
    run = edge.bootstrap(given)
    assert run.status != 0
    assert set(re.findall(r"FLEX-\d{4}", run.output)) == {"FLEX-1103"}, run.output
    for word in ("HTTP 403", "expired or already used", COMMAND):
        assert word in run.output
    assert edge.machine.run(["test", "-e", STATE], check=False).returncode != 0, "something was stored"
    edge.bed.azure.settings()
    fleet.succeeded(edge.bootstrap())
    assert edge.ready()


@pytest.fixture(scope="module")
def follower(
    bed: Testbed, operator: Operator, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory
) -> Edge:
    (machine,) = machines((FOLLOWER, "debian12"))
    return Edge(bed, operator, machine, tmp_path_factory.mktemp("follower"))


class TestDurableAddress:
    """An agent that follows a blob needs no token for that and, to keep the node working, no address."""

    def write(self, edge: Edge, playbook: str, site: str) -> None:
        """The machine's configuration with a label, by a playbook."""
        inventory = edge.operator.inventory(
            edge.directory / "hosts.yml", "blob", [edge.machine], node={"labels": {"site": site}}
        )
        fleet.succeeded(edge.operator.play(playbook, inventory))

    def poll(self, edge: Edge) -> str:
        done = edge.machine.run(["aks-flex-node", "poll"], check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def label(self, edge: Edge) -> str:
        return str(fleet.node(edge.bed, FOLLOWER)["metadata"]["labels"]["site"])

    def test_it_follows_with_a_dead_token(self, bed: Testbed, follower: Edge) -> None:
        before = cloud.token_names(bed)
        self.write(follower, "bootstrap", "one")
        assert cloud.token_names(bed) == before, "the token outlived its join"
        assert follower.outcome()["outcome"] == "joined"
        self.write(follower, "config_put", "two")
        self.poll(follower)
        assert self.label(follower) == "two"
        assert cloud.token_names(bed) == before, "a token was minted for a node that has joined"

    def test_it_works_on_with_a_dead_address(self, bed: Testbed, follower: Edge) -> None:
        cloud.container(bed, f"flexnode-{FOLLOWER}").set_container_access_policy(signed_identifiers={})
        pids = fleet.main_pids(follower.machine)
        assert "403" in self.poll(follower)
        assert fleet.main_pids(follower.machine) == pids
        follower.machine.run(["systemctl", "restart", "kubelet"])
        fleet.eventually("a Ready node", follower.ready)
        done = follower.machine.run(["aks-flex-node", "status", "--json"], check=False)
        assert json.loads(done.stdout)["node"]["status"] == "Ready"
