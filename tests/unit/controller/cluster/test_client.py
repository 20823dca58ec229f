# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Kubernetes client against an API server in memory: sign-in, retries, and errors in our words."""

from __future__ import annotations

import os
import socket
import ssl
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import urllib3.connection
from urllib3.util.ssl_ import create_urllib3_context

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import client as clients
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.bootstrap_token import (
    TokenClient,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.client import (
    connected,
    signed_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import (
    CredentialsRefused,
    KubeconfigUnusable,
    missing_right,
    refused,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import (
    Access,
    access_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.nodes import NodeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    CaMismatch,
    Forbidden,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.controller.fake_kubelogin import FakeKubelogin
from tests.unit.node.fake_api import FakeApi, a_node, a_pod
from tests.unit.node.servers import Answer, Pki, serving

FORBIDDEN = (
    'nodes is forbidden: User "9999-8888" cannot list resource "nodes" in API group "" at the cluster scope'
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "PAUSE", 0.01)


@pytest.fixture
def cluster(pki: Pki) -> Iterator[FakeCluster]:
    with FakeCluster(nodes={"edge-1": a_node()}).running(pki) as running:
        yield running


@pytest.fixture
def access(cluster: FakeCluster, pki: Pki) -> Access:
    return access_of(cluster.kubeconfig(pki), "")


def listed(access: Access) -> list[str]:
    with connected(access, TokenClient) as client:
        return list(client.nodes())


def test_a_ca_without_key_identifiers_is_trusted_as_kubectl_does(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    """urllib3 refuses it on Python 3.13; the CA of these tests is such a one."""
    monkeypatch.setattr(urllib3.connection, "create_urllib3_context", strict(create_urllib3_context))
    assert listed(access) == ["edge-1"]
    other_name = replace(access, server=access.server.replace("127.0.0.1", "127.1"))  # the same server
    with pytest.raises(CaMismatch):
        listed(other_name)


def strict(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    """The same context, as on Python 3.13."""

    def created(*args: Any, **options: Any) -> ssl.SSLContext:
        context = create(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    return created


def test_an_exec_plugin_signs_in(cluster: FakeCluster, pki: Pki, tmp_path: Path) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin", token="entra-token")
    kubeconfig = cluster.kubeconfig(pki)
    kubeconfig["users"][0]["user"] = kubelogin.user()
    assert listed(access_of(kubeconfig, str(tmp_path))) == ["edge-1"]
    assert cluster.bearers == {"Bearer entra-token"}
    assert len(kubelogin.calls) == 1


def test_an_exec_plugin_is_asked_again_before_its_token_expires(
    cluster: FakeCluster, pki: Pki, tmp_path: Path
) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin", token="first")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 30))
    (kubelogin.directory / "expires").write_text(soon)
    kubeconfig = cluster.kubeconfig(pki)
    kubeconfig["users"][0]["user"] = kubelogin.user()
    with connected(access_of(kubeconfig, ""), TokenClient) as client:
        (kubelogin.directory / "token").write_text("second")
        client.nodes()
    assert "Bearer second" in cluster.bearers
    assert "Bearer first" not in cluster.bearers


def test_a_certificate_of_an_exec_plugin_and_its_key_leave_no_trace(pki: Pki, tmp_path: Path) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin")
    (kubelogin.directory / "client.pem").write_text(pki.client.read_text())
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as api:
        kubeconfig = FakeCluster(server=api.server).kubeconfig(pki)
        kubeconfig["users"][0]["user"] = kubelogin.user("certificate")
        with signed_in(access_of(kubeconfig, "")) as session:
            path = session.configuration.key_file
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
            assert session.client(NodeClient).node("edge-1")
    assert not os.path.exists(os.path.dirname(path))


def test_nodes_are_changed_as_the_nodes_own_client_does(pki: Pki, access: Access) -> None:
    certificate, _, key = pki.client.read_text().partition("-----BEGIN PRIVATE KEY-----")
    nodes, pods = {"edge-1": a_node()}, [a_pod("a"), a_pod("b")]
    with FakeApi(nodes=nodes, pods=pods, protected={"b"}).running(pki, client_needed=True) as api:
        secret = Secret(f"-----BEGIN PRIVATE KEY-----{key}")
        user = replace(access, server=api.server.url, certificate=certificate, key=secret)
        with connected(user, NodeClient) as client:
            patched = client.patch_node("edge-1", {"metadata": {"labels": {"site": "lab"}}})
            assert patched is not None
            assert api.nodes["edge-1"]["metadata"]["labels"] == {"site": "lab"}
            assert client.patch_node("edge-9", {}) is None
            assert [pod["metadata"]["name"] for pod in client.pods_on("edge-1")] == ["a", "b"]
            assert client.evict("default", "a") == "", "it goes"
            assert client.evict("default", "b"), "its disruption budget does not allow it now"
            assert client.delete_node("edge-1")
            assert not client.delete_node("edge-1")


# -- errors ------------------------------------------------------------------------------------------------


def test_a_busy_api_server_is_asked_again(cluster: FakeCluster, access: Access) -> None:
    cluster.refuse = {"GET /api/v1/nodes": 503}
    with pytest.raises(ApiUnreachable, match=r"HTTP 503.*refused by the test"):
        listed(access)
    assert cluster.asked("GET") == clients.ATTEMPTS


def test_credentials_that_are_not_accepted(cluster: FakeCluster, access: Access) -> None:
    cluster.refuse = {"GET /api/v1/nodes": 401}
    with pytest.raises(CredentialsRefused, match="FLEX-1903") as caught:
        listed(access)
    assert "az aks get-credentials" in caught.value.fix
    assert cluster.asked("GET") == 1


def test_a_missing_right_is_named_with_what_grants_it() -> None:
    error = refused(403, FORBIDDEN, "https://plant.example", "list node")
    assert isinstance(error, Forbidden)
    assert "9999-8888 may not list nodes in the cluster" in error.what
    assert "kubectl create clusterrole flexnode-operator --verb=list --resource=nodes" in error.fix
    assert "--user='9999-8888'" in error.fix
    assert "Azure Kubernetes Service RBAC Cluster Admin" in error.fix
    right = missing_right(
        'User "me" cannot create resource "pods/exec" in API group "" in the namespace "proof"'
    )
    assert right is not None
    assert "role flexnode-operator --verb=create --resource=pods/exec --namespace proof" in right.fix
    grouped = missing_right(
        'User "me" cannot list resource "clusterroles" in API group "rbac.authorization.k8s.io"'
    )
    assert grouped is not None
    assert "--resource=clusterroles.rbac.authorization.k8s.io " in grouped.fix
    assert missing_right("admission webhook denied the request") is None


def test_a_server_that_another_ca_signed(cluster: FakeCluster, access: Access, tmp_path: Path) -> None:
    other = Pki.make(tmp_path)
    with pytest.raises(CaMismatch, match="not trusted") as caught:
        listed(replace(access, ca_pem=other.ca_pem))
    assert "certificate-authority-data" in caught.value.fix
    assert cluster.asked("GET") == 0


def test_a_server_that_is_not_there(access: Access) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ApiUnreachable, match="Connection refused") as caught:
        listed(replace(access, server=f"https://127.0.0.1:{port}"))
    assert "object at 0x" not in str(caught.value)


def test_something_that_is_no_api_server(pki: Pki, access: Access) -> None:
    portal = serving(lambda _: Answer(body=b"<html>Sign in</html>"), pki.server_context())
    with portal as server, pytest.raises(ApiUnreachable, match="not an API server"):
        listed(replace(access, server=server.url))


def test_a_ca_with_a_comment_in_any_language(access: Access) -> None:
    commented = replace(access, ca_pem=f"# Autorité\n{access.ca_pem}")
    assert listed(commented) == listed(access)


@pytest.mark.parametrize("ca", ["no PEM", "né"])
def test_certificates_that_can_not_be_used(access: Access, ca: str) -> None:
    with pytest.raises(KubeconfigUnusable, match="CA certificates"):
        listed(replace(access, ca_pem=ca))
    with pytest.raises(KubeconfigUnusable, match="client certificate"):
        listed(replace(access, certificate="no PEM"))
