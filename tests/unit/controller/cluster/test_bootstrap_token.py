# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tokens and rights in a cluster, against an API server in memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import BindingConflict
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import rbac
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenChanges,
    TokenClient,
    create_tokens,
    delete_tokens,
    joined_nodes,
    new_token,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import connected
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import access_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import Forbidden
from tests.unit.controller.fake_cluster import RBAC, FakeCluster
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Pki

ROOT = Path(__file__).parents[4]
RIGHTS = [body for right in rbac.RIGHTS for _path, body in right.objects]


@pytest.fixture
def cluster(pki: Pki) -> Iterator[FakeCluster]:
    with FakeCluster().running(pki) as running:
        yield running


@pytest.fixture
def client(cluster: FakeCluster, pki: Pki) -> Iterator[TokenClient]:
    with connected(access_of(cluster.kubeconfig(pki), ""), TokenClient) as connection:
        yield connection


def run(client: TokenClient, *names: str, check: bool = False, rights: bool = True) -> TokenChanges:
    return create_tokens(client, names, FakeClock(), hours=24, rights=rights, check=check)


def test_who_wants_no_token_is_told_whether_it_has_joined(cluster: FakeCluster, client: TokenClient) -> None:
    cluster.nodes = {"edge-1": a_node("edge-1", ready=True)}
    names, clock = ("edge-1", "edge-2"), FakeClock()
    done = create_tokens(client, names, clock, hours=24, rights=True, check=False, without=set(names))
    assert done.nodes == [{"name": "edge-1", "joined": True}, {"name": "edge-2", "joined": False}]
    assert client.tokens() == {}
    assert rbac.missing_rights(client.bindings(), rbac.AFTER_JOIN) == [], (
        "renewal, whatever a node joined with"
    )
    assert len(rbac.missing_rights(client.bindings())) == 2, "nobody has a token"
    done = create_tokens(client, names, clock, hours=24, rights=True, check=False, without={"edge-1"})
    assert "token" in done.nodes[1]
    assert rbac.missing_rights(client.bindings()) == []


def test_a_token_for_each_that_has_not_joined(cluster: FakeCluster, client: TokenClient) -> None:
    cluster.nodes = {name: a_node(name, ready=name != "edge-2") for name in ("edge-1", "edge-2", "edge-3")}
    done = run(client, "edge-1", "edge-2", "edge-4")
    assert [(node["name"], node["joined"]) for node in done.nodes] == [
        ("edge-1", True),
        ("edge-2", False),
        ("edge-4", False),
    ]
    assert "token" not in done.nodes[0]
    assert set(cluster.tokens) == {"edge-2", "edge-4"}
    for node in done.nodes[1:]:
        assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", node["token"])
        assert node["token"].startswith(node["token_id"])
        assert node["expires"] == "2027-01-16T08:00:00Z"


def test_nothing_to_do_is_one_list_of_nodes(cluster: FakeCluster, client: TokenClient) -> None:
    cluster.nodes = {"edge-1": a_node("edge-1")}
    assert run(client, "edge-1").actions == []
    assert cluster.server.asked == ["GET /api/v1/nodes?limit=500"]


def test_a_new_token_replaces_the_old_one(cluster: FakeCluster, client: TokenClient) -> None:
    first, other = run(client, "edge-1").nodes[0], run(client, "edge-2").nodes[0]
    second = run(client, "edge-1").nodes[0]
    assert cluster.tokens == {"edge-1": second["token_id"], "edge-2": other["token_id"]}
    assert first["token"] != second["token"]


def test_a_token_is_limited() -> None:
    secret = new_token("edge-1", 0, 24).secret
    assert secret["type"] == "bootstrap.kubernetes.io/token"
    assert secret["stringData"]["expiration"] == "1970-01-02T00:00:00Z"
    assert "edge-1" in secret["stringData"]["description"]
    assert {key for key in secret["stringData"] if key.startswith("usage-")} == {
        "usage-bootstrap-authentication"
    }
    assert "auth-extra-groups" not in secret["stringData"]
    token = new_token("edge-1", 0, 24)
    assert token.password.reveal() not in repr(token)


def test_rights_are_bound_once(cluster: FakeCluster, client: TokenClient) -> None:
    first = run(client, "edge-1")
    bound = [one for place, one in cluster.objects.items() if place.startswith(RBAC)]
    assert sorted(map(str, bound)) == sorted(map(str, RIGHTS))
    assert sum(action.startswith("bind ") for action in first.actions) == 4
    assert run(client, "edge-1").actions == ["create a bootstrap token for edge-1"]


def test_rights_that_somebody_else_granted_count(cluster: FakeCluster, client: TokenClient) -> None:
    for right in rbac.RIGHTS:
        binding = {**right.binding, "metadata": {"name": f"aks-{right.name}"}}
        cluster.objects[f"{RBAC}/clusterrolebindings/aks-{right.name}"] = binding
    assert run(client, "edge-1").actions == ["create a bootstrap token for edge-1"]


def test_rights_are_left_alone_on_request(cluster: FakeCluster, client: TokenClient) -> None:
    run(client, "edge-1", rights=False)
    assert not any(place.startswith(RBAC) for place in cluster.objects)


def test_a_binding_of_our_name_that_grants_something_else(cluster: FakeCluster, client: TokenClient) -> None:
    stranger = {"metadata": {"name": "flexnode-bootstrap"}, "roleRef": {"name": "view"}, "subjects": []}
    cluster.objects[f"{RBAC}/clusterrolebindings/flexnode-bootstrap"] = stranger
    with pytest.raises(BindingConflict, match="system:node-bootstrapper"):
        run(client, "edge-1")
    assert cluster.tokens == {}


def placed(right: rbac.Right) -> dict[str, Any]:
    return {f"{path}/{body['metadata']['name']}": body for path, body in right.objects}


def test_two_runs_at_once_make_the_same_rights(cluster: FakeCluster, client: TokenClient) -> None:
    for right in rbac.RIGHTS:
        # As an API server tells it: with more about it than what it grants.
        cluster.meanwhile |= {
            place: {**body, "metadata": {**body["metadata"], "uid": "1"}}
            for place, body in placed(right).items()
        }
    assert set(run(client, "edge-1").nodes[0]) >= {"token"}


def test_what_another_run_made_is_looked_at(cluster: FakeCluster, client: TokenClient) -> None:
    (place,) = placed(rbac.RIGHTS[0])
    cluster.meanwhile = {place: {**rbac.RIGHTS[0].binding, "subjects": []}}
    with pytest.raises(BindingConflict, match="flexnode-bootstrap"):
        run(client, "edge-1")


@pytest.mark.parametrize("check", [True, False])
def test_a_role_of_our_name_with_other_rules(cluster: FakeCluster, client: TokenClient, check: bool) -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    stranger = {"kind": "ClusterRole", "metadata": {"name": "flexnode-self-delete"}, "rules": rules}
    cluster.objects[f"{RBAC}/clusterroles/flexnode-self-delete"] = stranger
    with pytest.raises(BindingConflict, match="a ClusterRole of this name"):
        run(client, "edge-1", check=check)
    assert cluster.asked("POST") == 0, "nothing is bound before"


def test_check_mode_changes_nothing(cluster: FakeCluster, client: TokenClient) -> None:
    planned = run(client, "edge-1", check=True)
    assert planned.nodes[0]["token"] == "<minted at apply>"
    assert len(planned.actions) == 5
    assert len(planned.diff) == 4
    shown = [part for one in planned.diff for part in (one["before"], one["after"])]
    assert all(isinstance(part, (str, dict)) for part in shown), "Ansible can't show anything else"
    assert cluster.objects == {}
    run(client, "edge-1")
    assert len(delete_tokens(client, ["edge-1"], [], check=True).actions) == 1
    assert set(cluster.tokens) == {"edge-1"}


def test_tokens_are_deleted_by_node_and_by_id(cluster: FakeCluster, client: TokenClient) -> None:
    tokens = {node["name"]: node["token_id"] for node in run(client, "edge-1", "edge-2", "edge-3").nodes}
    done = delete_tokens(client, ["edge-1", "edge-9"], [tokens["edge-2"], "gone00"], check=False)
    assert {node["token_id"] for node in done.nodes} == {tokens["edge-1"], tokens["edge-2"]}
    assert set(cluster.tokens) == {"edge-3"}
    assert delete_tokens(client, ["edge-1"], [], check=False).actions == []


@pytest.mark.parametrize("request_", ["GET /api/v1/nodes", f"POST {RBAC}", "POST /api/v1/namespaces"])
def test_what_is_refused_is_told(cluster: FakeCluster, client: TokenClient, request_: str) -> None:
    cluster.refuse = {request_: 403}
    with pytest.raises(Forbidden, match="refused by the test"):
        run(client, "edge-1")


def test_who_has_joined() -> None:
    nodes: dict[str, Any] = {"a": a_node("a"), "b": a_node("b", ready=False)}
    assert joined_nodes(nodes, ["a", "b", "c"]) == {"a"}


# -- rights ------------------------------------------------------------------------------------------------


def test_the_rights_are_those_that_the_docs_show_and_the_testbed_grants() -> None:
    from testbed.cluster import rbac as granted

    documented = yaml.safe_load((ROOT / "docs/examples/rbac.yaml").read_text())["items"]
    assert documented == RIGHTS
    bodies = [body for _path, body in granted.OBJECTS]
    of_pools = [body for body in bodies if granted.POOL_GROUP in str(body)]  # which AKS itself grants
    assert sorted(map(str, RIGHTS)) == sorted(str(body) for body in bodies if body not in of_pools)
    assert sorted(body["roleRef"]["name"] for body in of_pools) == [
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        "system:node-bootstrapper",
    ]


def test_no_right_is_wider_than_a_join_needs() -> None:
    assert all(right.role != "system:node" for right in rbac.RIGHTS)
    assert {right.subject for right in rbac.RIGHTS} == {"system:bootstrappers", "system:nodes"}


def test_what_is_missing() -> None:
    assert rbac.missing_rights([]) == list(rbac.RIGHTS)
    assert rbac.missing_rights([right.binding for right in rbac.RIGHTS]) == []
    partial = [{**right.binding, "subjects": None} for right in rbac.RIGHTS]
    assert rbac.missing_rights(partial) == list(rbac.RIGHTS)
