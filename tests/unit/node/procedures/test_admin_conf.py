# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""writeAdminConf: the cluster's admin credential, fetched from Azure, for root only."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid, FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import (
    ArmUnusable,
    RolesMissing,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.admin_conf import STAGED
from tests.unit.node.config.test_samples import CLIENT, CLUSTER, TENANT
from tests.unit.node.fakes import Machine
from tests.unit.node.identity.test_node import Entra
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving
from tests.unit.node.sites import Site, a_site

ADMIN = "/etc/kubernetes/admin.conf"
KUBECONFIG = "apiVersion: v1\nkind: Config\nusers: [{name: clusterAdmin, user: {token: adm1n}}]\n"


@dataclass
class Azure:
    """Entra ID and Resource Manager behind one address."""

    entra: Entra = field(default_factory=lambda: Entra("s3cret-of-the-principal"))
    status: int = 200
    body: Any = None
    asked: list[Request] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        if "listClusterAdminCredential" not in request.path:
            return self.entra(request)
        self.asked.append(request)
        if self.status != 200:
            return answer_json({"error": {"code": "AuthorizationFailed", "message": "no"}}, self.status)
        value = b64encode(KUBECONFIG.encode()).decode()
        return answer_json(self.body or {"kubeconfigs": [{"name": "clusterAdmin", "value": value}]})


@dataclass
class Edge:
    site: Site
    azure: Azure
    url: str

    def join(self, **more: Any) -> Any:
        principal = {"clientId": CLIENT, "clientSecret": self.azure.entra.secret, "clientTenant": TENANT}
        endpoints = {"activeDirectoryEndpoint": self.url, "resourceManagerEndpoint": self.url}
        auth = {"kubernetesAuth": {"method": "bootstrapToken"}, "azureAuth": {"method": "servicePrincipal"}}
        azure = {"servicePrincipal": principal, "tenantId": TENANT, **endpoints}
        return self.site.join({"azure": azure, **auth, **more})


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    azure = Azure()
    with a_site(debian, pki) as site, serving(azure, pki.server_context()) as server:
        yield Edge(site, azure, server.url)


def test_it_is_written_for_root_only_and_only_when_asked(edge: Edge) -> None:
    machine = edge.site.machine
    before = machine.snapshot("/etc")
    edge.join()
    assert not machine.path(ADMIN).exists()
    assert edge.azure.asked == []
    edge.join(writeAdminConf=True)
    first, rest = machine.text(ADMIN).split("\n", 1)
    assert rest == KUBECONFIG
    assert CLUSTER in first
    assert machine.host.stat(ADMIN).mode == 0o600
    assert not machine.path(STAGED).exists()
    (request,) = edge.azure.asked
    assert request.headers["Authorization"].startswith("Bearer head.")
    edge.join(writeAdminConf=True)
    assert len(edge.azure.asked) == 1, "a credential that is there is not fetched again"
    machine.path(ADMIN).chmod(0o644)
    edge.join(writeAdminConf=True)
    assert machine.host.stat(ADMIN).mode == 0o600
    edge.join()  # no longer asked for
    assert not machine.path(ADMIN).exists()
    edge.join(writeAdminConf=True)
    leave(machine.host, drain_seconds=0)
    assert machine.snapshot("/etc") == before


def test_what_was_there_before_is_back_after_leaving(edge: Edge) -> None:
    edge.site.machine.put(ADMIN, "of kubeadm\n", 0o600)
    before = edge.site.machine.snapshot("/etc")
    edge.join(writeAdminConf=True)
    assert KUBECONFIG in edge.site.machine.text(ADMIN)
    leave(edge.site.machine.host, drain_seconds=0)
    assert edge.site.machine.snapshot("/etc") == before


def test_the_credential_appears_nowhere_else(edge: Edge) -> None:
    run = edge.join(writeAdminConf=True)
    shown = f"{run.actions} {run.plan.diff}"
    assert "write /etc/kubernetes/admin.conf (writeAdminConf)" in shown
    assert "adm1n" not in shown
    holders = [
        str(place)
        for place in edge.site.machine.root.rglob("*")
        if place.is_file() and not place.is_symlink() and b"adm1n" in place.read_bytes()
    ]
    assert holders == [str(edge.site.machine.path(ADMIN))]


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (403, None, RolesMissing, "az role assignment create --assignee-object-id who-am-i"),
        (400, None, ArmUnusable, "or remove writeAdminConf"),
        (200, {"kubeconfigs": []}, ArmUnusable, "IndexError"),
        (200, {"kubeconfigs": [{"value": "%%%"}]}, ArmUnusable, "Error"),
    ],
)
def test_a_refusal_leaves_the_machine_untouched(
    edge: Edge, status: int, body: Any, error: type[FlexNodeError], words: str
) -> None:
    edge.azure.status, edge.azure.body = status, body
    before = edge.site.machine.snapshot("/etc", "/opt", "/usr")
    with pytest.raises(error) as caught:
        edge.join(writeAdminConf=True)
    assert words in str(caught.value)
    assert edge.site.machine.snapshot("/etc", "/opt", "/usr") == before


def test_without_an_azure_identity_it_is_refused(edge: Edge) -> None:
    with pytest.raises(ConfigInvalid, match="writeAdminConf"):
        edge.site.join({"writeAdminConf": True})
