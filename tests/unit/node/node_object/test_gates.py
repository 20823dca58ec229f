# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gates: when a run counts as a success, and what the logs say when it does not."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    CaMismatch,
    FlexNodeError,
    NodeNotReady,
    TokenRefused,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.gates import (
    NodeReady,
    UnitsActive,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.kubelet_log import (
    explained_log,
    refused,
    unit_failed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.this_node import ThisNode
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fake_api import FakeApi, a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki

KUBELET = "kubelet.service"
IDENTITY = "/var/lib/kubelet/pki/kubelet-client-current.pem"
UNAUTHORIZED = 'E1115 err="failed to run Kubelet: cannot create certificate signing request: Unauthorized"'
UNKNOWN_CA = 'E1115 err="tls: failed to verify certificate: x509: certificate signed by unknown authority"'
WRONG_NAME = 'err="x509: certificate is valid for a.example, not b.example"'
NO_ROUTE = 'E1115 err="Post \\"https://api/x\\": dial tcp 10.0.0.1:443: connect: no route to host"'
REFUSED = 'E1115 err="dial tcp 10.0.0.1:443: connect: connection refused"'
PROBE = 'I1115 prober.go:120] "Probe failed" output="dial tcp 10.244.0.2:8181: connect: connection refused"'
NO_NETWORK = 'E1115 err="dial tcp 10.0.0.1:443: connect: network is unreachable"'
NO_NAME = 'E1115 err="dial tcp: lookup api.example on 10.0.0.53:53: no such host"'
NOISE = "I1115 server.go:415] Starting to listen"


@pytest.fixture
def api(pki: Pki) -> Iterator[FakeApi]:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as running:
        yield running


def gate(
    api: FakeApi, pki: Pki, machine: Machine, cni_mode: str = "none", seconds: float = 1, azure: str = ""
) -> NodeReady:
    ca = b64encode(pki.ca_pem.encode()).decode()
    document = joining(
        {
            "agent": {"nodeName": "edge-1"},
            "kubernetes": {"version": "1.34.4"},
            "cni": {"mode": cni_mode, **({"podCIDR": "10.244.0.0/24"} if cni_mode == "bridge" else {})},
            "node": {"kubelet": {"serverURL": api.server.url, "caCertData": ca}},
        }
    )
    node = ThisNode.of(machine.host, parse(document, pollable=True))
    return NodeReady(replace(node, azure_method=azure), seconds)


def certified(machine: Machine, pki: Pki) -> None:
    machine.put(IDENTITY, pki.client.read_bytes(), 0o600)


# -- units -------------------------------------------------------------------------------------------------


def test_units_that_run_pass_at_once(machine: Machine) -> None:
    machine.commands.units = {"a.service": "active", "b.service": "active"}
    UnitsActive(("a.service", "b.service")).pass_(machine.host)
    assert machine.clock.naps == []


def test_a_unit_that_comes_up_late(machine: Machine) -> None:
    machine.commands.units["a.service"] = "activating"
    machine.clock.then = lambda: machine.commands.units.update({"a.service": "active"})
    UnitsActive(("a.service",)).pass_(machine.host)
    assert len(machine.clock.naps) == 1


def test_a_failed_unit_ends_the_wait_at_once_and_is_quoted(machine: Machine) -> None:
    machine.commands.units = {"a.service": "activating", "b.service": "failed"}
    machine.commands.logs["b.service"] = "starting\nfatal: no such option\nbye\n"
    with pytest.raises(UnitFailed, match=r"b\.service") as caught:
        UnitsActive(("a.service", "b.service")).pass_(machine.host)
    assert (caught.value.why, machine.clock.naps) == ("fatal: no such option", [])


def test_a_unit_that_never_comes_up(machine: Machine) -> None:
    with pytest.raises(UnitFailed, match="its log has no error"):
        UnitsActive(("a.service",), seconds=2).pass_(machine.host)
    assert sum(machine.clock.naps) == pytest.approx(2, abs=0.2)


def test_a_long_line_is_cut(machine: Machine) -> None:
    machine.commands.logs["a.service"] = "error " + "x" * 5000
    assert len(unit_failed(machine.host, "a.service", 0).why) == 400


# -- the Node ----------------------------------------------------------------------------------------------


def test_ready_with_the_right_version_passes(api: FakeApi, pki: Pki, machine: Machine) -> None:
    certified(machine, pki)
    gate(api, pki, machine).pass_(machine.host)


def test_a_join_as_it_goes(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.nodes = {}
    events: list[Callable[[], object]] = [
        lambda: certified(machine, pki),
        lambda: api.refuse.update({"GET": 503}),
        lambda: api.refuse.clear(),
        lambda: api.nodes.update({"edge-1": a_node(ready=False)}),
        lambda: api.nodes.update({"edge-1": a_node(version="1.33.0")}),
        lambda: api.nodes.update({"edge-1": a_node()}),
    ]
    machine.clock.then = lambda: events.pop(0)()
    gate(api, pki, machine).pass_(machine.host)
    assert events == []


@pytest.mark.parametrize(
    ("cni_mode", "fix"), [("none", "cni.mode is `none`"), ("bridge", "journalctl -u kubelet")]
)
def test_a_node_without_a_network(api: FakeApi, pki: Pki, machine: Machine, cni_mode: str, fix: str) -> None:
    certified(machine, pki)
    api.nodes["edge-1"] = a_node(ready=False)
    with pytest.raises(NodeNotReady, match="cni plugin not initialized") as caught:
        gate(api, pki, machine, cni_mode).pass_(machine.host)
    assert fix in caught.value.fix


def test_what_is_missing_is_said(api: FakeApi, pki: Pki, machine: Machine) -> None:
    with pytest.raises(NodeNotReady, match="no certificate yet"):
        gate(api, pki, machine).pass_(machine.host)
    certified(machine, pki)
    api.nodes["edge-1"] = a_node(version="1.33.0")
    with pytest.raises(NodeNotReady, match=r"still reports kubelet 1\.33\.0"):
        gate(api, pki, machine).pass_(machine.host)
    api.nodes = {}
    with pytest.raises(NodeNotReady, match="not registered"):
        gate(api, pki, machine).pass_(machine.host)
    api.refuse["GET"] = 403
    with pytest.raises(NodeNotReady, match="refused by the test"):
        gate(api, pki, machine).pass_(machine.host)


def test_a_refused_token_ends_the_wait_when_the_kubelet_gave_up(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    machine.commands.logs[KUBELET] = UNAUTHORIZED
    machine.clock.then = lambda: machine.commands.restarts.update({KUBELET: 1})
    with pytest.raises(TokenRefused):
        gate(api, pki, machine, seconds=600).pass_(machine.host)
    assert len(machine.clock.naps) == 1


@pytest.mark.parametrize("azure", ["", "servicePrincipal"])
def test_a_token_that_was_used_and_brought_no_certificate(
    api: FakeApi, pki: Pki, machine: Machine, azure: str
) -> None:
    """The API server answers the kubelet as a stranger: it has asked for a certificate, and waits for it."""
    machine.commands.logs[KUBELET] = 'E1115 err="User \\"system:anonymous\\" cannot get resource"'
    error = NodeNotReady if azure else TokenRefused
    with pytest.raises(error):
        gate(api, pki, machine, azure=azure).pass_(machine.host)


def test_a_kubelet_that_keeps_dying_ends_the_wait(api: FakeApi, pki: Pki, machine: Machine) -> None:
    machine.commands.logs[KUBELET] = f"{NOISE}\nE1115 failed to load config\n"
    counts = iter(range(1, 10))
    machine.clock.then = lambda: machine.commands.restarts.update({KUBELET: next(counts)})
    with pytest.raises(UnitFailed, match="failed to load config"):
        gate(api, pki, machine, seconds=600).pass_(machine.host)
    assert len(machine.clock.naps) == 3


def test_a_wrong_ca_of_our_own_ends_the_wait(
    api: FakeApi, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Pki.make(tmp_path_factory.mktemp("other"))
    certified(machine, other)
    with pytest.raises(CaMismatch):
        gate(api, other, machine).pass_(machine.host)


# -- what the kubelet's log says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "error", "why"),
    [
        (UNAUTHORIZED, TokenRefused, "it is unknown, expired or was deleted"),
        (UNKNOWN_CA, CaMismatch, "x509: certificate signed by unknown authority"),
        (WRONG_NAME, CaMismatch, "x509: certificate is valid for a.example, not b.example"),
        (NO_ROUTE, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: no route to host"),
        (REFUSED, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: connection refused"),
        (NO_NETWORK, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: network is unreachable"),
        (NO_NAME, ApiUnreachable, "dial tcp: lookup api.example on 10.0.0.53:53: no such host"),
        (f"{NO_ROUTE}\n{PROBE}", ApiUnreachable, "dial tcp 10.0.0.1:443: connect: no route to host"),
        (PROBE, None, ""),
        (f"{REFUSED}\n{UNAUTHORIZED}", TokenRefused, "it is unknown, expired or was deleted"),
        (NOISE, None, ""),
        ("", None, ""),
    ],
)
def test_diagnoses(machine: Machine, log: str, error: type[FlexNodeError] | None, why: str) -> None:
    machine.commands.logs[KUBELET] = f"{NOISE}\n{log}\n{NOISE}\n"
    found = explained_log(machine.host, "edge-1", 0)
    assert type(found) is (error or type(None))
    assert (found.why if found else "") == why
    assert (refused(machine.host, "edge-1", 0) is not None) == (error in (TokenRefused, CaMismatch))
