# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The aks-flex-node command: what it prints and how it ends; and the installed program, run for real."""

from __future__ import annotations

import io
import json
import os
import re
import select
import socket
import socketserver
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.commands.options import names
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.agent import resources
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.fetch import Fetcher
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import held
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import make_plan
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.restore_host import restore_host
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.transaction import Timings, execute
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import gather
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import (
    COMMAND,
    LAUNCHER,
    PACKAGE,
    VERSION,
    sources,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc import departure
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import Secret
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Pki, answer_json, serving
from tests.unit.node.sites import TOKEN, Site, a_site

NODE = Path(__file__).parents[3] / "plugins/module_utils/node"


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    with a_site(debian, pki) as made:
        yield made


@pytest.fixture
def config(site: Site, tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(site.document))
    return str(file)


Captured = pytest.CaptureFixture[str]


def test_version_needs_no_root_and_prints_only_itself(capsys: Captured) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"{VERSION}\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["nonsense"], ["join"], ["join", "--config", "a", "--config-url", "b"], ["status", "-x"]],
)
def test_a_wrong_command_line_ends_with_2(arguments: list[str], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: aks-flex-node" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["", *names()])
def test_every_command_has_help(command: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*command.split(), "--help"])
    assert caught.value.code == 0
    assert "usage: aks-flex-node" in capsys.readouterr().out


def test_joining_prints_progress_and_one_line_at_the_end(site: Site, config: str, capsys: Captured) -> None:
    assert main(["join", "--config", config], site.machine.host) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r" *\d+\.\d s  \S", line) for line in lines[:-1])
    assert lines[-1].startswith("edge-1  Ready  v1.34.4  containerd 2.3.4  joined in 5.")
    assert TOKEN not in "\n".join(lines)
    assert main(["join", "--config", config], site.machine.host) == 0
    assert "unchanged in" in capsys.readouterr().out


def test_a_configuration_from_standard_input(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(site.document)))
    assert main(["plan", "--config", "-"], site.machine.host) == 0
    assert "start kubelet.service" in capsys.readouterr().out


def test_a_configuration_url_from_standard_input(
    site: Site, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    with serving(lambda _: answer_json({"config": site.document}), pki.server_context()) as source:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{source.url}/bundle?sig=s3cret\n"))
        arguments = ["join", "--config-url", "-", "--ca-cert", str(tmp_path / "ca.pem")]
        assert main(arguments, site.machine.host) == 0
    assert source.asked == ["GET /bundle?sig=s3cret"]
    assert "s3cret" not in "".join(capsys.readouterr())


@contextmanager
def connecting_proxy() -> Iterator[tuple[str, list[str]]]:
    """A proxy that connects to where it is asked to; its address, and the heads of all requests."""
    heads: list[str] = []

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += self.request.recv(1)
            heads.append(head.decode())
            host, port = heads[-1].split(" ")[1].split(":")
            with socket.create_connection((host, int(port))) as server:
                self.request.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                ends = {server: self.request, self.request: server}
                while ready := select.select(list(ends), [], [], 5)[0]:
                    for end in ready:
                        if not (content := end.recv(65536)):
                            return
                        ends[end].sendall(content)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as listener:
        threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
        yield f"127.0.0.1:{listener.server_address[1]}", heads
        listener.shutdown()


@pytest.mark.parametrize("typed", [True, False])
def test_a_configuration_url_through_a_proxy(
    site: Site, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, typed: bool
) -> None:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")  # has no say
    bundle = answer_json({"config": site.document})
    with serving(lambda _: bundle, pki.server_context()) as source, connecting_proxy() as (address, heads):
        proxy = f"http://user:pa55word@{address}"
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{source.url}/x?sig=s3cret\n{proxy}\n"))
        arguments = ["plan", "--config-url", "-", "--ca-cert", str(tmp_path / "ca.pem")]
        assert main([*arguments, "--proxy", proxy if typed else "-"], site.machine.host) == 0
    assert source.asked == ["GET /x?sig=s3cret"]
    (head,) = heads
    assert head.startswith(f"CONNECT {source.url.removeprefix('https://')} ")
    assert f"Proxy-Authorization: Basic {b64encode(b'user:pa55word').decode()}" in head
    assert "pa55word" not in "".join(capsys.readouterr())


def test_a_proxy_that_is_none_is_refused_and_not_shown(site: Site, capsys: Captured) -> None:
    arguments = ["plan", "--config-url", "https://127.0.0.1:1/x"]
    assert main([*arguments, "--proxy", "socks5://user:pa55word@proxy"], site.machine.host) == 1
    printed = "".join(capsys.readouterr())
    assert "FLEX-1101" in printed
    assert "--proxy" in printed
    assert main([*arguments, "--proxy", "http://user:pa55word@127.0.0.1:1"], site.machine.host) == 1
    printed += "".join(capsys.readouterr())
    assert "FLEX-1103" in printed
    assert "pa55word" not in printed
    with pytest.raises(SystemExit):
        main(["plan", "--config", "x", "--proxy", "http://proxy"], site.machine.host)
    assert "it needs --config-url" in capsys.readouterr().err


def test_a_plan_changes_nothing_and_shows_no_secret(site: Site, config: str, capsys: Captured) -> None:
    before = site.machine.snapshot("/")
    assert main(["plan", "--config", config], site.machine.host) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(lines) - 1} changes"
    assert main(["plan", "--config", config, "--diff"], site.machine.host) == 0
    shown = capsys.readouterr().out
    assert "+++ file:/etc/default/kubelet" in shown
    assert "KUBELET_REGISTRATION_FLAGS" in shown
    assert TOKEN not in shown
    assert site.machine.snapshot("/") == before
    site.join()
    assert main(["plan"], site.machine.host) == 0
    assert capsys.readouterr().out == "nothing to do\n"


def test_the_status_in_words_and_as_json(site: Site, capsys: Captured) -> None:
    assert main(["status"], site.machine.host) == 3
    words = capsys.readouterr().out
    assert "phase           NotStarted\nnode            NotJoined\n" in words
    assert "drift           -\n" in words
    site.join()
    assert main(["status"], site.machine.host) == 0
    words = capsys.readouterr().out
    assert re.search(r"^node +edge-1 +Ready +kubelet 1\.34\.4 +cluster plant$", words, re.MULTILINE)
    # A document without a version has no line for it.
    assert [line.split()[0] for line in words.splitlines()] == ["phase", "node", "config", "drift", "reason"]
    polling = "config polling  off (the configuration changes only when you run playbook "
    polling += "aks.flexnode.bootstrap or aks.flexnode.update, or `aks-flex-node join`)"
    drift = "drift           none (no change by others since the configuration was applied)"
    assert f"{polling}\n{drift}\nreason          -\n" in words
    assert main(["status", "--json"], site.machine.host) == 0
    assert json.loads(capsys.readouterr().out)["node"]["ready"] is True
    site.machine.put("/etc/default/kubelet", "x")
    assert main(["status"], site.machine.host) == 3
    assert (
        "drift           1 item\n                bootstrap would update /etc/default/kubelet"
        in capsys.readouterr().out
    )


def test_leaving_says_what_it_left(site: Site, capsys: Captured) -> None:
    assert main(["unbootstrap"], site.machine.host) == 0
    assert capsys.readouterr().out == "this machine was not a node\n"
    site.join()
    assert main(["reset", "--drain-seconds", "0"], site.machine.host) == 0
    assert capsys.readouterr().out.endswith("this machine is no longer a node\n")
    site.join()
    site.machine.put("/etc/default/kubelet", "edited")
    site.api.refuse["DELETE"] = 403
    assert main(["unbootstrap"], site.machine.host) == 1
    complaints = capsys.readouterr().err
    assert "left: file:/etc/default/kubelet: changed outside this collection" in complaints
    assert "kubectl delete node edge-1" in complaints


# -- errors ------------------------------------------------------------------------------------------------


def test_an_error_is_one_message_and_status_1(site: Site, capsys: Captured, tmp_path: Path) -> None:
    assert main(["join", "--config", str(tmp_path / "none.json")], site.machine.host) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("FLEX-1309: the file can't be read")
    assert "fix: check the path" in printed.err


def test_an_error_as_json(site: Site, capsys: Captured) -> None:
    site.machine.put(f"{DATA_DIR}/state.json", "{")
    assert main(["status", "--json"], site.machine.host) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["where"]) == ("FLEX-1402", f"{DATA_DIR}/state.json")


def test_a_bad_document_names_all_its_problems_but_no_secret(
    site: Site, tmp_path: Path, capsys: Captured
) -> None:
    document = {**site.document, "nodes": {}, "node": {"maxPods": 0}}
    (tmp_path / "bad.json").write_text(json.dumps(document))
    assert main(["join", "--config", str(tmp_path / "bad.json")], site.machine.host) == 1
    complaint = capsys.readouterr().err
    for problem in (
        "nodes: unknown key, did you mean node?\n",
        "node.maxPods is 0. Set a whole number, 1 to 500\n",
        "node.kubelet.serverURL is missing. Set https://HOST[:PORT]\n",
    ):
        assert f"\n  {problem}" in complaint
    assert "\nNothing was changed on the machine.\nfix: correct it in" in complaint
    assert TOKEN not in complaint


def test_two_at_once(site: Site, config: str, capsys: Captured) -> None:
    with held(site.machine.host, "other", "Ansible"):
        assert main(["join", "--config", config], site.machine.host) == 1
    assert "FLEX-1401" in capsys.readouterr().err


def test_interrupted(site: Site, config: str, capsys: Captured) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    site.machine.commands.on_start["kubelet.service"] = interrupt
    assert main(["join", "--config", config], site.machine.host) == 130
    assert "continues where this one stopped" in capsys.readouterr().err


# -- the installed program ---------------------------------------------------------------------------------


def test_the_program_is_exactly_the_files_of_the_package() -> None:
    files = {
        f"{PACKAGE}/{path.relative_to(NODE)}": path.read_bytes()
        for path in NODE.rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert sources() == {COMMAND: LAUNCHER.encode(), **files}


def installed(machine: Machine) -> Path:
    """The agent component, applied; returns the command's link."""
    machine.path("/opt").mkdir()
    config, facts = parse(joining()), gather(machine.host, "x86_64")
    plan = make_plan(resources(config, facts), machine.host, machine.store)
    stager = Fetcher(machine.host, HttpClient(), machine.store.cache)
    execute(plan, machine.host, machine.store, stager, [], timings=Timings(machine.host))
    assert not make_plan(resources(config, facts), machine.host, machine.store).changed
    return machine.path(f"/usr/local/bin/{COMMAND}")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """This Python, isolated, in an empty environment."""
    command = [sys.executable, "-I", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={}, timeout=60, check=False)


def test_the_installed_command_runs_by_itself(debian: Machine) -> None:
    launcher = debian.root / os.readlink(installed(debian)).lstrip("/")
    assert launcher.read_text().startswith("#!/usr/bin/python3 -I\n")
    assert os.access(launcher, os.X_OK)
    done = run_python(str(launcher), "poll", "--help")
    assert "--hand-over" in done.stdout
    done = run_python(str(launcher), "version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{VERSION}\n", "")
    restore_host(debian.host, debian.store)
    assert debian.host.names("/opt") == ()
    assert debian.host.stat(f"/usr/local/bin/{COMMAND}").absent


NOBODY = """
import locale, os, shutil, sys  # argparse imports two of them late, and nobody may not read this Python
sys.path.insert(0, sys.argv[1])
from flexnode.cli import main
os.setuid(65534)
sys.exit(main(["status", "--json"]))
"""


def test_who_is_not_root_is_told_so(debian: Machine) -> None:
    program = debian.root / os.readlink(installed(debian)).lstrip("/")
    done = run_python("-c", NOBODY, str(program.parent))
    assert (done.returncode, json.loads(done.stdout)["error"]["code"]) == (1, "FLEX-1306")


def test_leaving_with_a_token_for_the_registration(
    site: Site, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Secret | None] = []

    def left(_host: Host, _config: object, _say: object, token: Secret | None = None) -> list[str]:
        given.append(token)
        return []

    monkeypatch.setattr(departure, "leave_azure", left)
    monkeypatch.setattr("sys.stdin", io.StringIO("t0ken\n"))
    assert main(["unbootstrap", "--access-token-stdin"], site.machine.host) == 0
    assert main(["unbootstrap"], site.machine.host) == 0
    assert given == [Secret("t0ken"), None]
    assert "t0ken" not in capsys.readouterr().out
