# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever a machine is - by a bootstrap token, a service principal, an Azure VM's identity, Azure Arc - it
joins with the rights that the documentation names and no others, and is known as what it should be.

The members live through each step together, in one run of a playbook. What is seen of each member after a
step is kept, and each test looks at one member after one step.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest
import yaml
from cryptography import x509

from testbed import Testbed
from testbed.azure.sign_in.directory import Principal
from testbed.basics.process import Completed
from testbed.cluster.api import Api
from testbed.cluster.credentials import Credentials
from testbed.layout.identifiers import AKS_SERVER
from testbed.machine import Machine
from testbed.playbooks import Play, play
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.identities import Member, Method, Profile, inventory_of, registrar
from tests.e2e.photograph import differences, photograph

KUBELET_DIR = "/var/lib/kubelet"
CERTIFICATE = f"{KUBELET_DIR}/pki/kubelet-client-current.pem"
SCRIPT = f"{KUBELET_DIR}/token.sh"
# What the kubelet lives on, and what shows the API server the Azure identity itself.
LIVES_ON: Mapping[Profile, str] = {
    "certificate": f"{KUBELET_DIR}/kubeconfig",
    "token": f"{KUBELET_DIR}/token-kubeconfig",
}
SHOWS_IDENTITY: Mapping[Profile, str] = {
    "certificate": f"{KUBELET_DIR}/bootstrap-kubeconfig",
    "token": f"{KUBELET_DIR}/token-kubeconfig",
}
# What the examples bind an identity to.
ROLES: Mapping[Profile, Sequence[str]] = {
    "certificate": (
        "system:node-bootstrapper",
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
    ),
    "token": ("system:node",),
}
DOCUMENT = "/var/lib/aks-flex-node/current-config.json"
CHECKS = ["pod", "dns", "service", "logs", "exec"]
NAMESPACE = "identities"
ACCOUNTS = re.compile(r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Kind:
    """Who a machine is, and what it runs."""

    platform: str
    method: Method
    profile: Profile
    azure: Method | None = None


KINDS: Mapping[str, Kind] = {
    "bootstrap-token": Kind("debian12", "bootstrapToken", "certificate"),
    "principal-certificate": Kind("debian13", "servicePrincipal", "certificate"),
    "managed-certificate": Kind("ubuntu2204", "managedIdentity", "certificate"),
    "arc-certificate": Kind("ubuntu2404", "arc", "certificate"),
    "principal-token": Kind("ubuntu2404", "servicePrincipal", "token"),
    "managed-token": Kind("debian12", "managedIdentity", "token"),
    "arc-token": Kind("debian13", "arc", "token"),
    "bootstrap-token-and-arc": Kind("ubuntu2204", "bootstrapToken", "certificate", "arc"),
}
CERTIFIED = [name for name, kind in KINDS.items() if kind.profile == "certificate"]
ON_TOKENS = [name for name, kind in KINDS.items() if kind.profile == "token"]
KUBELET_BY_ARC = [name for name, kind in KINDS.items() if kind.method == "arc"]
IN_AZURE = [name for name, kind in KINDS.items() if kind.azure or kind.method != "bootstrapToken"]


# -- the crew, and how it is looked at ----------------------------------------------------------------------


@dataclass(frozen=True)
class Crew:
    """All members, in one inventory, and who runs the playbooks for them."""

    bed: Testbed
    members: Mapping[str, Member]
    inventory: Path
    operator: Principal
    before: Mapping[str, dict[str, Any]]  # photographs of the machines before their first run

    def play(self, playbook: str, **variables: Any) -> Play:
        """One run for all members, or for those that `flexnode_hosts` names."""
        environment = self.bed.azure.environment(self.operator)
        return play(playbook, self.inventory, "-e", json.dumps(variables), environment=environment)

    def each(self, look: Callable[[Member], Answer]) -> dict[str, Answer]:
        """Look at all members at once."""
        return at_once(look, self.members)

    def arrive(self, look: Callable[[Member], Answer], **variables: Any) -> Step[Answer]:
        """Have all members join, or stay."""
        run = fleet.succeeded(self.play("bootstrap", **variables))
        return Step(run, self.each(look))

    def depart(self) -> Departure:
        """Give all machines back; an administrator's kubeconfig is at hand for the Nodes that stay."""
        run = fleet.succeeded(self.play("unbootstrap"))
        changes = self.each(lambda one: given_back(one, self.before[one.machine.name]))
        return Departure(run, fleet.node_names(self.bed), changes)

    def let_in_when_known(self) -> None:
        """What somebody does who watches the play wait: let each Arc machine in, once Azure knows it."""
        for name in KUBELET_BY_ARC:
            fleet.eventually(f"{name} is in Azure", self.members[name].arc_resource, 120)
            self.members[name].may()


@dataclass(frozen=True)
class Still:
    """What does not change while nothing is to be done."""

    pids: Mapping[str, str]
    files: str


@dataclass(frozen=True)
class Seen:
    """A member of the cluster, seen from outside."""

    node: Mapping[str, Any]
    still: Still
    identity: str  # its object id in Azure; empty where it is nobody there
    user: Mapping[str, Any]  # whom the API server takes the kubelet for
    credential: Mapping[str, Any]  # what the kubelet's kubeconfig says of its user
    subject: str  # of the kubelet's client certificate; empty where there is none
    requestors: set[str]  # who asked for certificates of this Node
    script: str  # mode of the exec plugin; empty where there is none
    azure: str  # what the machine says of its token for Azure, or why there is none


@dataclass(frozen=True)
class Step(Generic[Answer]):
    """A run, and what was seen of each member after it."""

    run: Play
    seen: Mapping[str, Answer]


@dataclass(frozen=True)
class Departure:
    """A run that gave the machines back."""

    run: Play
    nodes: set[str]
    changes: Mapping[str, Sequence[str]]  # what of each machine is not as it was


def given_back(member: Member, before: dict[str, Any]) -> list[str]:
    """What of a machine is not as it was."""
    after = photograph(member.machine)
    if member.by_arc:
        before, after = without_package_books(before), without_package_books(after)
    return differences(before, after)


def without_package_books(photo: dict[str, Any]) -> dict[str, Any]:
    """Where a package came and went: without dpkg's books, and times and backups of the user database."""
    files = {}
    for path, facts in photo["files"].items():
        if ACCOUNTS.fullmatch(path):
            files[path] = [*facts[:3], facts[-1]]
        elif not ACCOUNTS.fullmatch(path.removesuffix("-")) and not path.startswith("/var/lib/dpkg/"):
            files[path] = facts
    return {**photo, "files": files}


def at_once(look: Callable[[Member], Answer], members: Mapping[str, Member]) -> dict[str, Answer]:
    """The answer of each."""
    with ThreadPoolExecutor(max_workers=4) as pool:
        return dict(zip(members, pool.map(look, members.values()), strict=True))


def look(member: Member) -> Seen:
    """The Node, the machine, and the kubelet's credential at work."""
    machine, name = member.machine, member.machine.name
    config = yaml.safe_load(machine.read(LIVES_ON[member.profile]))
    token = machine.run(["aks-flex-node", "token", "--check", "--purpose=azure"], check=False)
    return Seen(
        node=fleet.node(member.bed, name),
        still=look_still(member),
        identity=member.object_id if name in IN_AZURE else "",
        user=json.loads(kubectl(member, "auth", "whoami", "--output=json").stdout)["status"]["userInfo"],
        credential=config["users"][0]["user"],
        subject=subject(machine),
        requestors=requestors(member.bed, name),
        script=machine.run(["stat", "--format=%a", SCRIPT], check=False).stdout.strip(),
        azure=token.stdout + token.stderr,
    )


def look_still(member: Member) -> Still:
    """Processes and files."""
    return Still(fleet.main_pids(member.machine), fleet.snapshot(member.machine))


def look_at_node(member: Member) -> dict[str, Any]:
    """The Node alone."""
    return fleet.node(member.bed, member.machine.name)


def kubectl(member: Member, *argv: str, kubeconfig: str = "", check: bool = True) -> Completed:
    """At the machine, with what its kubelet lives on, or with another credential of the machine's."""
    path = kubeconfig or LIVES_ON[member.profile]
    return member.machine.run(["kubectl", f"--kubeconfig={path}", *argv], check=check)


def subject(machine: Machine) -> str:
    """Whom the kubelet's client certificate names."""
    found = machine.run(["cat", CERTIFICATE], check=False)
    if found.returncode != 0:
        return ""
    return x509.load_pem_x509_certificate(found.stdout.encode()).subject.rfc4514_string()


def requestors(bed: Testbed, name: str) -> set[str]:
    """Who asked for client certificates of a Node, as the API server wrote it down."""
    items = json.loads(bed.cluster.kubectl("get", "csr", "--output=json"))["items"]
    wanted = f"CN=system:node:{name},O=system:nodes"
    return {
        item["spec"]["username"]
        for item in items
        if x509.load_pem_x509_csr(base64.b64decode(item["spec"]["request"])).subject.rfc4514_string()
        == wanted
    }


# -- the life of the crew, step by step ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def crew(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Machines with the rights of the examples, and no Azure role at all."""
    made = machines(*((name, kind.platform) for name, kind in KINDS.items()))
    operator = registrar(bed, "identities", "Reader")  # unbootstrap looks there for roles that were given
    members = {
        machine.name: Member(bed, machine, kind.method, kind.profile, operator, kind.azure)
        for machine, kind in zip(made, KINDS.values(), strict=True)
    }
    at_once(Member.exist, members)
    bed.cluster.kubectl("delete", "csr", "--all")  # of machines that had these names before
    for member in members.values():
        member.may_nothing()  # left over from a run that was killed
        if member.method != "arc":
            member.may()
    inventory = inventory_of(
        list(members.values()),
        tmp_path_factory.mktemp("identities") / "edge_hosts.yml",
        flexnode_arc_roles=[],
        flexnode_kubeconfig=str(bed.cluster.kubeconfig),
        flexnode_proof_image=bed.registry.workload_image,
    )
    yield Crew(bed, members, inventory, operator, at_once(lambda one: photograph(one.machine), members))
    for member in members.values():
        member.may_nothing()


@pytest.fixture(scope="module")
def refused(crew: Crew) -> Play:
    """The first run for Arc machines, which were nobody before it. What it tells to type is typed."""
    run = crew.play("bootstrap", flexnode_hosts=KUBELET_BY_ARC, flexnode_arc_wait_seconds=1)
    for name in KUBELET_BY_ARC:
        for command in commands(message(run, name)):
            crew.bed.cluster.kubectl(*shlex.split(command)[1:])
    return run


@pytest.fixture(scope="module")
def joined(crew: Crew, refused: Play) -> Step[Seen]:
    return crew.arrive(look, flexnode_proof=True)


@pytest.fixture(scope="module")
def readers(crew: Crew, joined: Step[Seen]) -> dict[str, Reader]:
    """What members can read of Secrets."""
    names = ("principal-certificate", "principal-token")
    with_pods(crew.bed, names)
    try:
        return {name: Reader.of(crew.members[name]) for name in names}
    finally:
        crew.bed.cluster.kubectl("delete", "namespace", NAMESPACE)


@pytest.fixture(scope="module")
def repeated(crew: Crew, readers: dict[str, Reader]) -> Step[Still]:
    return crew.arrive(look_still)


@pytest.fixture(scope="module")
def left(crew: Crew, repeated: Step[Still]) -> Departure:
    return crew.depart()


@pytest.fixture(scope="module")
def rejoined(crew: Crew, left: Departure) -> Step[dict[str, Any]]:
    """As before, but nobody runs the play twice: it waits for the Arc machines' rights."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        grants = pool.submit(crew.let_in_when_known)
        step = crew.arrive(look_at_node)
        grants.result()
    return step


@pytest.fixture(scope="module")
def gone(crew: Crew, rejoined: Step[dict[str, Any]]) -> Departure:
    return crew.depart()


def message(run: Play, host: str) -> str:
    """Why a run failed for a host."""
    failed = [one["result"] for one in run.events if (one["outcome"], one["host"]) == ("failed", host)]
    assert len(failed) == 1, run.output
    return str(failed[0]["msg"])


def commands(text: str) -> list[str]:
    """The lines of a message that somebody with rights in the cluster is to type."""
    return [line.strip() for line in text.splitlines() if line.strip().startswith("kubectl ")]


# -- each member, each step ---------------------------------------------------------------------------------


every_member = pytest.mark.parametrize("name", KINDS)


@every_member
def test_node_is_ready_with_the_right_version(crew: Crew, joined: Step[Seen], name: str) -> None:
    node = joined.seen[name].node
    assert fleet.is_ready(node)
    assert node["status"]["nodeInfo"]["kubeletVersion"] == f"v{crew.bed.cluster.version}"


@every_member
def test_pods_logs_and_exec_work(joined: Step[Seen], name: str) -> None:
    nodes = joined.run.result("localhost", "flexnode_proof")["nodes"]
    (proven,) = [node for node in nodes if node["name"] == name]
    assert [(one["name"], one["status"]) for one in proven["checks"]] == [(one, "passed") for one in CHECKS]


@pytest.mark.parametrize("name", CERTIFIED)
def test_kubelet_with_a_certificate_is_its_node(joined: Step[Seen], name: str) -> None:
    seen = joined.seen[name]
    assert seen.subject == f"CN=system:node:{name},O=system:nodes"
    assert seen.user["username"] == f"system:node:{name}"
    assert "system:nodes" in seen.user["groups"]
    assert seen.credential == {"client-certificate": CERTIFICATE, "client-key": CERTIFICATE}


@pytest.mark.parametrize("name", CERTIFIED)
def test_certificate_was_asked_for_by_who_was_to_ask(crew: Crew, joined: Step[Seen], name: str) -> None:
    """By the Azure identity, through the exec plugin; or by a bootstrap token, without the plugin."""
    seen, inventory = joined.seen[name], yaml.safe_load(crew.inventory.read_text())
    azure = inventory["all"]["hosts"][name]["flexnode_host_config"]["azure"]
    if "bootstrapToken" in azure:
        token_id = azure["bootstrapToken"]["token"].partition(".")[0]
        assert (seen.requestors, seen.script) == ({f"system:bootstrap:{token_id}"}, "")
    else:
        assert (seen.requestors, seen.script) == ({seen.identity}, "700")


@pytest.mark.parametrize("name", ON_TOKENS)
def test_kubelet_with_tokens_is_its_azure_identity(joined: Step[Seen], name: str) -> None:
    seen = joined.seen[name]
    assert seen.user["username"] == seen.identity
    assert set(seen.credential) == {"exec"}
    assert seen.credential["exec"]["command"] == SCRIPT
    assert (seen.subject, seen.requestors, seen.script) == ("", set(), "700")


@pytest.mark.parametrize("name", IN_AZURE)
def test_node_has_access_to_azure(crew: Crew, joined: Step[Seen], name: str) -> None:
    """With the kubelet's identity, or with that of Arc where the kubelet joined by a token."""
    seen, azure = joined.seen[name], crew.bed.azure
    assert seen.identity
    assert f"object    {seen.identity}  tenant {azure.tenant_id}\n" in seen.azure
    assert f"audience  {azure.url}\n" in seen.azure


def test_who_is_nobody_in_azure_has_no_access(joined: Step[Seen]) -> None:
    assert "the configuration has no Azure identity for azure" in joined.seen["bootstrap-token"].azure


@every_member
def test_second_run_changes_and_restarts_nothing(
    joined: Step[Seen], repeated: Step[Still], name: str
) -> None:
    assert (repeated.run.changed(name), repeated.run.changed("localhost")) == (0, 0)
    assert repeated.seen[name].pids == joined.seen[name].still.pids
    assert repeated.seen[name].files == joined.seen[name].still.files


@every_member
def test_machine_is_as_it_was_and_its_node_is_gone(left: Departure, name: str) -> None:
    assert left.changes[name] == []
    assert name not in left.nodes


@every_member
def test_machine_deletes_its_own_node_if_it_is_one(left: Departure, name: str) -> None:
    """An Azure identity may not, says so, and the controller does it."""
    stayed = left.run.result(name, "flexnode_reconcile")["node_remains"]
    assert ('cannot delete resource "nodes"' in stayed) if name in ON_TOKENS else (stayed == "")


@every_member
def test_joins_again_and_leaves_again(rejoined: Step[dict[str, Any]], gone: Departure, name: str) -> None:
    assert fleet.is_ready(rejoined.seen[name])
    assert gone.changes[name] == []
    assert name not in gone.nodes


@pytest.mark.parametrize("name", KUBELET_BY_ARC)
def test_new_arc_machine_is_refused_with_the_commands_that_let_it_in(
    refused: Play, joined: Step[Seen], name: str
) -> None:
    """They were typed as they stand there: nothing else let the machine join."""
    told = message(refused, name)
    roles = [f"--clusterrole={role}" for role in ROLES[KINDS[name].profile]]
    assert [shlex.split(line)[-2:] for line in commands(told)] == [
        [role, f"--user={joined.seen[name].identity}"] for role in roles
    ]
    assert fleet.is_ready(joined.seen[name].node)


# -- Secrets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reader:
    """Which Secrets a machine can read: as its kubelet, and with the Azure identity itself."""

    own_pods: bool
    other_pods: bool
    all_by_identity: bool

    @classmethod
    def of(cls, member: Member) -> Reader:
        """Really read them."""
        own, other, in_namespace = member.machine.name, "nobodys", f"--namespace={NAMESPACE}"

        def reads(*what: str, kubeconfig: str = "") -> bool:
            return kubectl(member, "get", *what, kubeconfig=kubeconfig, check=False).returncode == 0

        # The API server learns of the pod a moment later.
        fleet.eventually(f"{own} reads its pod's Secret", lambda: reads("secret", own, in_namespace), 20)
        identity = SHOWS_IDENTITY[member.profile]
        return cls(
            True,
            reads("secret", other, in_namespace),
            reads("secrets", "--all-namespaces", kubeconfig=identity),
        )


def with_pods(bed: Testbed, names: Sequence[str]) -> None:
    """A Secret and a pod that mounts it on each Node, and a Secret of nobody's."""
    secrets = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}}
        for name in (*names, "nobodys")
    ]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "nodeName": name,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "pause", "image": bed.registry.pause_image}],
                "volumes": [{"name": "own", "secret": {"secretName": name}}],
            },
        }
        for name in names
    ]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    bed.cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump_all([namespace, *secrets]))
    fleet.eventually(
        "pods can be made",
        lambda: bed.cluster.kubectl("get", "serviceaccounts", f"--namespace={NAMESPACE}", "--output=name"),
    )
    bed.cluster.kubectl("apply", "--filename=-", input=yaml.safe_dump_all(pods))


def test_with_a_certificate_a_machine_reads_only_its_own_pods_secrets(readers: dict[str, Reader]) -> None:
    """Neither its certificate nor its identity lets it read more."""
    assert readers["principal-certificate"] == Reader(True, False, False)


def test_with_tokens_a_machine_reads_every_secret(readers: dict[str, Reader]) -> None:
    """The documentation's warning is true."""
    assert readers["principal-token"] == Reader(True, True, True)


# -- the smallest rights ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lack:
    """A binding of the examples that is not there, and what its absence means."""

    profile: Profile
    binding: str
    role: str
    acts: str


LACKS = (
    Lack("certificate", "bootstrap", ROLES["certificate"][0], "create certificatesigningrequests"),
    Lack("certificate", "approve", ROLES["certificate"][1], "create certificatesigningrequests/nodeclient"),
    Lack(
        "token",
        "kubelet",
        ROLES["token"][0],
        "create nodes, patch nodes/status, update leases, watch pods, create subjectaccessreviews",
    ),
)


@pytest.fixture(scope="module")
def single(bed: Testbed, machines: MachineMaker) -> Iterator[Member]:
    """A machine with a service principal."""
    (machine,) = machines(("least-rights", "debian12"))
    member = Member(bed, machine, "servicePrincipal")
    member.exist()
    yield member
    member.may_nothing()


@pytest.mark.parametrize("lack", LACKS, ids=lambda lack: f"{lack.profile}-without-{lack.binding}")
def test_without_one_binding_a_join_is_refused_and_that_one_is_named(
    single: Member, lack: Lack, tmp_path: Path
) -> None:
    """Nothing of the examples can be left out, and the message names what was."""
    member, name = replace(single, profile=lack.profile), single.machine.name
    binding = f"flexnode-identity-{lack.binding}-{name}"
    with rights(member):
        member.bed.cluster.kubectl("delete", "clusterrolebinding", binding)
        run = member.play("bootstrap", member.inventory(tmp_path / "hosts.yml"))
    assert run.status != 0
    told = message(run, name)
    assert f"cluster-rights: the identity {member.object_id} may not {lack.acts} in the cluster" in told
    command = (
        f"kubectl create clusterrolebinding {binding} --clusterrole={lack.role} --user={member.object_id}"
    )
    assert told[told.index("kubectl ") :].splitlines()[0] == command
    assert name not in fleet.node_names(member.bed)


CERTIFICATES, AUTHORIZATION = "certificates.k8s.io", "rbac.authorization.k8s.io"
# What an identity may do with the rights of each profile.
MAY = {
    # act: (certificate, token)
    ("create", "certificatesigningrequests", CERTIFICATES): (True, True),
    ("list", "secrets", ""): (False, True),
    ("create", "pods", ""): (False, True),
    ("patch", "nodes", ""): (False, True),
    ("delete", "nodes", ""): (False, False),
    ("create", "clusterrolebindings", AUTHORIZATION): (False, False),
}


@pytest.mark.parametrize("profile", ROLES)
def test_identity_may_do_what_its_profile_needs_and_no_more(single: Member, profile: Profile) -> None:
    """Asked of the API server, with a token of the identity's own."""
    bed, column = single.bed, list(ROLES).index(profile)
    token = bed.azure.token(single.principal, AKS_SERVER)
    assert bed.cluster.whoami(token) == single.object_id

    def found() -> dict[tuple[str, str, str], bool]:
        return {act: allowed(bed, token, *act) for act in MAY}

    assert not any(found().values())
    with rights(replace(single, profile=profile)):
        fleet.eventually("the rights are in effect", lambda: any(found().values()), 20)
        assert found() == {act: may[column] for act, may in MAY.items()}


def allowed(bed: Testbed, token: str, verb: str, resource: str, group: str) -> bool:
    """Whether the API server lets the bearer of a token do something anywhere."""
    api = Api(bed.cluster.server, Credentials(bed.site).authority.pair.cert, token=token)
    act = {"resourceAttributes": {"verb": verb, "resource": resource, "group": group}}
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": act})
    return bool(answer["status"]["allowed"])


@contextmanager
def rights(member: Member) -> Iterator[None]:
    """What the examples give, for the length of a block."""
    member.may()
    try:
        yield
    finally:
        member.may_nothing()


def test_secret_in_a_file_stays_in_that_file(single: Member, tmp_path: Path) -> None:
    """The machine joins with it, and neither our state, nor the kubelet's, nor the run's output has it."""
    machine, principal, path = single.machine, single.principal, "/etc/site/principal.secret"
    machine.run(["install", "-D", "--mode=0600", "/dev/stdin", path], input=principal.secret)
    document = single.document()
    document["azure"]["servicePrincipal"] = {
        "clientId": principal.client_id,
        "clientSecretFile": path,
        "clientTenant": single.bed.azure.tenant_id,
    }
    inventory = single.inventory(tmp_path / "hosts.yml", document)
    with rights(single):
        run = fleet.succeeded(single.play("bootstrap", inventory))
    assert fleet.is_ready(fleet.node(single.bed, machine.name))
    stored = json.loads(machine.read(DOCUMENT))
    assert stored["azure"]["servicePrincipal"] == document["azure"]["servicePrincipal"]
    places = ("/etc", "/opt", "/run", "/usr/local", "/var")
    searched = ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "--file=-", *places]
    assert machine.run(searched, input=principal.secret, check=False).stdout.split() == [path]
    assert principal.secret not in run.output

    fleet.succeeded(single.play("unbootstrap", inventory))
    assert machine.read(path) == principal.secret
