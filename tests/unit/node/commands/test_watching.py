# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""health and agent: what probes read, and how a node is monitored."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.commands.watching import seconds
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NodeNotReady, UnitFailed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import sources
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import BOOTED, Machine
from tests.unit.node.servers import Pki, Server, answer_json, serving
from tests.unit.node.sites import IDENTITY, KUBELET, Site, a_site

Captured = pytest.CaptureFixture[str]
TIMER = "aks-flex-node-poll.timer"
FAILURE = {"ok": False, "code": "FLEX-1103", "message": "it does not answer", "since": "2027-01-15T08:00:00"}


def health(site: Site, capsys: Captured) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["health"], site.machine.host)
    return status, capsys.readouterr().out.strip()


def test_the_health_of_a_machine_before_during_and_after(site: Site, capsys: Captured) -> None:
    assert health(site, capsys) == (3, "not a node: its phase is NotStarted")
    site.join()
    before, asked = site.machine.snapshot("/"), len(site.api.server.requests)
    assert health(site, capsys) == (0, "healthy")
    assert site.machine.snapshot("/") == before, "nothing is written"
    site.machine.commands(["systemctl", "stop", "kubelet.service"], None, 1)
    assert health(site, capsys) == (3, "not working: kubelet.service does not run")
    site.machine.commands.units["kubelet.service"] = "active"
    site.machine.commands.begins(KUBELET, exe="/usr/bin/kubelet-of-someone")
    assert health(site, capsys) == (3, "not working: kubelet.service does not run /usr/local/bin/kubelet")
    site.machine.commands(["systemctl", "restart", "kubelet.service"], None, 1)
    assert health(site, capsys) == (0, "healthy")
    assert len(site.api.server.requests) == asked, "the API server is not asked"


def test_a_kubelet_that_exits_again_and_again_is_not_healthy(site: Site, capsys: Captured) -> None:
    site.join()
    commands, clock = site.machine.commands, site.machine.clock
    said = "not working: kubelet.service exits after its start, and was restarted 7 times: journalctl -u "
    commands.restarts[KUBELET] = 7
    commands.units[KUBELET], commands.sub_states[KUBELET] = "activating", "auto-restart"
    status, line = health(site, capsys)
    assert (status, line.startswith(said)) == (3, True)
    shown = status_of(site.machine.host)
    assert (shown["reason"], shown["node"]["units"][KUBELET]) == (UnitFailed.code, False)
    commands.units[KUBELET], commands.sub_states[KUBELET] = "active", "running"
    commands.started[KUBELET] = clock.time - 3
    assert health(site, capsys)[1].startswith(said), "it runs for a moment"
    clock.time += 60
    assert health(site, capsys) == (0, "healthy"), "the restarts are of the past"
    commands.restarts[KUBELET], commands.started[KUBELET] = 1, clock.time
    assert health(site, capsys) == (0, "healthy"), "once may happen"


def test_processes_that_have_run_for_a_while_are_no_question_to_systemd(
    debian: Machine, pki: Pki, capsys: Captured
) -> None:
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    debian.commands.processes = True
    with a_site(debian, pki) as site:
        site.join()
        debian.put("/proc/uptime", f"{time.time() - BOOTED + 40:.2f} 1.00\n")
        asked = debian.commands.times("systemctl", "show")
        assert health(site, capsys) == (0, "healthy")
        assert debian.commands.times("systemctl", "show") == asked


@pytest.mark.parametrize("change", ["expired", "missing"])
def test_a_kubelet_without_a_valid_certificate_is_not_healthy(
    site: Site, capsys: Captured, change: str
) -> None:
    site.join()
    if change == "expired":
        site.machine.clock.time += 11 * 365 * 86400
    else:
        site.machine.path(IDENTITY).unlink()
    status, line = health(site, capsys)
    assert status == 3
    assert line.startswith("not working: /var/lib/kubelet/pki/kubelet-client-current.pem ")
    assert change in line
    assert "aks-flex-node status" in line


def test_a_node_that_works_but_does_not_follow(site: Site, capsys: Captured) -> None:
    site.join()
    site.machine.store.set_monitoring(FAILURE)
    status, line = health(site, capsys)
    assert status == 4
    assert line == (
        "working: its configuration is not followed: FLEX-1103 since 2027-01-15T08:00:00: it does not answer"
    )
    site.machine.store.set_monitoring({})
    site.machine.store.begin({"stage": "applying"})
    assert health(site, capsys)[0] == 4
    assert main(["health", "--json"], site.machine.host) == 4
    assert json.loads(capsys.readouterr().out) == {
        "healthy": False,
        "health": "working",
        "reason": "a change is not complete; the next run completes it",
    }


def problem(site: Site, capsys: Captured) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["problem"], site.machine.host)
    return status, capsys.readouterr().out.strip()


def test_problems_are_what_the_last_status_says(site: Site, capsys: Captured) -> None:
    """node-problem-detector reads the exit status: 0 no problem, 1 a problem, 2 unknown."""
    assert problem(site, capsys) == (0, "")
    site.join()
    before, asked = site.machine.snapshot("/"), len(site.api.server.requests)
    assert problem(site, capsys) == (0, "NodeJoined")
    assert site.machine.snapshot("/") == before, "nothing is written"
    assert len(site.api.server.requests) == asked, "the API server is not asked"
    store = site.machine.store
    right = store.status() or {}
    store.set_status({**right, "reason": "Drift", "message": "update /etc/containerd/config.toml"})
    assert problem(site, capsys) == (1, "Drift: update /etc/containerd/config.toml")
    failing = {**right["monitoring"], "status": "Failing", "code": "FLEX-1103"}
    store.set_status({**right, "monitoring": failing, "reason": "FLEX-1103", "message": "it is away"})
    assert problem(site, capsys) == (2, "FLEX-1103: it is away")
    site.machine.put("/var/lib/aks-flex-node/status.json", "{")
    status, line = problem(site, capsys)
    assert (status, line.partition(":")[0]) == (2, "FLEX-1402")


def test_a_long_problem_is_cut_between_characters(site: Site, capsys: Captured) -> None:
    site.join()
    store = site.machine.store
    store.set_status({**(store.status() or {}), "reason": "Drift", "message": "\u00e4" * 300})
    status, line = problem(site, capsys)
    assert (status, len(line.encode())) == (1, 255)


def test_a_failed_join_is_no_healthy_node(site: Site, capsys: Captured) -> None:
    site.api.nodes["edge-1"] = a_node(ready=False)
    with pytest.raises(NodeNotReady):
        site.join()
    status, line = health(site, capsys)
    assert status == 3
    assert line.startswith("not a node: its phase is NodeFailed (FLEX-1502 ")


def test_health_imports_little(tmp_path: Path) -> None:
    """A probe runs every few seconds: neither the engine nor TLS nor the configuration's types are loaded."""
    for name, content in sources().items():
        place = tmp_path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from flexnode.cli import main; from flexnode.machine.host import Host\n"
        "import contextlib\n"
        "status = main(['health'], Host(root=sys.argv[2]))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('flexnode.')))\n"
        "print(*sys.modules)\n"
    )
    (tmp_path / "root").mkdir()
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path), str(tmp_path / "root")],
        capture_output=True,
        text=True,
        check=True,
    )
    line, ours, every = done.stdout.splitlines()
    assert line == "not a node: its phase is NotStarted"
    assert not {"ssl", "subprocess", "ipaddress", "http.client"} & set(every.split())
    rooms = {name.split(".")[1] for name in ours.split()}
    assert not rooms & {"config", "components", "operations", "preflight", "identity", "catalogue", "net"}


# -- agent -------------------------------------------------------------------------------------------------

SHOWN = """ActiveState=active
TimersMonotonic={ OnUnitInactiveUSec=20s ; next_elapse=1min 40s }
TimersMonotonic={ OnBootUSec=30s ; next_elapse=30s }
RandomizedDelayUSec=20s
LastTriggerUSec=Fri 2027-01-15 08:00:00 UTC
NextElapseUSecMonotonic=20833w 2d 8h 12s
"""


@pytest.mark.parametrize(
    ("span", "expected"),
    [("", 0), ("infinity", 0), ("20s", 20), ("1min 40.5s", 100.5), ("2h 3min 4s 5ms", 7384.005)],
)
def test_time_spans_of_systemd(span: str, expected: float) -> None:
    assert seconds(span) == pytest.approx(expected)


@pytest.fixture
def source(site: Site, pki: Pki, tmp_path: Path) -> Iterator[Server]:
    """A URL that the site's machine follows."""
    (tmp_path / "ca.pem").write_text(f"# Autorité\n{pki.ca_pem}", encoding="latin-1")
    followed: dict[str, Any] = merge(site.document, {"continuousMonitoring": True})
    with serving(lambda _: answer_json({"config": followed}), pki.server_context()) as server:
        arguments = ["--config-url", f"{server.url}/node?sig=s3cret", "--durable"]
        assert main(["join", *arguments, "--ca-cert", str(tmp_path / "ca.pem")], site.machine.host) == 0
        server.requests.clear()
        yield server


def test_the_agent_says_how_it_runs_and_polls_once(site: Site, source: Server, capsys: Captured) -> None:
    capsys.readouterr()
    wanted = "ActiveState,TimersMonotonic,RandomizedDelayUSec,LastTriggerUSec,NextElapseUSecMonotonic"
    asked = ("systemctl", "show", f"--property={wanted}", TIMER)
    commands, shown = site.machine.commands, site.machine.commands._shown

    def show(unit: str) -> str:
        return SHOWN if commands.calls[-1] == asked else shown(unit)

    commands._shown = show  # type: ignore[method-assign]
    assert main(["agent"], site.machine.host) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "monitoring  aks-flex-node-poll.timer is active",
        "interval    every 20 to 40 s after the previous poll",
        "last poll   Fri 2027-01-15 08:00:00 UTC",
        "next poll   when the present one has ended",
    ]
    assert lines[4] == f"source      {source.url}/node?…  Ok"
    assert lines[-1] == "nothing new"
    assert len(source.requests) == 1


def test_the_agent_of_a_node_that_follows_nothing(site: Site, capsys: Captured) -> None:
    site.join()
    assert main(["agent"], site.machine.host) == 0
    assert capsys.readouterr().out.startswith("monitoring  off: this machine does not follow")
