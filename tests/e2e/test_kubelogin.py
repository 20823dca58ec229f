# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig that signs in through kubelogin, as most people's kubeconfigs of AKS clusters do.

The command is a stand-in with kubelogin's options; the tokens come from the emulated Entra, and the real API
server decides what their bearer may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import Testbed
from testbed.azure.sign_in.directory import Principal
from testbed.layout.identifiers import AKS_SERVER
from testbed.playbooks import Play, play
from testbed.services import kubelogin
from tests.e2e import cloud, fleet
from tests.e2e.conftest import MachineMaker

NAME = "kubelogin-1"
ADMIN = "Azure Kubernetes Service RBAC Cluster Admin"


@dataclass(frozen=True)
class Person:
    """Somebody with an Entra identity and a kubeconfig of the cluster."""

    bed: Testbed
    principal: Principal
    kubeconfig: Path
    inventory: Path

    def run(self, module: str, *, environment: Mapping[str, str] | None = None, **options: Any) -> Play:
        """Run one module on the controller."""
        task = {"name": "Call the module", f"aks.flexnode.{module}": options}
        plays = [{"name": "Test", "hosts": "localhost", "gather_facts": False, "tasks": [task]}]
        playbook = self.kubeconfig.parent / f"{module}.yml"
        playbook.write_text(yaml.safe_dump(plays, sort_keys=False), encoding="utf-8")
        return play(str(playbook), self.inventory, environment=environment)

    def result(self, module: str, **options: Any) -> Mapping[str, Any]:
        """What a module that works returns."""
        run = fleet.succeeded(self.run(module, **options))
        return run.result("localhost", module)

    def error(self, module: str, **options: Any) -> str:
        """The message of a module that fails; no secret is shown."""
        run = self.run(module, **options)
        assert run.status != 0, run.output
        assert self.principal.secret not in run.output
        return str(run.result("localhost", module)["msg"])


def person(bed: Testbed, name: str, directory: Path, *roles: str, **options: str) -> Person:
    """An identity with some roles on the cluster, and its kubeconfig."""
    principal = bed.azure.app_registration(name)
    for role in roles:
        bed.azure.grant(principal, role)
    inventory = directory / "hosts.yml"
    inventory.write_text("all: {}\n", encoding="utf-8")
    path = kubelogin.kubeconfig(bed, principal, directory / "kubeconfig", **options)
    return Person(bed, principal, path, inventory)


@pytest.fixture(scope="module")
def admin(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Person:
    found = person(bed, "kubelogin-admin", tmp_path_factory.mktemp("kubelogin"), ADMIN)
    token = bed.azure.token(found.principal, AKS_SERVER)
    fleet.eventually("the role's effect in the cluster", lambda: bed.cluster.allows(token, "list", "nodes"))
    return found


@pytest.fixture(scope="module")
def node(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A joined node."""
    made = machines((NAME, "debian12"))
    path = tmp_path_factory.mktemp("join") / "hosts.yml"
    inventory = fleet.write_inventory(bed, made, path, flexnode_config=fleet.join_document(bed))
    fleet.succeeded(fleet.play("bootstrap", inventory))
    return NAME


def test_a_node_is_changed_as_an_entra_identity(bed: Testbed, admin: Person, node: str) -> None:
    wanted: dict[str, Any] = {"names": [node], "labels": {"site": "kubelogin"}, "ready": True}
    done = admin.result("flexnode_node", kubeconfig=str(admin.kubeconfig), **wanted)
    assert done["changed"]
    assert fleet.node(bed, node)["metadata"]["labels"]["site"] == "kubelogin"
    # The same with the variables of kubernetes.core, and nothing is left to do.
    environment = {"K8S_AUTH_KUBECONFIG": str(admin.kubeconfig), "K8S_AUTH_CONTEXT": "entra"}
    assert not admin.result("flexnode_node", environment=environment, **wanted)["changed"]


def test_a_node_is_drained_and_uncordoned(bed: Testbed, admin: Person, node: str) -> None:
    kubeconfig = str(admin.kubeconfig)
    drained = admin.result("flexnode_node", kubeconfig=kubeconfig, names=[node], drain=True)
    assert drained["remains"] == []
    assert fleet.node(bed, node)["spec"]["unschedulable"] is True
    admin.result("flexnode_node", kubeconfig=kubeconfig, names=[node], unschedulable=False)
    assert "unschedulable" not in fleet.node(bed, node)["spec"]


def test_the_proof_works_as_an_entra_identity(bed: Testbed, admin: Person, node: str) -> None:
    image = bed.registry.workload_image
    done = admin.result("flexnode_proof", kubeconfig=str(admin.kubeconfig), names=[node], image=image)
    (proof,) = done["nodes"]
    assert [(check["name"], check["status"]) for check in proof["checks"]] == [
        (name, "passed") for name in ("pod", "dns", "service", "logs", "exec")
    ]
    assert done["remains"] == []


def test_bootstrap_tokens_are_created_and_deleted_as_an_entra_identity(bed: Testbed, admin: Person) -> None:
    options: dict[str, Any] = {"kubeconfig": str(admin.kubeconfig), "nodes": [{"name": "kubelogin-2"}]}
    before = cloud.token_names(bed)
    # Its result holds the token, so that no output shows it: what it did is seen in the cluster.
    assert "censored" in admin.result("flexnode_bootstrap_token", **options)
    (name,) = cloud.token_names(bed) - before
    assert "censored" in admin.result("flexnode_bootstrap_token", state="absent", **options)
    assert name not in cloud.token_names(bed)


def test_an_identity_without_rights_is_told_which_one_is_missing(bed: Testbed, tmp_path: Path) -> None:
    nobody = person(bed, "kubelogin-nobody", tmp_path)
    options = {"kubeconfig": str(nobody.kubeconfig), "nodes": [{"name": "kubelogin-2"}]}
    message = nobody.error("flexnode_bootstrap_token", **options)
    assert message.startswith("FLEX-1505")
    assert f"{nobody.principal.object_id} may not list nodes" in message
    assert "kubectl create clusterrole" in message


def test_a_wrong_secret_is_what_kubelogin_says(bed: Testbed, tmp_path: Path) -> None:
    mistaken = person(bed, "kubelogin-mistaken", tmp_path, secret="not-the-secret")
    message = mistaken.error("flexnode_node", kubeconfig=str(mistaken.kubeconfig), names=[NAME])
    assert message.startswith("FLEX-1902")
    assert "exit code 1" in message
    assert "AADSTS7000215" in message
    assert "kubelogin convert-kubeconfig -l azurecli" in message


def test_kubelogin_that_is_not_installed(bed: Testbed, tmp_path: Path) -> None:
    without = person(bed, "kubelogin-without", tmp_path, command=str(tmp_path / "nowhere" / "kubelogin"))
    message = without.error("flexnode_node", kubeconfig=str(without.kubeconfig), names=[NAME])
    assert message.startswith("FLEX-1902")
    assert "install kubelogin" in message
