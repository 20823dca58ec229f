# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that Azure Arc knows: registered, given their roles, joined and taken back by the playbooks."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import claims_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.assignments import name_of
from testbed import Testbed, arc
from testbed.azure.sign_in.directory import Principal
from testbed.machine import Machine
from testbed.machine.container import ContainerMachine
from testbed.playbooks import Play, play, write_inventory
from tests.e2e import cloud, fleet, test_secrets
from tests.e2e.conftest import MachineMaker
from tests.e2e.identities import ARM, GRANTOR_ROLES, Member, registrar, resource_group
from tests.e2e.photograph import differences, photograph
from tests.e2e.test_secrets import LARGEST, PASSING, PLACES, READER, Sampler, Searcher, root

# What a kubelet that lives on Entra tokens needs at the cluster; the first of them lets a node follow Azure.
ROLES = {
    "acdd72a7-3385-48ef-bd42-f606fba81ae7": "Reader",
    "b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b": "Azure Kubernetes Service RBAC Cluster Admin",
    "0ab0b1a8-8aac-4efd-b8c2-3ee1fb270be8": "Azure Kubernetes Service Cluster Admin Role",
}
FOLLOWS, *ACTS = ROLES
GIVE_ROLES = "Microsoft.Authorization/roleAssignments/write"
# Of the agent's package: its files, its units, dpkg's books, its user; and our record of having installed it.
AGENT = ("/opt/azcmagent", "/etc/opt", "/etc/systemd/system/multi-user.target.wants/", "/var/lib/dpkg/")
OURS = ("/var/lib/aks-flex-node",)
ACCOUNTS = re.compile(r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?")
HANDOVER, TOKENS = "run/aks-flex-node", "/run/aks-flex-node/tokens"
STATUS = """
- hosts: all
  gather_facts: false
  become: true
  tasks:
    - ansible.builtin.import_role:
        name: aks.flexnode.arc
        tasks_from: status
"""
# Listens where the agent's service did, names a file to be read and sent, and writes down what it is sent.
IMPOSTOR = """
import http.server, sys
class Impostor(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print(self.path, dict(self.headers), file=open("/run/impostor", "a"), flush=True)
        self.send_response(401)
        self.send_header("WWW-Authenticate", "Basic realm=" + sys.argv[1])
        self.send_header("Content-Length", "0")
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 40342), Impostor).serve_forever()
"""
# Every file of the machine's own disk and memory that holds one of the lines on standard input.
SEARCH = (
    "grep",
    "-rlFf",
    "-",
    "--devices=skip",
    "--exclude-dir=proc",
    "--exclude-dir=sys",
    "--exclude-dir=usr",
)
ASK = "import urllib.request as u; u.urlopen(u.Request('{url}', headers={headers}))"
METADATA = "http://127.0.0.1:40342/metadata/identity/oauth2/token?api-version=2020-06-01&resource=x"
Photograph = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """Some machines, and whoever runs the playbooks for them."""

    bed: Testbed
    directory: Path
    operator: Principal
    environment: Mapping[str, str]
    machines: Sequence[Machine]

    def member(self, machine: Machine) -> Member:
        return Member(self.bed, machine, "arc", "token", self.operator)

    @property
    def members(self) -> list[Member]:
        return [self.member(machine) for machine in self.machines]

    def document(self, machine: Machine, **of_arc: Any) -> dict[str, Any]:
        """What the machine is to be; more about its registration."""
        document = self.member(machine).document()
        document["cni"]["podCIDR"] = machine.pod_cidr
        document["azure"]["arc"].update(of_arc)
        return document

    def inventory(
        self, name: str, hosts: Mapping[str, Mapping[str, Any]] | None = None, **of_arc: Any
    ) -> Path:
        """All machines, each with its own document; `hosts` has variables of single ones."""
        path = write_inventory(
            self.bed, self.machines, self.directory / f"{name}.yml", **arc.variables(self.bed)
        )
        path.chmod(0o600)
        written = yaml.safe_load(path.read_text(encoding="utf-8"))
        for machine in self.machines:
            variables = written["all"]["hosts"][machine.name]
            variables["flexnode_host_config"] = self.document(machine, **of_arc)
            variables.update((hosts or {}).get(machine.name, {}))
        path.write_text(yaml.safe_dump(written), encoding="utf-8")
        return path

    def play(self, playbook: str, inventory: Path, *options: str) -> Play:
        return play(playbook, inventory, *options, environment=self.environment)

    def assignments(self, object_id: str) -> dict[str, str]:
        """The roles of an identity on the cluster, as Azure lists them, with the assignments' names."""
        path = f"{self.bed.azure.cluster_id}/providers/Microsoft.Authorization/roleAssignments"
        asked = {"api-version": "2022-04-01", "$filter": f"principalId eq '{object_id}'"}
        return {
            one["properties"]["roleDefinitionId"].rpartition("/")[2]: one["name"]
            for one in arm(self.bed, "GET", path, asked)["value"]
        }


def arm(bed: Testbed, method: str, path: str, query: Mapping[str, str]) -> Any:
    """Ask Resource Manager, as its administrator."""
    answer = requests.request(
        method,
        f"{bed.azure.url}{path}",
        params=query,
        headers={"Authorization": f"Bearer {bed.azure.token(somebody(bed), ARM)}"},
        verify=str(bed.ca_file),
        timeout=10,
    )
    answer.raise_for_status()
    return answer.json() if answer.content else None


def site_of(bed: Testbed, directory: Path, operator: Principal, *machines: Machine) -> Site:
    """Machines that know where their Azure is, and nothing else yet."""
    site = Site(bed, directory, operator, bed.azure.environment(operator), machines)
    for member in site.members:
        if left := member.arc_resource():  # by a run before this one
            bed.azure.revoke(identity(left["identity"]["principalId"]))
            arm(bed, "DELETE", left["id"], {"api-version": "2024-07-10"})
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda member: member.exist(), site.members))
    return site


def somebody(bed: Testbed) -> Principal:
    """An administrator of this Azure who does not use the playbooks."""
    return registrar(bed, "arc-somebody", "Owner")


def grant(bed: Testbed, object_id: str, *roles: str) -> None:
    """Somebody types the commands that were shown."""
    for role in roles:
        bed.azure.grant(identity(object_id), role)


def identity(object_id: str) -> Principal:
    """One of which no more is known."""
    return Principal(name="", object_id=object_id, client_id="", secret="")


def connect_by_hand(site: Site, machine: Machine, **over: str) -> None:
    """Somebody registers a machine, with the agent that they installed."""
    azure = site.bed.azure
    options = {
        "access-token": azure.token(somebody(site.bed), ARM),
        "subscription-id": azure.subscription_id,
        "tenant-id": azure.tenant_id,
        "resource-group": resource_group(site.bed).rpartition("/")[2],
        "location": "westeurope",
        **over,
    }
    arc.preinstall(machine)
    script = "umask 077; cat > /run/hand.json; azcmagent connect --config /run/hand.json; rm /run/hand.json"
    machine.run(["sh", "-c", script], input=json.dumps(options))


def asked(member: Member) -> int:
    """How often the machine's own identity asked Resource Manager what it may do."""
    return sum(
        request.path.endswith("/permissions")
        and (request.principal or "").endswith(f"/{member.machine.name}")
        for request in member.bed.azure.requests()
    )


def waits(member: Member) -> bool:
    """Whether it has asked again: the first question was not the wait's."""
    return asked(member) >= 2


def beside_the_agent(before: Photograph, machine: Machine) -> list[str]:
    """What is different, apart from the agent and our record of it: nothing of Kubernetes is."""
    passed = tuple(f"files: {path}" for path in (*AGENT, *OURS))
    found = [line for line in differences(before, photograph(machine)) if not line.startswith(passed)]
    return [line for line in found if not ACCOUNTS.fullmatch(line.split(": ")[1])]


def given_back(before: Photograph, machine: Machine) -> list[str]:
    """What is different, dpkg's own books and the times and backups of the user database aside."""
    after = photograph(machine)
    for photo in (before, after):
        for path in [one for one in photo["files"] if ACCOUNTS.fullmatch(one)]:
            if path.endswith("-"):
                del photo["files"][path]
            else:
                photo["files"][path][3] = 0
    return [line for line in differences(before, after) if not line.startswith("files: /var/lib/dpkg/")]


def failure(run: Play, host: str) -> str:
    """The message with which a host ended."""
    (last,) = [event for event in run.events if event["outcome"] == "failed" and event["host"] == host][-1:]
    return str(last["result"]["msg"])


# -- roles that somebody else gives -------------------------------------------------------------------------


@dataclass(frozen=True)
class Waiting:
    """Two machines whose operator may register them and give no roles."""

    site: Site
    late: Machine
    never: Machine
    before: Mapping[str, Photograph]

    def untouched(self) -> list[str]:
        return [
            line for one in (self.late, self.never) for line in beside_the_agent(self.before[one.name], one)
        ]


@pytest.fixture(scope="module")
def waiting(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Waiting:
    bed.azure.settings()
    late, never = machines(("arc-late", "debian12"), ("arc-never", "debian13"))
    operator = registrar(bed, "arc-registrar", "Reader")
    site = site_of(bed, tmp_path_factory.mktemp("waiting"), operator, late, never)
    return Waiting(site, late, never, {one.name: photograph(one) for one in (late, never)})


@pytest.mark.usefixtures("lame")  # it takes its time meanwhile
class TestRolesOfOthers:
    """Without `autoRoleAssignment`, or without the right to it, somebody else gives the roles."""

    def test_who_may_not_give_roles_is_told_which_right_is_missing(self, waiting: Waiting) -> None:
        """With the commands for somebody who may; the machines are registered, and nothing else."""
        site = waiting.site
        run = site.play("bootstrap", site.inventory("refused", autoRoleAssignment=True))
        assert run.status != 0
        for member in site.members:
            message = failure(run, member.machine.name)
            assert message.startswith(f"FLEX-1702: the identity may not {GIVE_ROLES} ("), message
            assert "Role Based Access Control Administrator" in message
            for line in commands(member, *ROLES):
                assert line in message
        assert waiting.untouched() == []

    def test_a_play_waits_until_roles_are_given(self, waiting: Waiting) -> None:
        """One machine gets them meanwhile and joins in the same play; the other one ends with the list.

        The other one would join with a certificate, and follow its configuration: it needs less in Azure.
        """
        site, bed, late, never = waiting.site, waiting.site.bed, waiting.late, waiting.never
        document = site.document(never)
        document |= {"kubernetesAuth": {"method": "arc"}, "continuousMonitoring": True}
        address = bed.mirror.publish("arc-never.json", json.dumps(document).encode())
        variables = {
            "flexnode_host_config": {},
            "flexnode_config_source": "url",
            "flexnode_config_url": address,
            "flexnode_config_url_durable": True,
            "flexnode_config_url_ca_cert": bed.ca_pem,
        }
        inventory = site.inventory("waiting", {never.name: variables})
        bed.azure.forget_requests()
        short = json.dumps({"flexnode_arc_wait_seconds": 12, "__arc_part_seconds": 6})
        with ThreadPoolExecutor() as pool:
            running = pool.submit(site.play, "bootstrap", inventory, "-e", short)
            for member in site.members:
                fleet.eventually(f"{member.machine.name} waits", partial(waits, member), 90)
            assert waiting.untouched() == []
            grant(bed, site.member(late).object_id, *ROLES)
            run = running.result()
        needs = [*commands(site.member(never), FOLLOWS), *bindings(site.member(never))]
        asks = {
            late.name: looked_up(site.member(late), commands(site.member(late), *ROLES)),
            never.name: looked_up(site.member(never), needs),
        }
        assert_listed_before_the_wait(run, asks)
        assert f"FAILED - RETRYING: [{never.name}]" in run.output
        assert fleet.is_ready(fleet.node(bed, late.name))
        message = failure(run, never.name)
        assert message.startswith("FLEX-1816: this machine's identity lacks Reader, system:node-boot"), (
            message
        )
        assert "after 12 s" in message
        assert all(line in message for line in needs), message
        assert run.status != 0
        assert beside_the_agent(waiting.before[never.name], never) == []

    def test_the_machine_says_what_it_is(self, waiting: Waiting) -> None:
        """By `aks-flex-node arc`, and the fleet by the role's entry point status."""
        site, late = waiting.site, waiting.late
        resource = f"{resource_group(site.bed)}/providers/Microsoft.HybridCompute/machines"
        status, said = edge(late, "arc", "status")
        assert (status, f"machine   {resource}/{late.name}" in said) == (0, True), said
        assert "services  himdsd active, extd active, gcad active" in said
        status, said = edge(late, "arc", "register")
        assert status == 0, said
        assert "register this machine" not in said, "it is registered"
        late.run(["systemctl", "stop", "gcad"])
        status, said = edge(late, "arc", "status")
        late.run(["systemctl", "start", "gcad"])
        assert (status, "gcad inactive" in said) == (3, True), said

        path = site.directory / "arc_status.yml"
        path.write_text(STATUS, encoding="utf-8")
        shown = plain(fleet.succeeded(site.play(str(path), site.inventory("status"))).output)
        assert re.search(r"MACHINE +STATUS +AGENT +REGISTERED BY US", shown), shown
        for machine in site.machines:
            assert re.search(rf"{resource}/{machine.name} +Connected +[\d.]+ +yes", shown), shown


def assert_listed_before_the_wait(run: Play, asked_for: Mapping[str, Sequence[str]]) -> None:
    """The commands for each machine; then the wait for what they give."""
    for name, lines in asked_for.items():
        events = [event for event in run.events if event["host"] == name]
        tasks = [event["task"].rpartition(" : ")[2] for event in events]
        listed = tasks.index("Show the commands that assign the missing roles")
        assert events[listed]["result"]["msg"] == lines
        assert tasks[listed + 1] == "Wait until this machine's identity can use its roles"
    assert "az role assignment create" in run.output.partition("TASK [aks.flexnode.arc : Wait until")[0]


def commands(member: Member, *roles: str) -> list[str]:
    """What somebody has to type for roles in Azure."""
    who = f"--assignee-object-id {member.object_id} --assignee-principal-type ServicePrincipal"
    scope = f"--scope {member.bed.azure.cluster_id}"
    return [f"az role assignment create {who} --role {role} {scope}" for role in roles]


def looked_up(member: Member, lines: Sequence[str]) -> list[str]:
    """The same as the controller shows them: Azure says who the machine is, when they are typed."""
    _, _, subscription, _, group = resource_group(member.bed).split("/")
    where = f"--subscription {subscription} --resource-group {group} --name {member.machine.name}"
    who = f'"$(az connectedmachine show {where} --query identity.principalId -o tsv)"'
    return [line.replace(member.object_id, who) for line in lines]


def bindings(member: Member) -> list[str]:
    """What somebody has to type for the right to ask for a kubelet's certificate."""
    rights = {
        "bootstrap": "system:node-bootstrapper",
        "approve": "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    }
    return [
        f"kubectl create clusterrolebinding flexnode-identity-{name}-{member.machine.name} "
        f"--clusterrole={role} --user={member.object_id}"
        for name, role in rights.items()
    ]


def plain(output: str) -> str:
    """Output without the line breaks that YAML puts into long texts."""
    return re.sub(r"\s+", " ", output)


def edge(machine: Machine, *arguments: str, given: str | None = None) -> tuple[int, str]:
    """The command at the machine."""
    done = machine.run(["aks-flex-node", *arguments], check=False, input=given)
    return done.returncode, done.stdout + done.stderr


# -- somebody else's registration, and an agent that does not work ------------------------------------------


@dataclass(frozen=True)
class Lame:
    """Somebody else's machine: asked to be another one, then with a service that does not run."""

    machine: Machine
    registered: str
    elsewhere: Play
    stopped: Play
    touched: list[str]


@pytest.fixture(scope="module")
def lame(
    bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Future[Lame]]:
    """In the background: that a service does not run is said after two minutes."""
    (machine,) = machines(("arc-lame", "debian12"))
    site = site_of(bed, tmp_path_factory.mktemp("lame"), registrar(bed, "arc-lame"), machine)

    def live() -> Lame:
        connect_by_hand(site, machine)
        before = photograph(machine)
        elsewhere = site.play("bootstrap", site.inventory("elsewhere", machineName="another"))
        machine.run(["systemctl", "stop", "gcad"])
        stopped = site.play("bootstrap", site.inventory("stopped"))
        registered = str(site.member(machine).arc_resource()["id"])
        return Lame(machine, registered, elsewhere, stopped, beside_the_agent(before, machine))

    with ThreadPoolExecutor() as pool:
        yield pool.submit(live)


# -- the challenge of the agent's metadata service ----------------------------------------------------------


class TestChallenge:
    """A token of the machine's is for root, and only the agent may say which file proves that."""

    def test_the_service_gives_no_token_without_it(self, waiting: Waiting) -> None:
        """The stand-in challenges as the real one does, so all joins here went through it."""
        for headers in (
            {},
            {"Metadata": "true"},
            {"Metadata": "true", "Authorization": "Basic Z3Vlc3NlZA=="},
        ):
            done = waiting.late.run(["python3", "-c", ASK.format(url=METADATA, headers=headers)], check=False)
            assert re.search(r"HTTP Error 40[01]", done.stderr), done.stderr
        status, said = edge(waiting.late, "token", "--check")
        assert status == 0, said
        assert f"object    {waiting.site.member(waiting.late).object_id}" in said

    @pytest.mark.parametrize("told", ["/etc/bait.key", "/var/opt/azcmagent/tokens/../../../../etc/bait.key"])
    def test_an_impostor_is_sent_nothing(self, waiting: Waiting, told: str) -> None:
        """One who names a file elsewhere: it is not even opened, a pipe's writer would notice."""
        machine = waiting.late
        machine.run(["rm", "-rf", TOKENS, "/run/impostor", "/etc/bait.key"])
        machine.run(["mkfifo", "-m", "0600", "/etc/bait.key"])
        machine.run(["systemd-run", "--unit=bait", "sh", "-c", "echo secret > /etc/bait.key"])
        machine.run(["systemctl", "stop", "himdsd"])
        machine.run(["systemd-run", "--unit=impostor", "python3", "-c", IMPOSTOR, told])
        try:
            fleet.eventually(
                "an impostor",
                lambda: machine.run(["grep", "-q", ":9D96 ", "/proc/net/tcp"], check=False).returncode == 0,
            )
            status, said = edge(machine, "token", "--check")
            waits = machine.run(["systemctl", "is-active", "bait"], check=False).stdout.strip()
        finally:
            machine.run(["systemctl", "stop", "impostor", "bait"], check=False)
            machine.run(["rm", "/etc/bait.key"])
            machine.run(["systemctl", "start", "himdsd"])
        assert (status, "FLEX-1805" in said) == (1, True), said
        assert waits == "active", "somebody has opened the file"
        heard = machine.read("/run/impostor")
        assert "api-version" in heard
        assert "Authorization" not in heard


class TestTheEndOfWaiting:
    """By somebody who may register machines, and not even look at roles."""

    def test_who_registers_machines_can_take_that_back(self, waiting: Waiting) -> None:
        """Roles that others gave are none of ours, so nothing has to be known about them."""
        clerk = registrar(waiting.site.bed, "arc-clerk")
        site = replace(waiting.site, operator=clerk, environment=waiting.site.bed.azure.environment(clerk))
        assert site.member(waiting.late).arc_resource()
        fleet.succeeded(site.play("unbootstrap", site.inventory("clerk")))
        for machine in site.machines:
            assert site.member(machine).arc_resource() == {}
            assert given_back(waiting.before[machine.name], machine) == []
        assert waiting.late.name not in fleet.node_names(site.bed)


# -- a whole life, and a search everywhere ------------------------------------------------------------------


@dataclass(repr=False)
class Watcher(Sampler):
    """Sees what is handed to the agent, and what is in the environment of any process."""

    roots: tuple[Path, ...] = ()
    handed: dict[str, tuple[int, int, Path]] = field(default_factory=dict)
    environments: set[str] = field(default_factory=set)

    def look(self) -> None:
        super().look()
        found = [path for one in self.roots for path in (one / HANDOVER).glob("*azcmagent*")]
        for path in found:
            try:
                seen = path.lstat()
            except OSError:
                continue
            if text := content(path):
                self.handed[text] = (stat.S_IMODE(seen.st_mode), seen.st_uid, path)
        if found:  # a token is on a machine
            self.environments.update(map(content, Path("/proc").glob("[0-9]*/environ")))


def content(path: Path) -> str:
    """Of a file that may be gone by now."""
    try:
        return path.read_bytes().replace(b"\0", b" ").decode("latin-1")
    except OSError:
        return ""


@dataclass(repr=False)
class Life:
    """Three machines from a first run that fails to the last, and all that could be seen of it."""

    site: Site
    ours: Machine
    cut: Machine
    theirs: Machine
    before: dict[str, Photograph]
    watcher: Watcher
    runs: dict[str, Play] = field(default_factory=dict)
    touched: list[str] = field(default_factory=list)
    identities: dict[str, str] = field(default_factory=dict)
    given: dict[str, dict[str, str]] = field(default_factory=dict)
    left: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    handovers: dict[str, list[str]] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)
    journals: dict[str, str] = field(default_factory=dict)

    def play(self, name: str, playbook: str, inventory: Path, *options: str) -> Play:
        """A playbook at its most talkative; then what it left in memory, and what others may read."""
        self.runs[name] = run = self.site.play(playbook, inventory, "-vvv", "--diff", *options)
        for machine in self.site.machines:
            place = f"{name}: {machine.name}"
            self.handovers[place] = [one.name for one in (root(machine) / HANDOVER).glob("*azcmagent*")]
            told = json.dumps([PLACES, LARGEST])
            found = json.loads(machine.run(["python3", "-c", READER], input=told).stdout)
            self.files.update({f"{place}:{path}": text for path, text in found.items()})
        return run

    def hits(self, places: Mapping[str, str]) -> list[str]:
        """Which secrets were found where."""
        return Searcher(self.secrets).hits(places)

    def learn_handed(self) -> None:
        """The tokens to register with, seen on their way to the agent; nothing else needs one."""
        options = [json.loads(text) for text in self.watcher.handed]
        for number, given in enumerate(one for one in options if one != {"force-local-only": True}):
            self.secrets[f"onboarding token {number}"] = given["access-token"]

    @property
    def onboarding_tokens(self) -> list[str]:
        """Those that were handed over."""
        return [text for name, text in self.secrets.items() if name.startswith("onboarding token")]

    def learn(self) -> None:
        """The tokens that machines keep, and what the cluster has of them."""
        for machine in self.site.machines:
            listed = machine.run(["find", TOKENS, "-printf", "%y %m %U:%G %f\\n"]).stdout
            self.kept[machine.name] = listed
            for number, name in enumerate(re.findall(r"^f .* (\w+)$", listed, re.MULTILINE)):
                text = machine.read(f"{TOKENS}/{name}")
                self.secrets[f"token {number} of {machine.name}"] = json.loads(text)["token"]
        for kind in ("nodes", "csr", "events --all-namespaces", "clusterrolebindings"):
            self.objects[kind] = self.site.bed.cluster.kubectl("get", *kind.split(), "--output=json")


@pytest.fixture(scope="module")
def life(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """A run that fails, one that joins, one with nothing to do, and the end; by who may do all of it."""
    made = machines(("arc-ours", "debian12"), ("arc-cut", "debian13"), ("arc-theirs", "debian12"))
    ours, cut, theirs = made
    directory = tmp_path_factory.mktemp("life")
    directory.chmod(0o755)  # pytest's own would hide from others what the runs leave there
    operator = registrar(bed, "arc-operator", *GRANTOR_ROLES)
    site = site_of(bed, directory, operator, *made)
    environment = test_secrets.operator(bed, directory, "arc-operator", *GRANTOR_ROLES).environment
    site = Site(bed, directory, operator, environment, made)
    connect_by_hand(site, theirs)
    grant(bed, site.member(theirs).object_id, FOLLOWS)
    roots = tuple(map(root, made))
    watcher = Watcher((directory, *(one / place for one in roots for place in PASSING)), roots=roots)
    lived = Life(site, ours, cut, theirs, {one.name: photograph(one) for one in made}, watcher)
    lived.secrets = {"Azure secret": operator.secret, "onboarding secret": onboarding(bed).secret}
    bed.azure.settings(rbac_delay=3600)
    bed.azure.forget_requests()
    try:
        with watcher.at_work():
            live(lived)
    finally:
        bed.azure.settings()
    for machine in made:
        lived.journals[machine.name] = machine.run(["journalctl", "--no-pager", "--output=export"]).stdout
    return lived


def live(life: Life) -> None:
    """What happens to them."""
    site, ours, cut = life.site, life.ours, life.cut
    inventory = site.inventory("hosts", autoRoleAssignment=True)
    arc.fail(ours, "azcmagent", connect={"seconds": 2, "code": 42, "message": "Forbidden by the testbed"})
    arc.fail(cut, "azcmagent", connect={"seconds": 60})
    with ThreadPoolExecutor() as pool:
        running = pool.submit(
            life.play, "failed", "bootstrap", inventory, "--limit", f"{ours.name},{cut.name}"
        )
        os.kill(fleet.eventually("a connect to kill", lambda: connecting(cut)), signal.SIGKILL)
        running.result()
    for machine in (ours, cut):
        arc.heal(machine)
        life.touched += beside_the_agent(life.before[machine.name], machine)
        arc.fail(machine, "azcmagent", connect={"seconds": 2}, disconnect={"seconds": 1})

    with ThreadPoolExecutor() as pool:
        running = pool.submit(life.play, "joined", "bootstrap", inventory)
        try:
            fleet.eventually("machines that wait for their roles", lambda: all(map(waits, site.members)), 600)
        finally:
            site.bed.azure.settings(rbac_delay=0)
        running.result()
    life.identities = {one.machine.name: one.object_id for one in site.members}
    life.given = {name: site.assignments(who) for name, who in life.identities.items()}
    life.learn()
    life.play("again", "bootstrap", inventory)
    life.play("gone", "unbootstrap", inventory)
    life.learn_handed()
    life.left = {name: site.assignments(who) for name, who in life.identities.items()}
    for machine in (ours, cut):
        arc.heal(machine)


def onboarding(bed: Testbed) -> Principal:
    """Who may register machines, and nothing else."""
    return bed.azure.app_registration("arc-onboarding")


def connecting(machine: Machine) -> int:
    """The process of `azcmagent connect` in a machine, seen from outside; 0: there is none."""
    assert isinstance(machine, ContainerMachine), "only a container's processes are seen from outside"
    space = os.stat(f"/proc/{machine.pid}/ns/pid").st_ino
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if "programs.azcmagent connect" in content(process / "cmdline") and (
                os.stat(process / "ns" / "pid").st_ino == space
            ):
                return int(process.name)
        except OSError:
            continue
    return 0


class TestLife:
    """With `autoRoleAssignment`, by an operator who may give roles."""

    def test_a_connect_that_fails_or_is_killed_touches_nothing_else(self, life: Life) -> None:
        """The agent's own code is shown with what helps; the next run goes on."""
        run = life.runs["failed"]
        message = failure(run, life.ours.name)
        assert message.startswith("FLEX-1814: "), message
        assert "AZCM0042: Forbidden by the testbed" in message
        assert "Azure Connected Machine Onboarding" in message
        assert "(exit status -9)" in failure(run, life.cut.name)
        assert life.touched == []
        assert life.runs["joined"].status == 0, life.runs["joined"].output[-5000:]

    def test_roles_are_given_and_waited_for(self, life: Life) -> None:
        """Under names that say what they grant; a role that somebody gave before stays theirs."""
        cluster = life.site.bed.azure.cluster_id
        for name, roles in life.given.items():
            assert set(roles) == set(ROLES), name
            named = {role: name_of(cluster, life.identities[name], role) for role in ROLES}
            ours = {role for role in ROLES if roles[role] == named[role]}
            assert ours == (set(ACTS) if name == life.theirs.name else set(ROLES))
        waited = [event for event in life.runs["joined"].events if "Wait until this" in event["task"]]
        assert {event["host"] for event in waited} == set(life.given)
        told = [line for event in waited for line in event["result"]["progress"]]
        assert any(line.startswith("waiting for Reader, Azure Kubernetes Service RBAC") for line in told), (
            told
        )
        for member in life.site.members:
            assert asked(member) >= 2, "the machine's own identity looked, before and after"
        for machine in life.site.machines:
            assert f'"name": "{machine.name}"' in life.objects["nodes"]

    def test_a_second_run_changes_nothing_and_asks_for_no_token(self, life: Life) -> None:
        again = life.runs["again"]
        assert again.status == 0, again.output[-5000:]
        assert sum(event["changed"] for event in again.events) == 0, changes(again)
        assert "aks.flexnode.flexnode_access_token" in actions(life.runs["joined"])
        assert "aks.flexnode.flexnode_access_token" not in actions(again)

    def test_what_is_ours_is_taken_back(self, life: Life) -> None:
        """Roles, registration and agent; the machine is as it was."""
        gone = life.runs["gone"]
        assert gone.status == 0, gone.output[-5000:]
        for machine in (life.ours, life.cut):
            assert life.left[machine.name] == {}
            assert life.site.member(machine).arc_resource() == {}
            assert given_back(life.before[machine.name], machine) == []
            assert machine.run(["sh", "-c", "command -v azcmagent"], check=False).returncode != 0

    def test_what_is_somebody_elses_stays(self, life: Life) -> None:
        """Their agent, registration and role; that machine is as it was, to the byte."""
        site, theirs = life.site, life.theirs
        assert set(life.left[theirs.name]) == {FOLLOWS}
        assert life.left[theirs.name] == {FOLLOWS: life.given[theirs.name][FOLLOWS]}
        assert site.member(theirs).arc_resource()["properties"]["status"] == "Connected"
        assert "Connected" in theirs.run(["azcmagent", "show"]).stdout
        assert "registered by someone else" in life.runs["gone"].output
        assert differences(life.before[theirs.name], photograph(theirs)) == []


class TestSecrets:
    """An onboarding token reaches the agent and nobody else, a machine's own tokens are root's."""

    def test_machines_get_tokens_of_who_can_only_register(self, life: Life) -> None:
        """Whoever runs the playbooks may give roles: no machine gets to be that."""
        given = {claims_of(token)["oid"] for token in life.onboarding_tokens}
        assert given == {onboarding(life.site.bed).object_id}
        assert given != {life.site.operator.object_id}

    def test_an_onboarding_token_is_handed_over_in_memory(self, life: Life) -> None:
        """In a file of root's on a tmpfs, for as long as the agent reads it, however that ends."""
        handed = life.watcher.handed
        assert {(mode, owner) for mode, owner, _path in handed.values()} == {(0o600, 0)}
        told = {
            one
            for _mode, _owner, path in handed.values()
            for one in life.watcher.roots
            if one in path.parents
        }
        assert told == set(map(root, (life.ours, life.cut))), "a machine that is registered is told nothing"
        assert len(life.onboarding_tokens) >= 4, "two machines, twice"
        assert set(life.handovers) == {
            f"{run}: {machine.name}" for run in life.runs for machine in life.site.machines
        }
        assert [place for place, found in life.handovers.items() if found] == []
        for machine in life.site.machines:
            kind = machine.run(["stat", "--file-system", "--format=%T", "/run"]).stdout.strip()
            assert kind == "tmpfs"

    def test_machines_keep_their_own_for_root(self, life: Life) -> None:
        for name, listed in life.kept.items():
            lines = listed.splitlines()
            assert lines[0] == "d 700 0:0 tokens"
            assert lines[1:], name
            assert all(line.startswith("f 600 0:0 ") for line in lines[1:]), listed

    def test_processes(self, life: Life) -> None:
        """Neither arguments nor environments; the agent was seen at work."""
        watcher = life.watcher
        assert any("programs.azcmagent connect --config" in one for one in watcher.processes)
        assert any("programs.azcmagent disconnect --config" in one for one in watcher.processes)
        print(f"{watcher.rounds} rounds, {len(watcher.processes)} command lines, {len(watcher.files)} files")
        assert life.hits({one[:200]: one for one in watcher.processes}) == []
        others = {name: text for name, text in life.secrets.items() if name != "Azure secret"}
        assert Searcher(others).hits({one[:200]: one for one in watcher.environments}) == []

    def test_output_and_results(self, life: Life) -> None:
        """On the screen at -vvv, and as callbacks see them."""
        assert life.hits({name: run.output for name, run in life.runs.items()}) == []
        assert life.hits({name: json.dumps(run.events) for name, run in life.runs.items()}) == []

    def test_files(self, life: Life) -> None:
        """Those that others may read, during and after; for onboarding, all of a machine's."""
        assert life.hits(life.watcher.files) == []
        assert life.hits(life.files) == []
        tokens = [*life.onboarding_tokens, life.secrets["onboarding secret"]]
        for machine in life.site.machines:
            machine.run(["tee", "/etc/planted"], input="PLANTED")
            found = machine.run([*SEARCH, "/"], input="\n".join([*tokens, "PLANTED"]), check=False).stdout
            machine.run(["rm", "/etc/planted"])
            assert found.split() == ["/etc/planted"]

    def test_journals_and_the_controllers_log(self, life: Life) -> None:
        for text in life.journals.values():
            assert "arc_register" in text, "modules told the log that they were invoked"
        assert life.hits(life.journals) == []
        assert life.hits({"syslog": (life.site.directory / "syslog").read_text(encoding="utf-8")}) == []

    def test_objects_in_the_cluster(self, life: Life) -> None:
        assert life.hits(life.objects) == []


# -- joins with a certificate and without a token -----------------------------------------------------------


@dataclass
class Certified:
    """Two machines of source `cluster`; the join of one of them fails at first."""

    site: Site
    good: Machine
    retried: Machine
    tokens: set[str]
    runs: dict[str, Play] = field(default_factory=dict)
    bound: dict[str, set[str]] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    seen_tokens: set[str] = field(default_factory=set)

    def play(self, name: str, playbook: str, *options: str, **of_retried: Any) -> None:
        """Five lines of inventory and this site's own; then what the cluster lets whom do."""
        bed, directory = self.site.bed, self.site.directory
        inventory = cloud.Operator(bed, self.site.environment).inventory(
            directory / f"{name}.yml",
            "cluster",
            self.site.machines,
            host_configs={self.retried.name: of_retried},
            azure={
                "tenantId": bed.azure.tenant_id,
                "resourceManagerEndpoint": bed.azure.url,
                "activeDirectoryEndpoint": bed.azure.url,
                "arc": {"enabled": True, "autoRoleAssignment": True},
            },
        )
        with_arc = json.dumps(arc.variables(bed))
        self.runs[name] = self.site.play(playbook, inventory, "-e", with_arc, *options)
        self.bound[name] = identities_bound(bed)
        self.seen_tokens |= cloud.token_names(bed)


def identities_bound(bed: Testbed) -> set[str]:
    """The bindings of ours that let machines ask for certificates."""
    selected = ("clusterrolebindings", "--selector=aks.flexnode/identity", "--output=name")
    return {line.rpartition("/")[2] for line in bed.cluster.kubectl("get", *selected).split()}


@pytest.fixture(scope="module")
def certified(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A run in which one joins, one in which the other does, one with nothing to do, and the end."""
    bed.azure.settings()
    good, retried = machines(("arc-certified", "debian12"), ("arc-retried", "debian13"))
    for name in identities_bound(bed):  # left over from a run that was killed
        bed.cluster.kubectl("delete", "clusterrolebinding", name)
    operator = registrar(bed, "arc-certifier", cloud.ROLE)
    site = site_of(bed, tmp_path_factory.mktemp("certified"), operator, good, retried)
    seen = Certified(site, good, retried, cloud.token_names(bed))
    away = {**bed.node_document()["mirror"], "url": f"{bed.mirror.url}:444"}
    seen.play("failed", "bootstrap", mirror=away)
    script = "cat /var/lib/aks-flex-node/*config.json 2>/dev/null || true"
    seen.stored = {one.name: one.run(["sh", "-c", script]).stdout for one in (good, retried)}
    seen.play("joined", "bootstrap")
    seen.play("again", "bootstrap")
    seen.play("gone", "unbootstrap")
    return seen


class TestCertificates:
    """With `autoRoleAssignment` and the profile `certificate`, by source `cluster`."""

    def test_a_machine_is_let_join_and_no_longer_than_that(self, certified: Certified) -> None:
        """Bound before the join, taken back after it, in the same run."""
        run, name = certified.runs["failed"], certified.good.name
        done = [event["task"].rpartition(" : ")[2] for event in run.events if event["changed"]]
        bound = done.index("Assign Azure roles and RBAC bindings to all machines")
        taken = done.index("Remove Azure roles and RBAC bindings that are no longer needed")
        assert bound < taken
        assert not [event for event in run.events if event["outcome"] == "failed" and event["host"] == name]
        assert not [event for event in certified.runs["again"].events if event["outcome"] == "failed"]

    def test_no_token_is_minted_and_no_secret_is_stored(self, certified: Certified) -> None:
        assert certified.seen_tokens <= certified.tokens
        stored = certified.stored[certified.good.name]
        assert '"arc"' in stored
        assert not re.search(r"bootstrapToken|clientSecret|[a-z0-9]{6}\.[a-z0-9]{16}\b", stored)

    def test_a_machine_that_did_not_join_keeps_the_right_for_the_next_run(self, certified: Certified) -> None:
        """Its join failed, and what it was told is not stored; the run that joins takes the right back."""
        failed = failure(certified.runs["failed"], certified.retried.name)
        assert ":444" in failed
        assert certified.stored[certified.retried.name] == ""
        # By name: the one that has joined has lost it.
        assert len(certified.bound["failed"]) == 2
        assert certified.runs["joined"].status == 0, certified.runs["joined"].output[-5000:]
        assert certified.bound["joined"] == set()

    def test_a_second_run_changes_nothing_and_binds_nobody(self, certified: Certified) -> None:
        again = certified.runs["again"]
        assert again.status == 0, again.output[-5000:]
        assert changes(again) == []
        assert "aks.flexnode.flexnode_identity_binding" not in actions(again)

    def test_machines_are_given_back(self, certified: Certified) -> None:
        gone = certified.runs["gone"]
        assert gone.status == 0, gone.output[-5000:]
        for member in certified.site.members:
            assert member.arc_resource() == {}
            assert member.machine.name not in fleet.node_names(certified.site.bed)


class TestElsewhere:
    """Machines of others, and their troubles."""

    def test_another_registration_is_an_error_that_names_both(self, lame: Future[Lame]) -> None:
        seen = lame.result()
        message = failure(seen.elsewhere, seen.machine.name)
        assert message.startswith(f"FLEX-1813: this machine is registered as {seen.registered} ("), message
        assert f"(wanted: {seen.registered.rpartition('/')[0]}/another)" in message
        assert seen.touched == []

    def test_a_service_that_does_not_run_is_named(self, lame: Future[Lame]) -> None:
        seen = lame.result()
        message = failure(seen.stopped, seen.machine.name)
        assert message.startswith("FLEX-1815: the Arc agent does not work"), message
        assert "gcad not running" in message
        assert "systemctl restart gcad" in message


def changes(run: Play) -> list[str]:
    """What a run changed."""
    return [f"{event['host']}: {event['task']}" for event in run.events if event["changed"]]


def actions(run: Play) -> set[str]:
    """The modules of a run."""
    return {event["action"] for event in run.events}
