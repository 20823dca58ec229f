# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine joins a pool with its own identity (Arc, managed identity), follows it, and leaves it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity import imds as metadata_service
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.imds import InstanceMetadata
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.assignments import name_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machines import ROLE
from tests.unit.node.config.test_samples import CLUSTER, SUBSCRIPTION, TENANT
from tests.unit.node.fake_arm import ASSIGNMENTS, FakeMetadata, arm_error
from tests.unit.node.fake_pool import OWN, POOL, PUT, FakePool, data_of
from tests.unit.node.fakes import Machine
from tests.unit.node.follow.test_identities import OID, TOKEN_PATH, Edge
from tests.unit.node.follow.test_machine import TAINT
from tests.unit.node.servers import Pki, serving
from tests.unit.node.sites import a_site

Captured = pytest.CaptureFixture[str]
OURS = f"{POOL}{ASSIGNMENTS}/{name_of(POOL, OID, ROLE)}"


@dataclass
class Pooled(Edge):
    """The machine, and the file with the settings of its site."""

    arm: FakePool
    config: Path

    def join_pool(self, identity: str, *more: str) -> int:
        pool = ("--cluster", CLUSTER, "--pool", "edge", "--identity", identity)
        return main(["join", *pool, "--config", str(self.config), *more], self.host)

    def stored(self) -> dict[str, Any]:
        return self.machine.store.current_config() or {}

    def assigned(self) -> None:
        """The role of the pool, by this collection."""
        definition = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{ROLE}"
        properties = {"scope": POOL, "principalId": OID, "roleDefinitionId": definition}
        self.arm.assignments = {OURS: {"id": OURS, "name": OURS.rpartition("/")[2], "properties": properties}}


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pooled]:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    with ExitStack() as stack:
        site = stack.enter_context(a_site(debian, pki))
        arm = FakePool(site.document, data=data_of(site))
        arm.server = stack.enter_context(serving(arm, pki.server_context()))
        config = tmp_path / "site.json"
        endpoints = {"resourceManagerEndpoint": arm.server.url, "activeDirectoryEndpoint": arm.server.url}
        config.write_text(json.dumps({"mirror": site.document["mirror"], "azure": endpoints}))
        yield Pooled(site, arm, FakeMetadata(OID), config)


@pytest.fixture
def metadata(edge: Pooled, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """IMDS or HIMDS of the machine, where the identities look for it."""
    with ExitStack() as stack:

        def start(method: str) -> None:
            edge.metadata.tokens = edge.machine.path("/var/opt/azcmagent/tokens") if method == "arc" else None
            server = stack.enter_context(serving(edge.metadata))
            endpoint = f"{server.url}{TOKEN_PATH}"
            monkeypatch.setenv("IDENTITY_ENDPOINT", endpoint)
            imds = functools.partial(InstanceMetadata, endpoint=endpoint)
            monkeypatch.setattr(metadata_service, "InstanceMetadata", imds)

        yield start


@pytest.mark.parametrize("method", ["managedIdentity", "arc"])
def test_a_machine_joins_and_follows_with_the_identity_that_it_has(
    edge: Pooled, metadata: Callable[[str], None], method: str
) -> None:
    metadata(method)
    if method == "arc":
        edge.registered()
    assert edge.join_pool(method) == 0
    azure = edge.stored()["azure"]
    assert azure["tenantId"] == TENANT, "what the identity says"
    assert edge.stored()["azureAuth"] == {"method": method}
    assert edge.arm.asked(PUT) == 1
    assert edge.poll() == 0
    edge.arm.goal(nodeLabels={"site": "lab-2"})
    assert edge.poll(seconds=601) == 0
    assert edge.site.api.nodes["edge-1"]["metadata"]["labels"]["site"] == "lab-2"
    assert edge.machine.store.monitoring() == {}
    assert edge.join_pool(method) == 0
    assert edge.arm.asked(PUT) == 1


def test_a_machine_that_arc_does_not_know_says_so_before_any_call(edge: Pooled, capsys: Captured) -> None:
    assert edge.join_pool("arc") == 1
    error = capsys.readouterr().err
    assert error.startswith("FLEX-1803")
    assert "azcmagent connect" in error
    assert edge.arm.server.requests == []


def deleted(edge: Pooled) -> None:
    edge.arm.machines.clear()
    edge.site.api.nodes["edge-1"]["spec"]["taints"] = [TAINT]


def test_a_deleted_machine_removes_its_role_and_its_registration(
    edge: Pooled, metadata: Callable[[str], None], capsys: Captured
) -> None:
    metadata("arc")
    before = edge.machine.snapshot("/etc", "/opt", "/usr")
    edge.registered()
    edge.assigned()
    assert edge.join_pool("arc") == 0
    assert edge.poll() == 0
    deleted(edge)
    assert edge.poll() == 0
    assert edge.poll() == 0
    assert edge.arm.assignments == {}
    assert "resourceName" not in edge.agent()
    assert edge.machine.snapshot("/etc", "/opt", "/usr") == before
    assert "left:" not in capsys.readouterr().out


def test_what_the_role_of_a_pool_may_not_remove_is_listed(
    edge: Pooled, metadata: Callable[[str], None], capsys: Captured
) -> None:
    """The role can neither list nor delete assignments."""
    metadata("arc")
    edge.registered()
    edge.assigned()
    edge.arm.answers[f"GET {POOL}{ASSIGNMENTS}"] = arm_error(403, "AuthorizationFailed")
    assert edge.join_pool("arc") == 0
    assert edge.poll() == 0
    deleted(edge)
    edge.poll()
    assert edge.poll() == 1
    line = f"az role assignment delete --assignee {OID} --role {ROLE} --scope {POOL}"
    assert line in capsys.readouterr().out
    assert not edge.machine.path("/etc/kubernetes").exists()
    assert OWN.rpartition("/")[2] not in edge.arm.machines
