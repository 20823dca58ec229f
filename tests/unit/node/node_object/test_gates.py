# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Gates: when a run counts as a success, and what the logs say when it does not."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
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

KUBELET, CONTAINERD = "kubelet.service", "containerd.service"
IDENTITY = "/var/lib/kubelet/pki/kubelet-client-current.pem"
UNAUTHORIZED = 'E1115 err="failed to run Kubelet: cannot create certificate signing request: Unauthorized"'
UNKNOWN_CA = 'E1115 err="tls: failed to verify certificate: x509: certificate signed by unknown authority"'
WRONG_NAME = 'err="x509: certificate is valid for a.example, not b.example"'
NO_ROUTE = 'E1115 err="Post \\"https://api/x\\": dial tcp 10.0.0.1:443: connect: no route to host"'
REFUSED = 'E1115 err="dial tcp 10.0.0.1:443: connect: connection refused"'
PROBE = 'I1115 prober.go:120] "Probe failed" output="dial tcp 10.244.0.2:8181: connect: connection refused"'
NO_NETWORK = 'E1115 err="dial tcp 10.0.0.1:443: connect: network is unreachable"'
NO_NAME = 'E1115 err="dial tcp: lookup api.example on 10.0.0.53:53: no such host"'
NO_IMAGE = 'E1115 "PullImage from image service failed" err="x509: certificate signed by unknown authority"'
# Of someone who asked this kubelet, with a certificate of another CA.
FOREIGN_CLIENT = (
    'E1115 server.go:310] "Unable to authenticate the request" err="verifying certificate SN=1 failed: x509: '
    'certificate signed by unknown authority"'
)
NOISE = "I1115 server.go:415] Starting to listen"


@pytest.fixture
def api(pki: Pki) -> Iterator[FakeApi]:
    with FakeApi(nodes={"edge-1": a_node()}).running(pki, client_needed=True) as running:
        yield running


def gate(
    api: FakeApi, pki: Pki, machine: Machine, cni_mode: str = "none", seconds: float = 1, azure: str = ""
) -> NodeReady:
    api.now = machine.clock.now
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
    machine.commands.units.setdefault(KUBELET, "active")
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
    with pytest.raises(NodeNotReady, match=r"kubelet\.service is inactive"):
        gate(api, pki, machine).pass_(machine.host)
    machine.commands.units[KUBELET] = "active"
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


def test_another_container_runtime_than_configured_is_not_ready(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    certified(machine, pki)
    api.nodes["edge-1"] = a_node(runtime="1.7.32")
    with pytest.raises(NodeNotReady, match=r"still reports containerd 1\.7\.32"):
        gate(api, pki, machine).pass_(machine.host)
    api.nodes["edge-1"] = a_node(runtime="2.3.4-1")
    gate(api, pki, machine).pass_(machine.host)


# -- evidence is younger than the processes ----------------------------------------------------------------


def at(machine: Machine, seconds: float) -> str:
    """A time of the API server, seen from now: in whole seconds, as a heartbeat has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(machine.clock.time + seconds))


def started(machine: Machine, pki: Pki, *units: str) -> None:
    certified(machine, pki)
    for unit in units or (KUBELET,):
        machine.commands(("systemctl", "restart", unit), None, 1)


def test_a_ready_from_before_the_restart_is_no_evidence(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    started(machine, pki)
    with pytest.raises(NodeNotReady, match="has not reported since it was started"):
        gate(api, pki, machine, seconds=30).pass_(machine.host)


def test_a_report_after_the_restart_is_evidence(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    started(machine, pki)
    machine.clock.then = lambda: api.nodes.update({"edge-1": a_node(beat=at(machine, 0))})
    gate(api, pki, machine, seconds=30).pass_(machine.host)


def test_a_change_that_no_process_start_shows_needs_a_report_from_after_it(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    certified(machine, pki)
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    waits = replace(gate(api, pki, machine, seconds=30), changed=[machine.clock.monotonic()])
    with pytest.raises(NodeNotReady, match="has not reported since"):
        waits.pass_(machine.host)
    api.nodes["edge-1"] = a_node(beat=at(machine, 0))
    waits.pass_(machine.host)


def test_a_clock_that_is_set_back_does_not_make_reports_old(
    api: FakeApi, pki: Pki, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By NTP during the gate: the kubelet reports by the new clock, and so counts the time of the change."""
    certified(machine, pki)
    waits = replace(gate(api, pki, machine, seconds=30), changed=[machine.clock.monotonic()])
    monkeypatch.setattr(machine.clock, "now", lambda: machine.clock.time - 7200)
    api.nodes["edge-1"] = a_node(beat=at(machine, -7203))
    with pytest.raises(NodeNotReady, match="has not reported since"):
        waits.pass_(machine.host)
    api.nodes["edge-1"] = a_node(beat=at(machine, -7200))
    waits.pass_(machine.host)


def test_a_report_from_the_future_is_no_evidence(api: FakeApi, pki: Pki, machine: Machine) -> None:
    """The kubelet before reported, then the clock was set back, and the new kubelet hangs."""
    api.nodes["edge-1"] = a_node(beat=at(machine, 600))
    started(machine, pki)
    with pytest.raises(NodeNotReady, match="has not reported since"):
        gate(api, pki, machine, seconds=30).pass_(machine.host)


def test_the_report_is_younger_than_the_runtime_too(api: FakeApi, pki: Pki, machine: Machine) -> None:
    started(machine, pki)
    machine.clock.sleep(60)
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    started(machine, pki, CONTAINERD)
    waits = replace(gate(api, pki, machine, seconds=30), units=(CONTAINERD, KUBELET))
    with pytest.raises(NodeNotReady, match="has not reported since"):
        waits.pass_(machine.host)


@pytest.mark.parametrize(("renewed", "passes"), [("", False), ("-0.2", False), ("0.3", True)])
def test_a_report_of_the_very_second_of_the_start_needs_the_lease(
    api: FakeApi, pki: Pki, machine: Machine, renewed: str, passes: bool
) -> None:
    machine.clock.time += 0.5
    api.nodes["edge-1"] = a_node(beat=at(machine, 0))
    if renewed:
        moment = machine.clock.time + float(renewed)
        api.leases["edge-1"] = datetime.fromtimestamp(moment, timezone.utc).isoformat().replace("+00:00", "Z")
    started(machine, pki)
    waits = gate(api, pki, machine, seconds=30)
    if passes:
        waits.pass_(machine.host)
    else:
        with pytest.raises(NodeNotReady, match="has not reported since"):
            waits.pass_(machine.host)


def test_processes_must_have_run_for_five_seconds(api: FakeApi, pki: Pki, machine: Machine) -> None:
    started(machine, pki)
    begun = machine.clock.time
    waits = gate(api, pki, machine, seconds=30)
    waits.pass_(machine.host)
    assert 5 <= machine.clock.time - begun < 6.5
    again = machine.clock.time
    gate(api, pki, machine).pass_(machine.host)  # a process that runs already is not waited for
    assert machine.clock.time == again


def test_a_ready_node_whose_kubelet_keeps_exiting_fails(api: FakeApi, pki: Pki, machine: Machine) -> None:
    """Each new process is systemd's, and so is the time from which it is young again."""
    started(machine, pki)
    machine.commands.logs[KUBELET] = "E1115 failed to parse eviction threshold\n"

    def exits() -> None:
        machine.commands.started[KUBELET] = machine.clock.time
        machine.commands.restarts[KUBELET] = int((machine.clock.time - begun) / 2.5)

    begun = machine.clock.time
    machine.clock.then = exits
    with pytest.raises(UnitFailed, match="eviction threshold"):
        gate(api, pki, machine, seconds=600).pass_(machine.host)
    assert machine.clock.time - begun < 10


def test_a_runtime_that_refuses_its_configuration_ends_the_wait(machine: Machine) -> None:
    machine.commands.units[CONTAINERD] = "activating"  # Type=notify: never active, never failed
    machine.commands.logs[CONTAINERD] = "containerd: failed to load TOML: line 3\n"
    begun = machine.clock.time
    machine.clock.then = lambda: machine.commands.restarts.update(
        {CONTAINERD: int(machine.clock.time - begun)}
    )
    with pytest.raises(UnitFailed, match="failed to load TOML"):
        UnitsActive((CONTAINERD,)).pass_(machine.host)
    assert machine.clock.time - begun < 5


def test_a_gate_asks_over_one_connection_and_ever_less_often(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    certified(machine, pki)
    api.nodes["edge-1"] = a_node(ready=False)
    with pytest.raises(NodeNotReady):
        gate(api, pki, machine, seconds=60).pass_(machine.host)
    assert api.server.connections == 1
    assert len(api.server.requests) < 75
    assert machine.clock.naps[0] == 0.1
    assert machine.clock.naps[-2] == 1.0


def test_a_connection_that_the_server_closed_is_made_anew(pki: Pki, machine: Machine) -> None:
    certified(machine, pki)
    with FakeApi(nodes={"edge-1": a_node()}).running(pki) as api:
        node = gate(api, pki, machine).node
        assert node.read()
        node.api()._http._connection.sock.shutdown(2)  # type: ignore[union-attr]
        assert node.read()
        assert api.server.connections == 2


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


def test_distrust_of_a_server_that_was_right_before_decides_nothing(
    api: FakeApi, pki: Pki, machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A proxy that inspects TLS, or a captive portal, answers in its place until someone signs in."""
    other = Pki.make(tmp_path_factory.mktemp("other"))
    certified(machine, other)
    waits = replace(gate(api, other, machine, seconds=10), server_known=True)
    with pytest.raises(ApiUnreachable, match="altered neither its address nor its CA"):
        waits.pass_(machine.host)
    assert sum(machine.clock.naps) == pytest.approx(10, abs=0.2)


def test_a_clock_that_is_wrong_decides_nothing(
    machine: Machine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    expired = Pki.make(tmp_path_factory.mktemp("expired"), server_days=-1)
    certified(machine, expired)
    running = FakeApi(nodes={"edge-1": a_node()}).running(expired, client_needed=True)
    with running as api, pytest.raises(ApiUnreachable, match="has expired") as caught:
        gate(api, expired, machine).pass_(machine.host)
    assert "timedatectl" in caught.value.fix


@pytest.mark.parametrize(("known", "error"), [(True, ApiUnreachable), (False, CaMismatch)])
def test_distrust_in_the_log_of_a_kubelet_without_a_certificate(
    api: FakeApi, pki: Pki, machine: Machine, known: bool, error: type[FlexNodeError]
) -> None:
    machine.commands.units[KUBELET] = "active"
    machine.commands.logs[KUBELET] = UNKNOWN_CA
    with pytest.raises(error, match="x509: certificate signed by unknown authority"):
        replace(gate(api, pki, machine, seconds=10), server_known=known).pass_(machine.host)


def test_a_client_of_the_kubelet_that_is_not_trusted_ends_no_wait(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    """The kubelet was restarted once, and the API server answers this gate: it is the right one."""
    started(machine, pki)
    api.nodes["edge-1"] = a_node(ready=False)
    machine.commands.logs[KUBELET] = FOREIGN_CLIENT

    def passes() -> None:
        machine.commands.restarts[KUBELET] = 1
        if len(machine.clock.naps) > 3:
            api.nodes["edge-1"] = a_node()

    machine.clock.then = passes
    replace(gate(api, pki, machine, seconds=30), server_known=True).pass_(machine.host)


# -- what the kubelet's log says ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "error", "why"),
    [
        (UNAUTHORIZED, TokenRefused, "the token does not exist, has expired, or its secret is wrong"),
        (UNKNOWN_CA, CaMismatch, "x509: certificate signed by unknown authority"),
        (WRONG_NAME, CaMismatch, "x509: certificate is valid for a.example, not b.example"),
        (NO_ROUTE, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: no route to host"),
        (REFUSED, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: connection refused"),
        (NO_NETWORK, ApiUnreachable, "dial tcp 10.0.0.1:443: connect: network is unreachable"),
        (NO_NAME, ApiUnreachable, "dial tcp: lookup api.example on 10.0.0.53:53: no such host"),
        (f"{NO_ROUTE}\n{PROBE}", ApiUnreachable, "dial tcp 10.0.0.1:443: connect: no route to host"),
        (PROBE, None, ""),
        (NO_IMAGE, None, ""),
        (
            f"{REFUSED}\n{UNAUTHORIZED}",
            TokenRefused,
            "the token does not exist, has expired, or its secret is wrong",
        ),
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


# -- what a time-out means ---------------------------------------------------------------------------------


def test_a_kubelet_that_does_not_get_through_is_no_cut_line(api: FakeApi, pki: Pki, machine: Machine) -> None:
    """The API server answers this gate: the new kubelet is to blame, and the change is rolled back."""
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    started(machine, pki)
    machine.commands.logs[KUBELET] = REFUSED
    with pytest.raises(NodeNotReady, match="connection refused"):
        gate(api, pki, machine, seconds=15).pass_(machine.host)


def test_a_line_that_is_back_in_the_last_second_leaves_time_for_a_report(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    api.nodes["edge-1"] = a_node(beat=at(machine, -3))
    api.refuse["GET"] = 503
    started(machine, pki)
    begun = machine.clock.time

    def passes() -> None:
        if machine.clock.time - begun > 9:
            api.refuse.clear()
        if machine.clock.time - begun > 14:
            api.nodes["edge-1"] = a_node()

    machine.clock.then = passes
    gate(api, pki, machine, seconds=10).pass_(machine.host)
    assert machine.clock.time - begun > 14


def test_one_restart_does_not_decide_while_the_line_is_cut(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.refuse["GET"] = 503
    started(machine, pki)
    machine.commands.logs[KUBELET] = "E1115 out of order\n"
    machine.clock.then = lambda: machine.commands.restarts.update({KUBELET: 1})
    with pytest.raises(ApiUnreachable):
        gate(api, pki, machine, seconds=30).pass_(machine.host)


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize(
    ("azure", "log"),
    [
        ("", FOREIGN_CLIENT),
        ("arc", 'E1115 err="exec: token.sh failed" FLEX-1804: no answer of login.microsoftonline.com'),
        ("arc", 'E1115 err="User \\"x\\" cannot create resource \\"nodes\\""'),
    ],
    ids=["of-a-client", "no-token-for-a-moment", "no-right-for-a-moment"],
)
def test_no_line_of_the_log_decides_while_the_line_is_cut(
    api: FakeApi, pki: Pki, machine: Machine, azure: str, log: str, restarts: int
) -> None:
    """Whatever is not ApiUnreachable is rolled back, and blocks a configuration that may be good."""
    api.refuse["GET"] = 503
    started(machine, pki)
    machine.commands.logs[KUBELET] = log
    machine.clock.then = lambda: machine.commands.restarts.update({KUBELET: restarts})
    with pytest.raises(ApiUnreachable, match="HTTP 503"):
        gate(api, pki, machine, seconds=10, azure=azure).pass_(machine.host)


def test_a_cut_line_is_told_in_the_words_of_the_kubelet(api: FakeApi, pki: Pki, machine: Machine) -> None:
    api.refuse["GET"] = 503
    started(machine, pki)
    machine.commands.logs[KUBELET] = NO_ROUTE
    with pytest.raises(ApiUnreachable, match="no route to host"):
        gate(api, pki, machine, seconds=10).pass_(machine.host)


def test_a_kubelet_that_was_restarted_and_is_not_ready_in_time_is_quoted(
    api: FakeApi, pki: Pki, machine: Machine
) -> None:
    started(machine, pki)
    machine.commands.logs[KUBELET] = (
        'I1115 flags.go:64] FLAG: --fail-swap-on="true"\nE1115 out of order\n'
        "Failed to start kubelet.service - Kubernetes node agent.\n"
        "kubelet.service: Failed with result 'exit-code'\n"
    )

    def exits() -> None:
        machine.commands.started[KUBELET] = machine.clock.time
        machine.commands.restarts[KUBELET] = 1

    machine.clock.then = exits
    with pytest.raises(UnitFailed, match="out of order"):
        gate(api, pki, machine, seconds=10).pass_(machine.host)
