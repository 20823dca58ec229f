# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_cluster_info and flexnode_bootstrap_token against the emulated Azure and a real API server."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import rbac
from testbed import Testbed
from tests.contract.modules.conftest import Person

ADMIN = "Azure Kubernetes Service Cluster Admin Role"
USER = "Azure Kubernetes Service Cluster User Role"
RBAC_ADMIN = "Azure Kubernetes Service RBAC Cluster Admin"


def given(bed: Testbed, *names: str) -> dict[str, Any]:
    return {"cluster_id": bed.azure.cluster_id, "nodes": [{"name": name} for name in names or ("edge-1",)]}


def tokens(bed: Testbed) -> set[str]:
    found = json.loads(
        bed.cluster.kubectl(
            "get", "secrets", "--namespace=kube-system", "--selector=aks.flexnode/token", "--output=json"
        )
    )
    return {item["metadata"]["name"].removeprefix("bootstrap-token-") for item in found["items"]}


@pytest.mark.parametrize("role", [USER, ADMIN, "Contributor"])
def test_a_cluster_tells_what_its_nodes_need(bed: Testbed, person: Callable[..., Person], role: str) -> None:
    bed.azure.forget_requests()
    (cluster,) = person(role).do("flexnode_cluster_info", cluster_ids=[bed.azure.cluster_id])["clusters"]
    document, expected = cluster["document"], bed.node_document()
    assert cluster["id"] == bed.azure.cluster_id
    assert document["kubernetes"] == expected["kubernetes"]
    assert document["network"] == expected["network"]
    assert document["node"]["kubelet"] == expected["node"]["kubelet"]
    assert document["azure"]["tenantId"] == bed.azure.tenant_id
    assert base64.b64decode(document["node"]["kubelet"]["caCertData"]).decode() == bed.cluster.ca_pem
    arm = [one for one in bed.azure.requests() if one.path.lower().startswith("/subscriptions")]
    assert len(arm) == (3 if role == ADMIN else 2)


@pytest.mark.parametrize(
    ("roles", "local_accounts"),
    [
        pytest.param((ADMIN,), True, id="by-certificate"),
        pytest.param((USER, RBAC_ADMIN), False, id="by-entra"),
        pytest.param((USER, RBAC_ADMIN), True, id="by-entra-without-the-admin-role"),
    ],
)
def test_tokens_are_minted_and_deleted(
    bed: Testbed, person: Callable[..., Person], roles: tuple[str, ...], local_accounts: bool
) -> None:
    someone = person(*roles)
    bed.azure.settings(disable_local_accounts=not local_accounts, rbac_delay=0)
    planned = someone.do("flexnode_bootstrap_token", check=True, **given(bed))
    assert planned["nodes"][0]["token"] == "<minted at apply>"
    before = tokens(bed)
    minted = someone.do("flexnode_bootstrap_token", **given(bed, "edge-1", "edge-2"))
    ids = {node["token_id"] for node in minted["nodes"]}
    assert tokens(bed) - before == ids
    # A new one for the same node replaces the old one.
    (again,) = someone.do("flexnode_bootstrap_token", **given(bed))["nodes"]
    assert minted["nodes"][0]["token_id"] not in tokens(bed)
    # By id, and by node.
    someone.do(
        "flexnode_bootstrap_token",
        cluster_id=bed.azure.cluster_id,
        token_ids=[again["token_id"]],
        state="absent",
    )
    assert again["token_id"] not in tokens(bed)
    assert someone.do("flexnode_bootstrap_token", state="absent", **given(bed, "edge-2"))["changed"]
    assert not ids & tokens(bed)
    assert not someone.do("flexnode_bootstrap_token", state="absent", **given(bed, "edge-2"))["changed"]


def test_missing_rights_are_bound(bed: Testbed, person: Callable[..., Person]) -> None:
    names = [right.name for right in rbac.RIGHTS]
    bed.cluster.kubectl("delete", "clusterrolebinding", *names)
    bed.cluster.kubectl("delete", "clusterrole", "flexnode-self-delete")
    someone = person(ADMIN)
    done = someone.do("flexnode_bootstrap_token", **given(bed))
    assert sum(action.startswith("bind ") for action in done["actions"]) == len(names)
    for right in rbac.RIGHTS:
        found = json.loads(bed.cluster.kubectl("get", "clusterrolebinding", right.name, "--output=json"))
        assert found["roleRef"] == right.binding["roleRef"]
    assert len(someone.do("flexnode_bootstrap_token", **given(bed))["actions"]) == 1
    someone.do("flexnode_bootstrap_token", state="absent", **given(bed))


def test_no_way_to_the_cluster_names_the_role(bed: Testbed, person: Callable[..., Person]) -> None:
    answer = person("Reader").run("flexnode_bootstrap_token", **given(bed))
    assert answer["error"]["code"] == "FLEX-1702"
    assert "listClusterAdminCredential" in answer["msg"]
    assert f'--role "{ADMIN}"' in answer["msg"]


def test_an_entra_identity_without_rights_in_the_cluster(bed: Testbed, person: Callable[..., Person]) -> None:
    bed.azure.settings(disable_local_accounts=True)
    answer = person(USER).run("flexnode_bootstrap_token", **given(bed))
    assert answer["error"]["code"] == "FLEX-1505"


def test_a_kubeconfig_instead_of_azure(bed: Testbed, person: Callable[..., Person]) -> None:
    someone = person()
    bed.azure.forget_requests()
    file = someone.directory / "kubeconfig"
    file.write_text(bed.cluster.kubeconfig.read_text())
    options: dict[str, Any] = {"kubeconfig": str(file), "nodes": [{"name": "edge-1"}]}
    assert someone.do("flexnode_bootstrap_token", **options)["nodes"][0]["token"]
    assert someone.do("flexnode_bootstrap_token", state="absent", **options)["changed"]
    assert bed.azure.requests() == []


def test_the_token_is_seen_by_who_asked_and_by_nobody_else(
    bed: Testbed, person: Callable[..., Person]
) -> None:
    someone = person(ADMIN)
    shown = someone.ansible("flexnode_bootstrap_token", given(bed), "-vvvv")
    assert someone.principal.secret not in shown
    assert "PRIVATE KEY" not in shown
    someone.do("flexnode_bootstrap_token", state="absent", **given(bed))
