# SPDX-License-Identifier: GPL-3.0-or-later
"""A Node outlives its credentials: tokens end, whoever gives them is away, secrets and authorities change.

Kubelets and API server are real, and tokens really end: the emulated Entra issues them with short lives.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testbed import Testbed, arc
from testbed.azure import Fault
from testbed.basics.errors import CommandFailed
from testbed.cluster.api import ApiError
from testbed.machine import Machine
from testbed.playbooks import Play, play, write_inventory
from testbed.services import imds
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.identities import GRANTOR_ROLES, OWN_PARTS, Member, Method, Profile, registrar
from tests.e2e.watch import Watch

SIGN_IN = "/oauth2/v2.0/token"
TOKENS = "/run/aks-flex-node/tokens"
SHORT, LONGER, OUTAGE = 30, 75, 60  # seconds
LIVES: Mapping[str, tuple[str, Method]] = {
    "life-principal": ("debian12", "servicePrincipal"),
    "life-vm": ("debian13", "managedIdentity"),
    "life-arc": ("ubuntu2404", "arc"),
}
CHANGING: Mapping[Profile, str] = {"certificate": "debian12", "token": "ubuntu2204"}
ROTATED: Mapping[str, tuple[str, Method, Profile]] = {
    "authority-token": ("debian12", "bootstrapToken", "certificate"),
    "authority-principal": ("ubuntu2204", "servicePrincipal", "certificate"),
    "authority-tokens": ("debian13", "servicePrincipal", "token"),
}


def own_parts(member: Member) -> dict[str, Any]:
    """What only this machine's document says."""
    return {part: value for part, value in member.document().items() if part in OWN_PARTS}


@dataclass(frozen=True)
class Pod:
    """A pod that is bound to a Node, and says one word."""

    bed: Testbed
    node: str

    def start(self) -> Pod:
        """Have it running."""
        container = {
            "name": "word",
            "image": self.bed.registry.workload_image,
            "command": ["sh", "-c", "echo alive; exec sleep 86400"],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.node, "namespace": "default"},
            "spec": {"nodeName": self.node, "containers": [container], "terminationGracePeriodSeconds": 1},
        }
        self.bed.cluster.kubectl("create", "--filename=-", input=json.dumps(pod))
        self.bed.cluster.kubectl("wait", f"pod/{self.node}", "--for=condition=Ready", "--timeout=60s")
        return self

    def _logs(self) -> str:
        try:
            return self.bed.cluster.kubectl("logs", self.node)
        except CommandFailed:
            return ""

    def still(self) -> tuple[str, int]:
        """It is this very pod, was never restarted, and people reach it: logs and exec work."""
        pod = json.loads(self.bed.cluster.kubectl("get", "pod", self.node, "--output=json"))
        # A kubelet that has just started learns of its pods a moment after its Node is Ready.
        assert fleet.eventually(f"logs of {self.node}", self._logs, 15) == "alive\n"
        assert self.bed.cluster.kubectl("exec", self.node, "--", "echo", "here") == "here\n"
        return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


@pytest.fixture(autouse=True)
def _usual(bed: Testbed) -> Iterator[None]:
    """Azure as it is by default, afterwards."""
    yield
    bed.azure.heal()
    bed.azure.settings()


# -- tokens, and those who give them ------------------------------------------------------------------------


@dataclass(frozen=True)
class Crew:
    """A kubelet of each kind that lives on Entra tokens, with a pod."""

    bed: Testbed
    machines: Mapping[str, Machine]
    pods: Mapping[str, Pod]

    def issued(self, name: str, *, status: int = 200) -> int:
        """How often a machine was given a token, or refused one."""
        return sum(
            request.client == self.machines[name].ip
            and request.path.endswith(SIGN_IN)
            and request.status == status
            for request in self.bed.azure.requests()
        )

    def get_tokens(self, count: int, seconds: float, *names: str) -> None:
        """Wait until each machine was given so many."""
        for name in names or self.machines:
            wanted = partial(self._has, name, count)
            fleet.eventually(f"{count} new token(s) of {name}", wanted, seconds)

    def _has(self, name: str, count: int) -> bool:
        return self.issued(name) >= count

    def are_ready(self) -> bool:
        """Whether all Nodes are."""
        return all(fleet.is_ready(fleet.node(self.bed, name)) for name in self.machines)

    def watch(self) -> Watch:
        """Look at all of them."""
        return Watch.of(self.bed, self.machines)

    def pids(self) -> dict[str, str]:
        """The kubelets."""
        return {name: fleet.main_pids(one)["kubelet.service"] for name, one in self.machines.items()}


@pytest.fixture(scope="module")
def crew(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Crew:
    bed.azure.settings(token_seconds=SHORT)
    made = machines(*((name, platform) for name, (platform, _) in LIVES.items()))
    operator = registrar(bed, "life-operator", *GRANTOR_ROLES)
    members = [Member(bed, one, LIVES[one.name][1], "token", operator) for one in made]
    for member in members:
        member.exist()
        if member.method != "arc":
            member.may()
    everyone = bed.node_document()
    everyone["azure"]["arc"] = {"autoRoleAssignment": True}  # for the one that has no identity before
    inventory = write_inventory(
        bed,
        made,
        tmp_path_factory.mktemp("life") / "edge_hosts.yml",
        host_configs={
            member.machine.name: {part: member.document()[part] for part in OWN_PARTS[:2]}
            for member in members
        },
        flexnode_config=everyone,
        **arc.variables(bed),
    )
    fleet.succeeded(play("bootstrap", inventory, environment=bed.azure.environment(operator)))
    return Crew(bed, {one.name: one for one in made}, {one.name: Pod(bed, one.name).start() for one in made})


def test_a_kubelet_works_on_when_its_tokens_end(crew: Crew) -> None:
    crew.bed.azure.settings(token_seconds=SHORT)
    before = {name: pod.still() for name, pod in crew.pods.items()}
    pids, start = crew.pids(), time.monotonic()
    crew.bed.azure.forget_requests()
    with crew.watch() as watch:
        crew.get_tokens(3, 5 * SHORT)
    assert time.monotonic() - start > 2 * SHORT, "no token has lived that long"
    assert set(watch.down) == {frozenset()}, "always Ready"
    assert {name: pod.still() for name, pod in crew.pods.items()} == before
    assert crew.pids() == pids


def test_whoever_gives_tokens_may_be_restarted(crew: Crew) -> None:
    crew.bed.azure.settings(token_seconds=SHORT)
    crew.bed.azure.forget_requests()
    with crew.watch() as watch:
        crew.machines["life-arc"].run(["systemctl", "restart", "himdsd"])
        crew.machines["life-vm"].run(["systemctl", "restart", imds.UNIT])
        crew.get_tokens(1, 2 * SHORT, "life-arc", "life-vm")
    assert set(watch.down) == {frozenset()}, "always Ready"
    for name in ("life-arc", "life-vm"):
        crew.pods[name].still()


def test_entra_may_be_away_for_a_minute(crew: Crew) -> None:
    """All tokens begin together, are to be replaced while nobody gives any, and end before that is over."""
    azure = crew.bed.azure
    azure.settings(token_seconds=LONGER)
    before = {name: pod.still() for name, pod in crew.pods.items()}
    azure.forget_requests()
    for machine in crew.machines.values():
        machine.run(["rm", "-r", TOKENS])
        machine.run(["systemctl", "restart", "kubelet"])
    crew.get_tokens(1, 20)
    fleet.eventually("all are Ready", crew.are_ready, 30)
    pids = crew.pids()
    with crew.watch() as watch:
        time.sleep(LONGER - OUTAGE + 10)
        azure.fail(Fault(path=SIGN_IN, status=503))
        time.sleep(OUTAGE)
        failed = {name: crew.issued(name, status=503) for name in crew.machines}
        azure.heal()
        azure.forget_requests()
        crew.get_tokens(1, 60)
    assert all(failed.values()), f"somebody did not need a token: {failed}"
    assert set(watch.down) == {frozenset()}, "always Ready"
    assert {name: pod.still() for name, pod in crew.pods.items()} == before
    assert crew.pids() == pids


# -- credentials that are replaced by changing the configuration --------------------------------------------


@dataclass(frozen=True)
class Changing:
    """A machine whose configuration changes, and a pod on it."""

    member: Member
    directory: Path
    pod: Pod

    def follow(self, member: Member, **variables: Any) -> Play:
        """Be somebody, by the playbook."""
        inventory = member.inventory(self.directory / "edge_hosts.yml", **variables)
        return fleet.succeeded(member.play("bootstrap", inventory))

    def uid(self) -> str:
        """Which Node it is."""
        return str(fleet.node(self.member.bed, self.member.machine.name)["metadata"]["uid"])

    def reads(self, *argv: str) -> str:
        """What a command says at the machine."""
        return self.member.machine.run(list(argv)).stdout


@pytest.fixture
def changing(
    bed: Testbed, machines: MachineMaker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Changing]:
    """A service principal's machine, which is a node with a pod."""
    (machine,) = machines(("life-changing", CHANGING[request.param]))
    operator = registrar(bed, "life-operator", *GRANTOR_ROLES)
    member = Member(bed, machine, "servicePrincipal", request.param, operator)
    member.exist()
    member.may()
    one = Changing(member, tmp_path, Pod(bed, machine.name))
    one.follow(member)
    one.pod.start()
    yield one
    member.may_nothing()
    bed.cluster.kubectl("delete", "pod", machine.name, "--force", "--grace-period=0")
    bed.cluster.kubectl("delete", "node", machine.name)


@pytest.mark.parametrize("changing", ["certificate", "token"], indirect=True)
def test_a_secret_is_replaced(changing: Changing, bed: Testbed) -> None:
    member, node, pod = changing.member, changing.uid(), changing.pod.still()
    kubelet = fleet.main_pids(member.machine)
    renewed = bed.azure.renew_secret(member.principal)
    again = changing.follow(member)
    assert again.changed(member.machine.name) == 1
    assert renewed.secret in changing.reads("cat", "/var/lib/kubelet/token-identity.json")
    assert renewed.object_id in changing.reads("aks-flex-node", "token", "--check")
    assert (changing.uid(), changing.pod.still()) == (node, pod)
    if member.profile == "certificate":  # to a kubelet with a certificate it is nothing
        assert fleet.main_pids(member.machine) == kubelet
    assert changing.follow(member).changed(member.machine.name) == 0


@pytest.mark.parametrize("changing", ["certificate"], indirect=True)
def test_a_machine_becomes_somebody_else(changing: Changing) -> None:
    first, node, pod = changing.member, changing.uid(), changing.pod.still()
    name = first.machine.name
    steps: list[tuple[Method, Profile]] = [
        ("managedIdentity", "certificate"),
        ("managedIdentity", "token"),
        ("servicePrincipal", "token"),
        ("bootstrapToken", "certificate"),
        ("servicePrincipal", "certificate"),
    ]
    for method, profile in steps:
        member = replace(first, method=method, profile=profile)
        member.exist()
        member.may()
        changing.follow(member)
        assert fleet.is_ready(fleet.node(member.bed, name)), (method, profile)
        assert (changing.uid(), changing.pod.still()) == (node, pod), (method, profile)
        lives_on = changing.reads("cat", "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
        assert ("token-kubeconfig" in lives_on) == (profile == "token")
        if method != "bootstrapToken":  # whose document holds a new one each time
            assert changing.follow(member).changed(name) == 0, (method, profile)


# -- another authority ---------------------------------------------------------------------------------------


def test_the_cluster_gets_another_authority(bed: Testbed, machines: MachineMaker, tmp_path: Path) -> None:
    """What the old one signed is worthless at once: the API server's certificate, and those of kubelets."""
    made = machines(*((name, platform) for name, (platform, *_) in ROTATED.items()))
    members = [Member(bed, one, *ROTATED[one.name][1:]) for one in made]
    for member in members:
        member.exist()
        member.may()

    def run(number: int) -> Play:
        inventory = write_inventory(
            bed,
            made,
            tmp_path / f"hosts-{number}.yml",
            host_configs={one.machine.name: own_parts(one) for one in members},
            flexnode_config=bed.node_document(),
        )
        return fleet.succeeded(play("bootstrap", inventory))

    def seen() -> dict[str, Any]:
        return {
            one.name: (fleet.node(bed, one.name)["metadata"]["uid"], pods[one.name].still()) for one in made
        }

    run(1)
    pods = {one.name: Pod(bed, one.name).start() for one in made}
    before, old = seen(), bed.cluster.ca_pem
    bed.rotate_cluster_ca()
    assert bed.cluster.ca_pem != old
    with pytest.raises(ApiError):  # the kubelets trust nobody, and nobody trusts them
        bed.cluster.api().text(f"/api/v1/nodes/{made[0].name}/proxy/healthz")
    run(2)
    assert seen() == before
    assert all(fleet.is_ready(fleet.node(bed, one.name)) for one in made)
    settled = run(3)
    for name, (_, method, _) in ROTATED.items():
        if method != "bootstrapToken":  # whose document holds a new one each time
            assert settled.changed(name) == 0
