# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each identity polls; a machine of Azure Arc that leaves removes what was created there for it."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.left import LEFT, left_behind
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity import imds as metadata_service
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.imds import InstanceMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    obtain,
    stored_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.agent import (
    Registration,
    RegistrationRequest,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.record import RECORD
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.registration import (
    register,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import ROLES
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.assignments import name_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.faults.dying import DyingHost, Watch
from tests.unit.node.config.test_samples import CLUSTER, SUBSCRIPTION, TENANT
from tests.unit.node.fake_api import a_node
from tests.unit.node.fake_arm import ASSIGNMENTS, FakeArm, FakeMetadata, arm_error
from tests.unit.node.fakes import Machine
from tests.unit.node.procedures.test_arc import AGENT
from tests.unit.node.servers import Pki, Server, serving
from tests.unit.node.sites import CONFIG, KUBELET, MORE, Killed, Site, a_site

OID = "aaaaaaaa-1111-2222-3333-bbbbbbbbbbbb"
TOKEN_PATH = "/metadata/identity/oauth2/token"
MANAGED = {"azure": {"tenantId": TENANT, "managedIdentity": {}}}
ARC = {"azure": {"tenantId": TENANT, "arc": {"enabled": True, "location": "westeurope"}}}
FOR_BOTH = {"azure": {"bootstrapToken": None}, "kubernetesAuth": {"useAzureAuth": True}}
TOKENS = {"kubernetesAuth": {"profile": "token", "useAzureAuth": True}, "azure": {"bootstrapToken": None}}
READER = ROLES["reader"]
MACHINE = Registration(SUBSCRIPTION, "rg", "edge-1")
Captured = pytest.CaptureFixture[str]


@dataclass
class Edge:
    """A machine with an Azure identity of its own; its azcmagent is a program."""

    site: Site
    arm: FakeArm
    metadata: FakeMetadata

    @property
    def machine(self) -> Machine:
        return self.site.machine

    @property
    def host(self) -> Host:
        return self.host_of(Host)

    def host_of(self, kind: type[Host]) -> Any:
        return kind(root=str(self.machine.root), runner=self.run, clock=self.machine.clock)

    def run(self, argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        if argv[0] != "azcmagent":
            return self.machine.commands(argv, data, timeout)
        self.machine.commands.calls.append(tuple(argv))
        environment = {"AGENT_ROOT": str(self.machine.root), "PATH": os.environ["PATH"]}
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(AGENT), *argv[1:]],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def join(self, *changes: dict[str, Any]) -> None:
        for change in changes:
            self.arm.document = merge(self.arm.document, change)
        bundle = Inline({"config": self.arm.document, "configVersion": str(self.arm.version)})
        obtain(self.host, bundle, {}).keep()
        reconcile(stored_config(self.host), EVERYTHING)

    def registered(self) -> None:
        """By this collection, with a role that it assigned and one that someone else did."""
        self.machine.commands.units |= dict.fromkeys(
            ("himdsd.service", "extd.service", "gcad.service"), "active"
        )
        request = RegistrationRequest(registration=MACHINE, tenant_id=TENANT, location="westeurope", tags={})
        register(self.host, self.machine.store, request, Secret("t0ken-of-the-installer"))
        for name in (name_of(CLUSTER, OID, READER.id), "00000000-1111-2222-3333-444444444444"):
            assignment = f"{CLUSTER}{ASSIGNMENTS}/{name}"
            role = (
                f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{READER.id}"
            )
            self.arm.assignments[assignment] = {
                "id": assignment,
                "name": name,
                "properties": {"scope": CLUSTER, "principalId": OID, "roleDefinitionId": role},
            }

    def poll(self, host: Host | None = None, seconds: float = 30) -> int:
        self.machine.clock.time += seconds
        return main(["poll"], host or self.host)

    @property
    def ours(self) -> str:
        return f"{CLUSTER}{ASSIGNMENTS}/{name_of(CLUSTER, OID, READER.id)}"

    def agent(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.machine.root / "agent.json").read_text())
        return found


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    with ExitStack() as stack:
        site = stack.enter_context(a_site(debian, pki))
        arm = FakeArm(site.document)
        arm.server = stack.enter_context(serving(arm, pki.server_context()))
        endpoints = {"resourceManagerEndpoint": arm.server.url, "activeDirectoryEndpoint": arm.server.url}
        arm.document = merge(site.document, {"continuousMonitoring": True, "azure": endpoints})
        yield Edge(site, arm, FakeMetadata(OID))


@pytest.fixture
def metadata(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Server]]:
    """IMDS or HIMDS of the machine, where the identities look for it."""
    with ExitStack() as stack:

        def start(method: str) -> Server:
            edge.metadata.tokens = edge.machine.path("/var/opt/azcmagent/tokens") if method == "arc" else None
            server = stack.enter_context(serving(edge.metadata))
            endpoint = f"{server.url}{TOKEN_PATH}"
            monkeypatch.setenv("IDENTITY_ENDPOINT", endpoint)
            imds = functools.partial(InstanceMetadata, endpoint=endpoint)
            monkeypatch.setattr(metadata_service, "InstanceMetadata", imds)
            return server

        yield start


@pytest.mark.parametrize("both", [False, True], ids=["token and identity", "identity for both"])
@pytest.mark.parametrize(("method", "identity"), [("managedIdentity", MANAGED), ("arc", ARC)])
def test_a_machine_polls_with_the_identity_that_it_has(
    edge: Edge, metadata: Callable[[str], Server], method: str, identity: dict[str, Any], both: bool
) -> None:
    metadata(method)
    if method == "arc":
        edge.registered()
    edge.join(identity, *((FOR_BOTH,) if both else ()))
    issued = edge.metadata.issued
    for _ in range(3):
        assert edge.poll() == 0
    assert edge.machine.store.monitoring() == {}
    assert edge.metadata.issued == issued + 1
    edge.arm.publish(MORE)
    assert edge.poll() == 0
    assert '"maxPods": 50' in edge.machine.text(CONFIG)
    assert edge.machine.store.config_version() == "18"


# -- leaving Azure Arc -------------------------------------------------------------------------------------


def test_a_deleted_resource_removes_roles_and_registration_that_we_created(
    edge: Edge, metadata: Callable[[str], Server], capsys: Captured
) -> None:
    metadata("arc")
    before = edge.machine.snapshot("/etc", "/opt", "/usr")
    edge.registered()
    edge.join(ARC, FOR_BOTH)
    assert edge.poll() == 0
    edge.arm.deleted = True
    assert edge.poll() == 0
    assert "resourceName" in edge.agent()
    assert edge.poll() == 0
    assert "resourceName" not in edge.agent()
    assert [one.rpartition("/")[2] for one in edge.arm.assignments] == [
        "00000000-1111-2222-3333-444444444444"
    ]
    assert edge.machine.snapshot("/etc", "/opt", "/usr") == before
    assert not edge.machine.path(DATA_DIR).exists()
    said = capsys.readouterr().out
    assert "remove role Reader" in said
    assert "left:" not in said


def test_what_the_identity_may_not_remove_is_kept_for_the_controller(
    edge: Edge, metadata: Callable[[str], Server], capsys: Captured
) -> None:
    metadata("arc")
    edge.registered()
    edge.join(ARC, FOR_BOTH)
    edge.poll()
    (edge.machine.root / "trouble.json").write_text(
        json.dumps({"disconnect": {"code": 42, "text": "AuthorizationFailed"}})
    )
    edge.arm.answers[f"DELETE {edge.ours}"] = arm_error(403, "AuthorizationFailed")
    edge.arm.deleted = True
    edge.poll()
    assert edge.poll() == 1
    left = left_behind(edge.host)
    assert left["node"] == "edge-1"
    assert f"az role assignment delete --ids {edge.ours}" in "\n".join(left["left"])
    assert "Azure Arc" in "\n".join(left["left"])
    assert edge.machine.host.stat(LEFT).mode == 0o600
    assert json.loads(edge.machine.text(RECORD))["registration"].endswith("/edge-1")
    status = status_of(edge.host)
    assert (status["phase"], status["reason"], status["left"]) == ("NotStarted", "Left", left["left"])
    # Someone with the rights comes.
    (edge.machine.root / "trouble.json").unlink()
    assert main(["unbootstrap"], edge.host) == 1  # without its document nothing tells the cluster
    capsys.readouterr()
    edge.arm.deleted = False
    edge.join()
    assert not edge.machine.path(LEFT).exists()


def test_identities_that_others_may_use_keep_their_roles(
    edge: Edge, metadata: Callable[[str], Server]
) -> None:
    metadata("managedIdentity")
    edge.join(MANAGED)
    edge.poll()
    edge.arm.assignments[edge.ours] = {"id": edge.ours, "name": "x", "properties": {}}
    edge.arm.deleted = True
    edge.poll()
    assert edge.poll() == 0
    assert list(edge.arm.assignments) == [edge.ours]
    assert edge.machine.commands.times("azcmagent") == 0


@pytest.mark.parametrize("profile", [FOR_BOTH, TOKENS], ids=["certificate", "token"])
def test_a_leave_that_is_killed_anywhere_is_finished_here_and_in_azure(
    edge: Edge, metadata: Callable[[str], Server], profile: dict[str, Any]
) -> None:
    metadata("arc")
    if profile is TOKENS:
        edge.machine.commands.on_start[KUBELET] = lambda: edge.site.api.nodes.setdefault("edge-1", a_node())
    before = edge.machine.snapshot("/etc", "/opt", "/usr")
    for at in range(3, 800, 41):
        edge.arm.deleted = False
        edge.registered()
        edge.join(ARC, profile)
        edge.poll()
        edge.arm.deleted = True
        edge.poll()

        def die(moment: int, _where: str, at: int = at) -> None:
            if moment == at:
                raise Killed

        host = edge.host_of(DyingHost)
        host.watch = Watch(die)
        try:
            edge.poll(host)
        except Killed:
            if edge.machine.path(f"{DATA_DIR}/source.json").exists():
                edge.poll()
            else:
                main(["unbootstrap"], edge.host)
        else:
            break
        assert "resourceName" not in edge.agent()
        assert edge.ours not in edge.arm.assignments
        assert edge.machine.snapshot("/etc", "/opt", "/usr") == before
        assert edge.site.api.nodes == {}
        assert not edge.machine.path(LEFT).exists()
    else:
        pytest.fail("it never came to its end")
