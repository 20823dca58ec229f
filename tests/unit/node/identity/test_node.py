# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Nodes with an Azure identity: both profiles, a rotated secret, a switch, and what a user is told."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    Forbidden,
    NodeNotReady,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import IdentityRefused
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.kubelet_log import (
    explained_log,
    refused,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.checks import has_joined
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from tests.unit.node.config.test_samples import CLIENT, TENANT
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, Request, Server, answer_json, serving
from tests.unit.node.sites import CONFIG, MORE, SHORT, Site, a_site

KUBELET = "kubelet.service"
DIRECTORY = "/var/lib/kubelet"
FIRST = "first-secret"
Captured = pytest.CaptureFixture[str]


@dataclass
class Entra:
    """Gives tokens for one secret."""

    secret: str = FIRST
    away: bool = False
    asked: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        if self.away:
            return answer_json({"error": "temporarily_unavailable"}, 503)
        form = dict(parse_qsl(request.body.decode()))
        self.asked.append(form["client_secret"])
        if form["client_secret"] != self.secret:
            return answer_json({"error": "invalid_client", "error_description": "AADSTS7000215: no"}, 401)
        claims = {"oid": "who-am-i", "tid": TENANT, "aud": form["scope"]}
        payload = urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return answer_json({"access_token": f"head.{payload}.{len(self.asked)}", "expires_in": 3600})


@dataclass
class Edge:
    site: Site
    entra: Entra
    server: Server

    def join(self, profile: str, secret: str = FIRST, **more: Any) -> Any:
        if profile == "token":
            self.site.machine.commands.on_start[KUBELET] = lambda: registers(self)
        principal = {"clientId": CLIENT, "clientSecret": secret, "clientTenant": TENANT}
        azure = {
            "bootstrapToken": None,
            "servicePrincipal": principal,
            "activeDirectoryEndpoint": self.server.url,
        }
        return self.site.join({"azure": azure, "kubernetesAuth": {"profile": profile}, **more})

    def text(self, name: str) -> str:
        return self.site.machine.text(f"{DIRECTORY}/{name}")


@pytest.fixture
def edge(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    entra = Entra()
    with a_site(debian, pki) as site, serving(entra, pki.server_context()) as server:
        yield Edge(site, entra, server)


def registers(edge: Edge) -> None:
    """What a kubelet without certificates does when it starts."""
    edge.site.api.nodes.setdefault("edge-1", a_node())


def test_profile_certificate(edge: Edge) -> None:
    edge.join("certificate")
    user = json.loads(edge.text("bootstrap-kubeconfig"))["users"][0]["user"]
    assert user["exec"]["command"] == f"{DIRECTORY}/token.sh"
    assert "token" not in user
    drop_in = edge.site.machine.text("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
    assert f"--bootstrap-kubeconfig={DIRECTORY}/bootstrap-kubeconfig" in drop_in
    assert json.loads(edge.site.machine.text("/etc/default/kubeletconfig.json"))["rotateCertificates"] is True
    assert not edge.join("certificate").changed


def test_profile_token(edge: Edge) -> None:
    assert edge.join("token").node["ready"]
    assert "exec" in json.loads(edge.text("token-kubeconfig"))["users"][0]["user"]
    drop_in = edge.site.machine.text("/etc/systemd/system/kubelet.service.d/10-kubeadm.conf")
    assert f"--kubeconfig={DIRECTORY}/token-kubeconfig" in drop_in
    assert "--bootstrap-kubeconfig" not in drop_in
    assert (
        json.loads(edge.site.machine.text("/etc/default/kubeletconfig.json"))["rotateCertificates"] is False
    )
    shown = [request.headers.get("Authorization", "") for request in edge.site.api.server.requests]
    assert any(header.startswith("Bearer head.") for header in shown)
    restarts = edge.site.machine.commands.times("systemctl", "restart")
    assert not edge.join("token").changed
    assert edge.site.machine.commands.times("systemctl", "restart") == restarts


def test_a_kubeconfig_that_we_wrote_is_no_proof_of_a_join(
    edge: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, store = edge.site.machine.host, edge.site.machine.store
    with monkeypatch.context() as patched:
        patched.setitem(globals(), "registers", lambda _: None)
        with pytest.raises(NodeNotReady):
            edge.join("token", upgrade={"gateSeconds": 10})
    assert edge.site.machine.path(f"{DIRECTORY}/token-kubeconfig").exists()
    assert not has_joined(host, store.current_config() or {})
    registers(edge)
    edge.join("token")
    assert has_joined(host, store.current_config() or {})


def test_an_identity_that_gets_no_token_stops_it_before_anything_is_touched(edge: Edge) -> None:
    before = edge.site.machine.snapshot("/etc", "/opt", "/usr")
    with pytest.raises(IdentityRefused, match="refuses the service principal"):
        edge.join("certificate", secret="wrong")
    assert edge.site.machine.snapshot("/etc", "/opt", "/usr") == before
    assert edge.site.machine.commands.times("systemctl", "restart") == 0


def test_a_rotated_secret_is_tried_before_the_old_one_goes(edge: Edge) -> None:
    edge.join("token")
    edge.entra.secret = "second-secret"
    run = edge.join("token", secret="second-secret")
    assert f"update {DIRECTORY}/token-identity.json" in run.actions
    assert edge.entra.asked[-1] == "second-secret"
    with pytest.raises(IdentityRefused):
        edge.join("token", secret="third-secret")
    assert "second-secret" in edge.text("token-identity.json")  # what works stays


def test_a_joined_kubelet_does_not_mind_a_new_secret(edge: Edge) -> None:
    edge.join("certificate")
    restarts = edge.site.machine.commands.times("systemctl", "restart")
    edge.entra.secret = "nobody-knows"  # an outage or a mistake there must not stop an update
    assert edge.join("certificate", secret="second-secret").changed
    assert edge.site.machine.commands.times("systemctl", "restart") == restarts


def test_from_certificate_to_token_and_back(edge: Edge, pki: Pki) -> None:
    starts = edge.site.machine.commands.on_start[KUBELET]
    edge.join("certificate")
    assert edge.join("token").changed
    assert not edge.site.machine.path(f"{DIRECTORY}/bootstrap-kubeconfig").exists()
    edge.site.machine.commands.on_start[KUBELET] = starts
    assert edge.join("certificate").changed
    assert not edge.site.machine.path(f"{DIRECTORY}/token-kubeconfig").exists()


def test_a_held_update_stays_in_place_while_nobody_gives_tokens(edge: Edge) -> None:
    """The line is cut for the API server, the machine restarts, and the line is cut for Entra too."""
    edge.join("token")
    machine = edge.site.machine
    update: dict[str, Any] = {**MORE, **SHORT}
    machine.clock.then = lambda: edge.site.api.refuse.update({"GET": 503})
    with pytest.raises(ApiUnreachable, match="stays in place"):
        edge.join("token", **update)
    machine.host.remove_tree("/run/aks-flex-node")
    edge.entra.away = True
    with pytest.raises(ApiUnreachable, match=r"Entra ID .* stays in place"):
        edge.join("token", **update)
    assert '"maxPods": 50' in machine.text(CONFIG)
    edge.entra.away, machine.clock.then = False, lambda: None
    edge.site.api.refuse.clear()
    edge.join("token", **update)
    assert machine.store.transaction() is None


def test_leaving_forgets_the_tokens(edge: Edge) -> None:
    edge.join("token")
    assert list(edge.site.machine.path("/run/aks-flex-node/tokens").iterdir())
    leave(edge.site.machine.host, drain_seconds=0)
    assert not edge.site.machine.path("/run/aks-flex-node/tokens").exists()
    assert not edge.site.machine.path(f"{DIRECTORY}/token-identity.json").exists()


# -- what the kubelet's log says ---------------------------------------------------------------------------

NO_TOKEN = 'err="getting credentials: exec: token.sh failed: FLEX-1804: the Arc agent is down"'
NOT_ALLOWED = 'err="nodes is forbidden: User \\"who-am-i\\" cannot create resource \\"nodes\\" in API group"'
ANONYMOUS = 'err="nodes is forbidden: User \\"system:anonymous\\" cannot get resource \\"nodes\\""'
NO_REQUEST = NOT_ALLOWED.replace("nodes", "certificatesigningrequests")
UNAUTHORIZED = 'err="failed to run Kubelet: cannot create certificate signing request: Unauthorized"'


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (NO_TOKEN, "FLEX-1804: the Arc agent is down"),
        (f"{ANONYMOUS}\n{NOT_ALLOWED}\n{NOT_ALLOWED}\n{ANONYMOUS}", "User who-am-i may not create nodes"),
        (UNAUTHORIZED, "does not accept tokens"),
    ],
)
def test_why_a_kubelet_with_an_azure_identity_does_not_join(machine: Machine, log: str, why: str) -> None:
    machine.commands.logs[KUBELET] = log
    error = explained_log(machine.host, "edge-1", 0, "arc")
    assert isinstance(error, Forbidden)
    assert why in error.why
    assert (refused(machine.host, "edge-1", 0, "arc") is not None) == (log == UNAUTHORIZED)


def test_what_lets_an_identity_ask_for_a_certificate(machine: Machine) -> None:
    machine.commands.logs[KUBELET] = NO_REQUEST
    error = explained_log(machine.host, "edge-1", 0, "arc")
    assert error is not None
    assert "--clusterrole=system:node-bootstrapper --user=who-am-i" in error.fix
    assert "certificatesigningrequests:nodeclient --user=who-am-i" in error.fix


# -- the command -------------------------------------------------------------------------------------------


def command(edge: Edge, *arguments: str) -> int:
    return main(list(arguments), edge.site.machine.host)


def test_the_token_command_is_the_exec_plugin(edge: Edge, capsys: Captured) -> None:
    edge.join("token")
    file = str(edge.site.machine.path(f"{DIRECTORY}/token-identity.json"))
    capsys.readouterr()
    assert command(edge, "token", "--identity", file) == 0
    credential = json.loads(capsys.readouterr().out)
    assert credential["status"]["token"].startswith("head.")
    assert command(edge, "token", "--check") == 0
    told = capsys.readouterr().out
    assert "who-am-i" in told
    assert "head." not in told


def test_a_token_that_can_not_be_had(edge: Edge, capsys: Captured) -> None:
    edge.join("token")
    edge.entra.secret = "another"
    edge.site.machine.clock.time += 3601
    assert command(edge, "token") == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "FLEX-1802" in told.err
    assert "first-secret" not in told.err


def test_arc_status_without_an_agent(edge: Edge, capsys: Captured) -> None:
    edge.site.machine.commands.statuses["azcmagent"] = 127
    assert command(edge, "arc", "status") == 3
    assert "not installed" in capsys.readouterr().out
    assert command(edge, "arc", "status", "--json") == 3
    assert json.loads(capsys.readouterr().out)["installed"] is False


def test_registering_needs_somebody_who_may(edge: Edge, capsys: Captured) -> None:
    azure = {"arc": {"enabled": True}, "tenantId": TENANT, "targetCluster": {"location": "westeurope"}}
    edge.site.machine.commands.answers[("azcmagent", "show", "-j")] = '{"status": "Disconnected"}'
    edge.site.join({"azure": azure})  # with its bootstrap token; Arc is for Azure alone
    capsys.readouterr()
    assert command(edge, "arc", "register") == 1
    assert "an access token is needed" in capsys.readouterr().err
