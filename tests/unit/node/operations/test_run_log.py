# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What runs leave in the log: every step with its outcome and duration, no secret, and nothing when idle."""

from __future__ import annotations

import re
import select
import socket
import threading
import time
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import held
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.run_log import note_failure
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid, FlexNodeError
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.log_file import (
    FILES,
    HEADER,
    LARGEST,
    LogFile,
    rotate,
)
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import KUBELET, MORE, SHORT, TOKEN, Site, exits_from_now_on

LOG = "/var/log/aks-flex-node/agent.log"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00 (debug|info|warning|error) +(.+?): (.+)")


def logged(site: Site, path: str = LOG) -> list[tuple[str, str]]:
    """The lines of the log: level and text."""
    lines = site.machine.text(path).splitlines()
    assert lines[0] == HEADER.decode().strip()
    found = [LINE.fullmatch(line) for line in lines[1:]]
    assert all(found), lines
    return [(match[1], match[3]) for match in found if match]


def texts(site: Site, path: str = LOG) -> str:
    return "\n".join(text for _level, text in logged(site, path))


def test_a_join_leaves_its_steps_and_changes_with_outcome_and_duration(site: Site) -> None:
    with held(site.machine.host, "x", "aks-flex-node join"):
        site.join()
    assert ": aks-flex-node join: " in site.machine.text(LOG).replace("info    ", ": ")
    log = texts(site)
    assert re.match(r"begins \(version \S+, process \d+\)", log)
    for step in (
        r"done     fetch .*kubelet 1\.34\.4.* \(0\.0 s\)",
        r"done     apply \d+ changes \(0\.0 s\)",
        r"done     start containerd\.service, kubelet\.service \(0\.0 s\)",
        r"done     waiting for .* \(\d\.\d s\)",
        r"done     create /etc/default/kubelet$",
        r"joined \(after \d\.\d s\)$",
    ):
        assert re.search(step, log, re.MULTILINE), step
    assert TOKEN not in log
    seen = site.machine.host.stat(LOG)
    assert (seen.mode, site.machine.host.stat("/var/log/aks-flex-node").mode) == (0o640, 0o750)


def test_a_run_that_finds_nothing_to_do_writes_nothing(site: Site) -> None:
    site.join()
    before = site.machine.snapshot("/var/log")
    site.join()
    assert site.machine.snapshot("/var/log") == before
    site.join({"agent": {"logLevel": "debug"}})
    assert logged(site)[-1][1].startswith("nothing to do")


def test_a_failed_update_says_what_was_done_and_why_it_was_rolled_back(site: Site) -> None:
    site.join()
    exits_from_now_on(site)
    with pytest.raises(FlexNodeError):
        site.join(MORE, SHORT)
    lines = logged(site)
    errors = [text for level, text in lines if level == "error"]
    assert errors[-1].startswith("failed: FLEX-1501")
    assert "the update failed and was rolled back; the Node is Ready" in errors[-1]
    assert ("info", "done     update /etc/default/kubeletconfig.json") in lines
    steps = [(level, re.sub(r" \(\d.*", "", text)) for level, text in lines]
    waited = [text for text in steps if "waiting for" in text[1]]
    assert waited[-2:] == [
        ("error", "failed   waiting for active units, Node Ready"),
        ("info", "done     waiting for Node Ready with the earlier configuration"),
    ]
    assert ("info", "done     check failed: rolling back to the earlier configuration") in steps


def test_a_node_that_is_not_ready_with_its_earlier_configuration_either(site: Site) -> None:
    site.join()
    exits_from_now_on(site)

    def breaks(sentence: str) -> None:
        if "with the earlier configuration" in sentence:
            site.api.nodes["edge-1"] = a_node(ready=False)

    with pytest.raises(FlexNodeError) as caught:
        site.join(MORE, SHORT, progress=breaks)
    assert "not Ready with its earlier configuration either" in caught.value.outcome
    steps = [text for level, text in logged(site) if level == "error" and "waiting for" in text]
    assert [re.sub(r" \([\d.]+ s\)", "", step) for step in steps[-2:]] == [
        "failed   waiting for active units, Node Ready: see the end of this run",
        "failed   waiting for Node Ready with the earlier configuration: "
        "FLEX-1502: Node edge-1 is not Ready after 120 s",
    ]


def test_changes_that_were_not_reached_are_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.join()
    write = type(site.machine.host).write

    def full(self: object, path: str, *arguments: object, **options: object) -> None:
        if path == "/etc/default/kubeletconfig.json":
            raise FlexNodeError("the disk is full")
        write(self, path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(type(site.machine.host), "write", full)
    with pytest.raises(FlexNodeError):
        site.join(MORE, {"node": {"kubelet": {"verbosity": 4, "nodeIP": "10.1.2.3"}}})
    assert ("error", "failed   update /etc/default/kubeletconfig.json") in logged(site)
    assert ("info", "skipped  update /etc/default/kubelet") in logged(site)
    assert logged(site)[-1][1].startswith("failed: FLEX-1000: the disk is full")


@pytest.mark.parametrize(("level", "levels"), [("error", set()), ("warning", set()), ("info", {"info"})])
def test_the_level(site: Site, level: str, levels: set[str]) -> None:
    site.join({"agent": {"logLevel": level}})
    assert {name for name, _text in logged(site)} == levels
    exits_from_now_on(site)
    with pytest.raises(FlexNodeError):
        site.join({"agent": {"logLevel": level}}, MORE, SHORT)
    assert {name for name, _text in logged(site)} == {*levels, "error"}


def test_no_secret_is_logged_even_if_an_error_quotes_one(site: Site) -> None:
    site.join()

    def fails() -> None:
        raise FlexNodeError("x", why=f"token {TOKEN}\nis bad")

    site.machine.commands.on_start[KUBELET] = fails
    with pytest.raises(FlexNodeError):
        site.join(MORE)
    assert TOKEN not in site.machine.text(LOG)
    assert "token <secret> / is bad" in texts(site)


def test_the_directory_and_the_file_are_where_they_are_configured(site: Site) -> None:
    site.join({"agent": {"logFile": "/srv/logs/flex/node.log"}})
    assert "joined" in texts(site, "/srv/logs/flex/node.log")
    assert not site.machine.path(LOG).exists()
    site.join({"agent": {"logDir": "/srv/logs/other"}})  # it moves; what was ours at the old place is removed
    assert "updated (logDir" in texts(site, "/srv/logs/other/agent.log")
    assert not site.machine.path("/srv/logs/flex").exists()


@pytest.mark.parametrize("path", ["/var/log/x.log", "/etc/x", "/tmp/logs/x.log", "relative.log"])
def test_a_log_file_needs_a_directory_of_its_own(site: Site, path: str) -> None:
    with pytest.raises(ConfigInvalid, match=r"agent\.logFile"):
        site.join({"agent": {"logFile": path}})


def test_leaving_removes_the_log_and_what_was_there_before_is_back(site: Site) -> None:
    site.machine.put(LOG, "of the agent before us\n", 0o644)
    site.machine.put("/var/log/aks-flex-node/agent.log.1", "older\n", 0o644)
    before = site.machine.snapshot("/var/log")
    site.join()
    site.machine.host.write(LOG, HEADER + b"x" * LARGEST, 0o640)
    site.join(MORE)  # what another program rotated is not touched
    assert site.machine.text("/var/log/aks-flex-node/agent.log.1") == "older\n"
    leave(site.machine.host, drain_seconds=0)
    assert site.machine.snapshot("/var/log") == before


def test_a_leave_is_logged_until_its_log_is_removed(site: Site) -> None:
    site.join()
    site.machine.put("/etc/default/kubelet", "edited")
    with journal_of(site.machine) as lines:
        assert leave(site.machine.host, drain_seconds=0).remains
    assert not site.machine.path("/var/log/aks-flex-node").exists()
    sent = "\n".join(lines())
    for step in (
        "done     stop kubelet",
        "removed  link:/usr/local/bin/kubelet",
        "left     file:/etc/default/kubelet",
    ):
        assert step in sent


def test_rotation_keeps_a_few_files(debian: Machine) -> None:
    host = debian.host
    host.make_directories("/var/log/x")
    LogFile("/var/log/x/agent.log").apply(host)
    for number in range(FILES + 3):
        host.append("/var/log/x/agent.log", f"{number}".encode() + b"." * LARGEST)
        rotate(host, "/var/log/x/agent.log")
    names = host.names("/var/log/x")
    assert names == ("agent.log", *(f"agent.log.{number}" for number in range(1, FILES)))
    assert debian.text("/var/log/x/agent.log") == HEADER.decode()
    newest = debian.text("/var/log/x/agent.log.1")
    assert newest.startswith(f"{HEADER.decode()}{FILES + 2}.")
    LogFile.restore(host, "/var/log/x/agent.log", {"is": "absent"}, debian.store.journal)
    assert host.names("/var/log/x") == ()


def test_a_run_that_fails_before_its_first_step_is_logged_on_a_node(site: Site, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"nodes": 1}')
    assert main(["join", "--config", str(bad)], site.machine.host) == 1  # not a node yet: nothing to log to
    assert not site.machine.path("/var/log/aks-flex-node").exists()
    site.join()
    assert main(["update", "--config", str(bad)], site.machine.host) == 1
    level, text = logged(site)[-1]
    assert level == "error"
    assert text.startswith("failed: FLEX-1101: 6 problems in the configuration: / ")
    assert len([level for level, _text in logged(site) if level == "error"]) == 1


def test_text_that_is_no_utf8_is_logged(site: Site) -> None:
    """An error quotes a file name, for example."""
    site.join()
    error = FlexNodeError("a file can't be read", where="/etc/\udcff.conf")
    note_failure(site.machine.host, site.machine.store.journal, error, "test")
    assert r"/etc/\udcff.conf" in texts(site)


class journal_of:
    """A journald that notes what it gets."""

    def __init__(self, machine: Machine) -> None:
        self.place = machine.path("/run/systemd/journal/socket")
        self.place.parent.mkdir(parents=True, exist_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.found: list[str] = []

    def __enter__(self) -> journal_of:
        self.socket.bind(str(self.place))
        threading.Thread(target=self.read, daemon=True).start()
        return self

    def read(self) -> None:
        while (line := self.socket.recv(65536).decode()) != "end":
            self.found.append(line)

    def __call__(self) -> list[str]:
        deadline = time.monotonic() + 5
        while select.select([self.socket], [], [], 0.05)[0] and time.monotonic() < deadline:
            pass
        return list(self.found)

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", str(self.place))
        self.place.unlink()


def test_the_journal_gets_each_line_with_its_level(site: Site) -> None:
    site.join()
    with journal_of(site.machine) as lines:
        site.join()
        assert lines() == [], "nothing was done"
        site.join({"node": {"labels": {"site": "lab-2"}}})  # at the API server only
        sent = lines()
    assert all(line.startswith("SYSLOG_IDENTIFIER=aks-flex-node\nPRIORITY=6\nMESSAGE=") for line in sent)
    assert any("label" in line for line in sent)
