# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What lets a machine join with its Azure identity, against an API server in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    BindingConflict,
    NotInAzure,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.granting import (
    NO_MACHINE,
    no_principal,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import rbac
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.binding import RbacClient
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.identity_binding import (
    Machine,
    bind,
    machines_of,
    unbind,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.controller.fake_azure import CLUSTER
from tests.unit.controller.fake_cluster import RBAC, FakeCluster
from tests.unit.node.servers import Pki

ROOT = Path(__file__).parents[4]
OBJECT = "99999999-8888-7777-6666-555555555555"
OTHER = "88888888-7777-6666-5555-444444444444"
EDGE = Machine("edge-1", OBJECT)
BINDINGS = f"{RBAC}/clusterrolebindings"
ARC = "/subscriptions/1/resourceGroups/rg/providers/Microsoft.HybridCompute/machines/edge-1"


@pytest.fixture
def cluster(pki: Pki) -> Iterator[FakeCluster]:
    with FakeCluster().running(pki) as running:
        yield running


@pytest.fixture
def client(cluster: FakeCluster, pki: Pki) -> Iterator[RbacClient]:
    with connected(access_of(cluster.kubeconfig(pki), ""), RbacClient) as connection:
        yield connection


def names(cluster: FakeCluster) -> set[str]:
    found = {place.rpartition("/")[2] for place in cluster.objects if place.startswith(BINDINGS)}
    return {name for name in found if name.startswith("flexnode-identity-")}


def test_the_life_of_a_binding(cluster: FakeCluster, client: RbacClient) -> None:
    planned = bind(client, [EDGE], check=True)
    assert cluster.objects == {}
    done = bind(client, [EDGE], check=False)
    assert done.actions == planned.actions
    assert names(cluster) == {f"flexnode-identity-{word}-{OBJECT}" for word in ("bootstrap", "approve")}
    assert bind(client, [EDGE], check=False).actions == []
    other = bind(client, [EDGE, Machine("edge-2", OTHER)], check=False)
    assert len(other.actions) == 2
    assert len(unbind(client, [EDGE], check=True).actions) == 2
    assert len(unbind(client, [EDGE], check=False).actions) == 2
    assert names(cluster) == {f"flexnode-identity-{word}-{OTHER}" for word in ("bootstrap", "approve")}
    assert unbind(client, [EDGE], check=False).actions == []


def test_it_grants_what_the_example_grants_and_what_a_node_needs_later(
    cluster: FakeCluster, client: RbacClient
) -> None:
    bind(client, [EDGE], check=False)
    documented = yaml.safe_load((ROOT / "docs/examples/identity_rbac.yaml").read_text())["items"]
    bound = [one for place, one in cluster.objects.items() if place.startswith(BINDINGS)]
    granted = {(one["roleRef"]["name"], str(one["subjects"])) for one in bound}
    self_delete = (rbac.RIGHTS[-1].role, str(rbac.RIGHTS[-1].binding["subjects"]))  # optional
    expected = {(one["roleRef"]["name"], str(one["subjects"])) for one in documented}
    assert granted - {self_delete} == expected
    for right in rbac.AFTER_JOIN:  # a certificate is renewed, and a Node that leaves deletes itself
        assert f"{BINDINGS}/{right.name}" in cluster.objects
    unbind(client, [EDGE], check=False)
    for right in rbac.AFTER_JOIN:
        assert f"{BINDINGS}/{right.name}" in cluster.objects


def test_what_others_granted_stays_theirs(cluster: FakeCluster, client: RbacClient) -> None:
    theirs = [{**right.binding, "metadata": {"name": f"site-{n}"}} for n, right in enumerate(EDGE.rights)]
    cluster.objects = {f"{BINDINGS}/{one['metadata']['name']}": one for one in theirs}
    assert len(bind(client, [EDGE], check=False).actions) == len(rbac.AFTER_JOIN)
    assert unbind(client, [EDGE], check=False).actions == []
    assert f"{BINDINGS}/site-0" in cluster.objects


def test_a_name_that_is_taken_for_something_else_is_refused(cluster: FakeCluster, client: RbacClient) -> None:
    wrong = {**EDGE.rights[0].binding, "subjects": [{"kind": "User", "name": "someone"}]}
    cluster.objects = {f"{BINDINGS}/{EDGE.rights[0].name}": wrong}
    done = bind(client, [EDGE, Machine("edge-2", OTHER, ARC)], check=False)
    (failed,) = done.failures
    assert isinstance(failed.error, BindingConflict)
    assert (failed.node, EDGE.rights[0].name in str(failed.error)) == ("edge-1", True)
    bound = {right.name for right in Machine("edge-2", OTHER).rights}
    assert names(cluster) == {EDGE.rights[0].name, *bound}, "nothing is bound where one thing is wrong"
    assert not [action for action in done.actions if OBJECT in action]


def test_a_name_of_all_nodes_that_is_taken_is_refused_for_all(
    cluster: FakeCluster, client: RbacClient
) -> None:
    wrong = {**rbac.AFTER_JOIN[0].binding, "roleRef": {"kind": "ClusterRole", "name": "view"}}
    cluster.objects = {f"{BINDINGS}/{rbac.AFTER_JOIN[0].name}": wrong}
    with pytest.raises(BindingConflict, match=rbac.AFTER_JOIN[0].name):
        bind(client, [EDGE], check=False)
    assert len(cluster.objects) == 1


def options_for(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    whole = [{"name": "edge-1", "principal_id": None, "machine_id": None, **node} for node in nodes]
    return {"nodes": whole, "cluster_id": CLUSTER, "state": "present", **more}


def test_azure_says_who_a_machine_is() -> None:
    asked: list[str] = []

    def owner(machine_id: str) -> str:
        asked.append(machine_id)
        return OBJECT.upper()

    options = options_for({"machine_id": ARC}, {"name": "edge-2", "principal_id": OTHER})
    found, failures = machines_of(options, owner, kubernetes=False)
    assert (list(found.values()), failures) == (
        [[Machine("edge-1", OBJECT, ARC), Machine("edge-2", OTHER)]],
        [],
    )
    assert asked == [ARC]


def test_a_machine_that_azure_does_not_know() -> None:
    """The others are bound; a machine that leaves may be gone already."""
    nodes = {"machine_id": ARC}, {"name": "edge-2", "principal_id": OTHER}

    def nobody(machine_id: str) -> str:
        raise no_principal(machine_id, NO_MACHINE)

    found, (failed,) = machines_of(options_for(*nodes), nobody, kubernetes=False)
    assert list(found.values()) == [[Machine("edge-2", OTHER)]]
    assert isinstance(failed.error, NotInAzure)
    assert (failed.node, failed.machine_id) == ("edge-1", ARC)
    leaves = options_for({"machine_id": ARC}, state="absent")
    assert machines_of(leaves, nobody, kubernetes=False) == ({}, [])


def test_the_cluster_of_a_kubeconfig_needs_no_id() -> None:
    options = options_for({"principal_id": OBJECT}, cluster_id=None)
    assert machines_of(options, None, kubernetes=True) == ({None: [EDGE]}, [])
    with pytest.raises(ConfigInvalid, match="cluster_id"):
        machines_of(options_for({"principal_id": OBJECT}, cluster_id=None), None, kubernetes=False)


def test_a_node_of_the_same_name_in_another_cluster_is_another_machine() -> None:
    other = f"{CLUSTER}-2"
    nodes = {"principal_id": OBJECT}, {"principal_id": OTHER, "cluster_id": other}
    by_cluster, _failures = machines_of(options_for(*nodes), None, kubernetes=False)
    found = {str(cluster): machines for cluster, machines in by_cluster.items()}
    assert found == {CLUSTER: [EDGE], other: [Machine("edge-1", OTHER)]}


def test_a_kubeconfig_has_one_cluster() -> None:
    nodes = {"principal_id": OBJECT}, {"name": "edge-2", "principal_id": OTHER, "cluster_id": f"{CLUSTER}-2"}
    with pytest.raises(ConfigInvalid, match="for one cluster, but these nodes are in 2: "):
        machines_of(options_for(*nodes), None, kubernetes=True)
    same = {"principal_id": OBJECT}, {"name": "edge-2", "principal_id": OTHER, "cluster_id": CLUSTER.upper()}
    assert list(machines_of(options_for(*same), None, kubernetes=True)[0]) == [None]
