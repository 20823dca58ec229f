# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Following a durable address: what is new is applied, what is wrong is told, and nothing else is touched."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import held
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.record import Stage
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import (
    DATA_DIR,
    Phase,
    Store,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.rollback import RESTORE
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    Blocked,
    ConfigInvalid,
    DiskFull,
    NotAvailable,
    ReadOnlyTarget,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow import following
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.clock import stamp
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import COMMAND
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.gates import NodeReady
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
    stored_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import Unforeseen
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored, Url
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.faults.dying import DyingHost, Watch
from tests.unit.node.fake_api import a_node, a_pod
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, Request, Server, serving
from tests.unit.node.sites import (
    CONFIG,
    DRAINED,
    FILES,
    KUBELET,
    MORE,
    SHORT,
    TOKEN,
    Killed,
    Site,
    a_site,
    distrusted,
    exits_from_now_on,
    killed_at,
)

TIMER = "aks-flex-node-poll.timer"
UNITS = "/etc/systemd/system"
UNIT_FILES = tuple(
    f"{UNITS}/aks-flex-node-{name}" for name in ("apply.service", "poll.service", "poll.timer")
)
WANTED = f"{UNITS}/timers.target.wants/{TIMER}"
FOLLOWED = {"continuousMonitoring": True}
PLACES = ("/etc", "/opt", "/usr", "/var", "/proc")
Captured = pytest.CaptureFixture[str]


@dataclass
class Blob:
    """What stands at the address: a document and its number, or whatever a test puts there."""

    document: dict[str, Any]
    version: int = 17
    answer: Answer | None = None
    etags: bool = True
    server: Server = field(default_factory=lambda: Server(""))

    def get(self, request: Request) -> Answer:
        if self.answer is not None:
            return self.answer
        body = json.dumps({"config": self.document, "configVersion": str(self.version)}).encode()
        etag = f'"{hash(body)}"'
        if self.etags and request.headers.get("If-None-Match") == etag:
            return Answer(status=304)
        return Answer(body, 200, {"ETag": etag} if self.etags else {})

    def publish(self, *changes: dict[str, Any]) -> None:
        """A new document, with a new number."""
        for change in changes:
            self.document = merge(self.document, change)
        self.version += 1

    @property
    def url(self) -> str:
        return f"{self.server.url}/flexnode-edge-1/config.json?sig=s3cret"


@dataclass
class Followed:
    """A machine that follows an address."""

    site: Site
    blob: Blob
    pki: Pki

    @property
    def machine(self) -> Machine:
        return self.site.machine

    def source(self) -> Url:
        client = HttpClient(ca_pem=self.pki.ca_pem, clock=self.machine.clock)
        return Url(self.blob.url, client, self.pki.ca_pem)

    def join(self, overrides: dict[str, Any] | None = None, **options: Any) -> None:
        store_config(self.machine.host, self.source(), overrides or {}, durable=True, **options)
        reconcile(stored_config(self.machine.host), EVERYTHING)

    def poll(self, *arguments: str) -> int:
        return main(["poll", *arguments], self.machine.host)

    def followed(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.text(f"{DATA_DIR}/source.json"))
        return found

    def trouble(self) -> dict[str, Any]:
        return self.machine.store.monitoring()


@pytest.fixture
def node(debian: Machine, pki: Pki) -> Iterator[Followed]:
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    debian.commands.processes = True
    with a_site(debian, pki) as site:
        blob = Blob(merge(site.document, FOLLOWED))
        with serving(blob.get, pki.server_context()) as server:
            blob.server = server
            yield Followed(site, blob, pki)


@pytest.fixture
def joined(node: Followed) -> Followed:
    node.join()
    node.blob.server.requests.clear()
    node.machine.clock.naps.clear()
    return node


# -- a run that failed while the line was cut ---------------------------------------------------------------


def failed_while_cut_off(on: Followed) -> None:
    """An administrator's update fails because the API server does not answer; nothing is to be completed."""
    on.site.api.refuse["GET /api"] = 503
    assert main(["update"], on.machine.host) == 1
    assert on.machine.store.state()["phase"] == Phase.NODE_FAILED.value
    assert not on.machine.store.is_unfinished


def test_a_node_that_failed_while_the_line_was_cut_is_joined_again(joined: Followed) -> None:
    failed_while_cut_off(joined)
    assert joined.poll() == 0
    assert joined.machine.store.state()["phase"] == Phase.NODE_FAILED.value, "nobody has seen its Node"
    joined.site.api.refuse.clear()
    joined.machine.clock.time += 60
    assert joined.poll() == 0
    assert joined.machine.store.state()["phase"] == Phase.NODE_JOINED.value
    status = json.loads(joined.machine.text(f"{DATA_DIR}/status.json"))
    assert (status["phase"], status["reason"]) == ("NodeJoined", "NodeJoined")


def test_a_node_that_failed_and_is_not_ready_stays_failed(joined: Followed) -> None:
    failed_while_cut_off(joined)
    joined.site.api.refuse.clear()
    joined.site.api.nodes["edge-1"]["status"]["conditions"] = a_node(ready=False)["status"]["conditions"]
    joined.machine.clock.time += 60
    assert joined.poll() == 0
    assert joined.machine.store.state()["phase"] == Phase.NODE_FAILED.value


# -- the address is remembered, and the timer is there -----------------------------------------------------


def test_a_durable_address_is_remembered_for_root_alone(joined: Followed) -> None:
    followed = joined.followed()
    assert (followed["url"], followed["ca"]) == (joined.blob.url, joined.pki.ca_pem)
    assert (followed["configVersion"], followed["settled"]) == ("17", True)
    assert followed["etag"].startswith('"')
    assert joined.machine.host.stat(f"{DATA_DIR}/source.json").mode == 0o600


def test_the_timer_starts_last_and_a_second_run_changes_nothing(joined: Followed) -> None:
    assert all(joined.machine.path(path).exists() for path in UNIT_FILES)
    assert joined.machine.path(WANTED).readlink() == Path(f"{UNITS}/{TIMER}")
    restarts = [call for call in joined.machine.commands.changing() if call[:2] == ("systemctl", "restart")]
    assert restarts == [
        ("systemctl", "restart", "containerd.service", KUBELET),
        ("systemctl", "restart", TIMER),
    ]
    before = joined.machine.snapshot("/")
    joined.join()
    assert joined.machine.snapshot("/") == before


def test_without_a_node_there_is_no_timer(node: Followed) -> None:
    node.machine.commands.on_start.clear()
    node.blob.publish({"upgrade": {"gateSeconds": 10}})
    with pytest.raises(Exception, match="not Ready"):
        node.join()
    assert TIMER not in node.machine.commands.units


def test_switched_off_it_is_gone(joined: Followed) -> None:
    joined.blob.publish({"continuousMonitoring": None})
    assert joined.poll() == 0
    assert not any(joined.machine.path(path).exists() for path in (*UNIT_FILES, WANTED))
    assert joined.machine.commands.units[TIMER] == "inactive"
    assert not reconcile(stored_config(joined.machine.host), EVERYTHING).changed


def test_monitoring_needs_an_address_that_lasts(node: Followed) -> None:
    host = node.machine.host
    for source in (node.source(), Inline(node.blob.document)):
        with pytest.raises(ConfigInvalid, match="--durable"):
            store_config(host, source, {})
    identity = {"azure": {"tenantId": "87654321-4321-4321-4321-cba987654321", "managedIdentity": {}}}
    with pytest.raises(NotAvailable) as caught:
        store_config(host, Inline(merge(node.blob.document, identity)), {})
    assert "--durable" in caught.value.fix
    assert not node.machine.path(DATA_DIR).exists()


def test_another_source_ends_it_and_the_stored_document_does_not(joined: Followed) -> None:
    host = joined.machine.host
    store_config(host, Stored(joined.machine.store), {"node": {"maxPods": 50}})
    assert joined.followed()["over"] == {"node": {"maxPods": 50}}
    store_config(host, Inline(joined.site.document), {})
    assert not joined.machine.path(f"{DATA_DIR}/source.json").exists()
    assert joined.poll() == 1


def test_leaving_forgets_the_address(joined: Followed) -> None:
    leave(joined.machine.host)
    assert not joined.machine.path(DATA_DIR).exists()
    assert not any(joined.machine.path(path).exists() for path in (*UNIT_FILES, WANTED))
    assert joined.machine.commands.units[TIMER] == "inactive"


def test_check_mode_remembers_nothing(node: Followed) -> None:
    before = node.machine.snapshot("/")
    public = store_config(node.machine.host, node.source(), {}, durable=True, check=True).public
    assert reconcile(stored_config(node.machine.host, public, pollable=True), EVERYTHING, check=True).changed
    assert node.machine.snapshot("/") == before


# -- a look ------------------------------------------------------------------------------------------------


def test_nothing_new_is_one_conditional_request_and_no_write(joined: Followed, capsys: Captured) -> None:
    before, calls = joined.machine.snapshot("/"), list(joined.machine.commands.calls)
    assert joined.poll() == 0
    (request,) = joined.blob.server.requests
    assert request.headers["If-None-Match"] == joined.followed()["etag"]
    assert capsys.readouterr().out == "nothing new\n"
    assert joined.machine.snapshot("/") == before
    assert joined.machine.commands.calls == calls


def test_a_server_without_etags(node: Followed) -> None:
    node.blob.etags = False
    node.join()
    before = node.machine.snapshot("/")
    assert node.poll() == 0
    assert node.machine.snapshot("/") == before
    node.blob.publish({"node": {"maxPods": 50}})
    assert node.poll() == 0
    assert '"maxPods": 50' in node.machine.text("/etc/default/kubeletconfig.json")


def test_a_new_document_is_applied_whole(joined: Followed, capsys: Captured) -> None:
    joined.blob.publish({"node": {"maxPods": 50, "labels": {"site": "lab-2"}}})
    assert joined.poll() == 0
    assert '"maxPods": 50' in joined.machine.text("/etc/default/kubeletconfig.json")
    assert joined.site.api.nodes["edge-1"]["metadata"]["labels"]["site"] == "lab-2"
    assert "configuration 18 is applied" in capsys.readouterr().out
    assert joined.machine.store.config_version() == "18"
    assert (joined.followed()["configVersion"], joined.trouble()) == ("18", {})
    before = joined.machine.snapshot("/")
    assert joined.poll() == 0
    assert joined.machine.snapshot("/") == before


def test_explicit_settings_stay_over_what_the_address_gives(node: Followed) -> None:
    node.join({"node": {"maxPods": 33}})
    node.blob.publish({"node": {"maxPods": 50, "labels": {"rack": "7"}}})
    assert node.poll() == 0
    assert '"maxPods": 33' in node.machine.text("/etc/default/kubeletconfig.json")
    assert node.site.api.nodes["edge-1"]["metadata"]["labels"]["rack"] == "7"


def test_a_secret_that_the_node_has_need_not_be_published(joined: Followed) -> None:
    joined.blob.publish({"azure": {"bootstrapToken": {"token": REDACTED}}, "node": {"maxPods": 50}})
    assert joined.poll() == 0
    assert (joined.machine.store.current_config() or {})["azure"]["bootstrapToken"]["token"] == TOKEN


def test_the_timers_look_hands_over_and_changes_nothing(joined: Followed, capsys: Captured) -> None:
    assert joined.poll("--hand-over") == 0
    joined.blob.publish({"node": {"maxPods": 50}})
    before = joined.machine.snapshot("/")
    assert joined.poll("--hand-over") == 0
    assert joined.machine.snapshot("/") == before
    assert joined.machine.commands.calls[-1] == (
        "systemctl",
        "start",
        "--no-block",
        "aks-flex-node-apply.service",
    )


def test_while_someone_else_is_at_work_a_look_waits_for_the_next_one(
    joined: Followed, capsys: Captured
) -> None:
    joined.blob.publish({"node": {"maxPods": 50}})
    with held(joined.machine.host, "other", "Ansible"):
        before = joined.machine.snapshot("/var", "/etc")
        assert joined.poll() == 0
        assert joined.machine.snapshot("/var", "/etc") == before
    assert "Ansible" in capsys.readouterr().out
    assert joined.machine.clock.naps == []
    assert joined.poll() == 0
    assert joined.followed()["configVersion"] == "18"


def test_a_run_that_was_cut_off_is_completed_by_a_look(joined: Followed) -> None:
    """The document was stored, and the machine went down before it was applied."""
    joined.blob.publish({"node": {"maxPods": 50}})
    store_config(joined.machine.host, joined.source(), {}, durable=True)
    assert joined.poll() == 0
    assert '"maxPods": 50' in joined.machine.text("/etc/default/kubeletconfig.json")
    assert joined.followed()["settled"]


@pytest.mark.parametrize("status", [304, 503])
def test_what_was_pushed_during_a_look_is_not_overwritten(joined: Followed, status: int) -> None:
    """304 ends an earlier trouble, 503 is a new one: both would write."""
    store = joined.machine.store
    if status == 304:
        store.set_monitoring({"ok": False, "code": "FLEX-1103", "message": "away", "since": ""})
    pushed = {**joined.followed(), "url": "https://elsewhere.example/x"}
    before = joined.trouble()

    def meanwhile(_: Request) -> Answer:
        store.set_source(pushed)
        return Answer(status=status)

    with serving(meanwhile, joined.pki.server_context()) as server:
        store.set_source({**joined.followed(), "url": server.url})
        assert joined.poll() == 0
    assert joined.followed() == pushed
    assert joined.trouble() == before


@pytest.mark.parametrize("status", [429, 503])
def test_a_machine_that_left_during_a_look_stays_as_it_was_left(joined: Followed, status: int) -> None:
    def meanwhile(_: Request) -> Answer:
        leave(joined.machine.host)
        return Answer(status=status, headers={"Retry-After": "120"} if status == 429 else {})

    with serving(meanwhile, joined.pki.server_context()) as server:
        joined.machine.store.set_source({**joined.followed(), "url": server.url})
        assert joined.poll() == 0
    assert not joined.machine.path(DATA_DIR).exists()


@pytest.mark.parametrize("hand_over", [False, True])
def test_a_damaged_document_is_healed_from_the_address(joined: Followed, hand_over: bool) -> None:
    whole = joined.machine.text(f"{DATA_DIR}/current-config.json")
    joined.machine.put(f"{DATA_DIR}/current-config.json", whole[:100], 0o600)
    if hand_over:
        assert joined.poll("--hand-over") == 0
        assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0
    assert all("If-None-Match" not in request.headers for request in joined.blob.server.requests)
    assert joined.machine.text(f"{DATA_DIR}/current-config.json") == whole
    assert (joined.followed()["settled"], joined.trouble()) == (True, {})
    before = joined.machine.snapshot("/")
    assert joined.poll() == 0
    assert joined.machine.snapshot("/") == before


def test_a_damaged_document_and_a_new_one_that_is_refused(joined: Followed) -> None:
    joined.machine.put(f"{DATA_DIR}/current-config.json", "{", 0o600)
    joined.blob.publish({"node": {"maxPods": -1}})
    assert joined.poll() == 3
    assert joined.machine.store.current_config() == joined.machine.store.applied_config()


def test_a_damaged_document_beside_one_that_was_refused_before(joined: Followed) -> None:
    joined.blob.publish({"node": {"maxPods": -1}})
    assert joined.poll() == 3
    joined.machine.put(f"{DATA_DIR}/current-config.json", "{", 0o600)
    assert joined.poll() == 3
    assert joined.machine.store.current_config() == joined.machine.store.applied_config()
    before = joined.machine.snapshot("/")
    assert joined.poll() == 0
    assert joined.machine.snapshot("/") == before


def test_a_document_that_is_gone_is_fetched_again(joined: Followed) -> None:
    joined.machine.path(f"{DATA_DIR}/current-config.json").unlink()
    assert joined.poll() == 0
    assert joined.machine.store.current_config() == joined.machine.store.applied_config()


def test_another_name_for_the_node_is_not_followed(joined: Followed) -> None:
    joined.blob.publish({"agent": {"nodeName": "edge-2"}})
    assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1101"
    assert "nodeName" not in joined.machine.text(f"{DATA_DIR}/current-config.json")


def test_a_machine_that_follows_nothing_says_so(debian: Machine, capsys: Captured) -> None:
    assert main(["poll"], debian.host) == 1
    assert "FLEX-1104" in capsys.readouterr().err


# -- trouble with the address ------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403, 404, 410, 500, 503])
def test_an_address_that_does_not_answer_changes_nothing_and_is_told_once(
    joined: Followed, status: int, capsys: Captured
) -> None:
    joined.blob.answer = Answer(b"<html>", status)
    before, calls = joined.machine.snapshot("/etc", "/opt", "/usr"), joined.machine.commands.changing()
    assert joined.poll() == 0
    assert f"HTTP {status}" in capsys.readouterr().out
    trouble = joined.trouble()
    assert (trouble["ok"], trouble["code"]) == (False, "FLEX-1103")
    assert trouble["since"] == stamp(joined.machine.clock)
    assert "s3cret" not in trouble["message"]
    assert joined.machine.snapshot("/etc", "/opt", "/usr") == before
    assert joined.machine.commands.changing() == calls
    joined.machine.clock.time += 60
    written = joined.machine.snapshot("/var")
    assert joined.poll() == 0
    assert joined.machine.snapshot("/var") == written
    assert capsys.readouterr().out == ""
    joined.blob.answer = None
    assert joined.poll() == 0
    assert joined.trouble() == {}


def test_a_server_that_is_away_or_not_trusted(joined: Followed, tmp_path: Path) -> None:
    joined.machine.store.set_source({**joined.followed(), "ca": ""})
    assert joined.poll() == 0
    assert "not trusted" in joined.trouble()["message"]
    joined.machine.store.set_source({**joined.followed(), "url": "https://127.0.0.1:1/x"})
    assert joined.poll() == 0
    assert "refused" in joined.trouble()["message"]


def test_a_directory_of_cas_that_was_not_kept_up_to_date_is_no_reason_to_distrust(
    joined: Followed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "all.pem").write_text(joined.pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "empty"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "all.pem"))
    joined.machine.store.set_source({**joined.followed(), "ca": ""})
    assert joined.poll() == 0
    assert joined.trouble() == {}


@pytest.mark.parametrize("asked", ["120", "Wed, 21 Oct 2026 07:30:00 GMT"])
def test_a_server_that_wants_to_be_left_alone_is(joined: Followed, capsys: Captured, asked: str) -> None:
    headers = {"Retry-After": asked, "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
    joined.blob.answer = Answer(status=429, headers=headers)
    assert joined.poll() == 0
    joined.blob.answer = None
    asked = len(joined.blob.server.requests)
    joined.machine.clock.time += 119
    assert joined.poll() == 0
    assert "asked to wait another 1 s" in capsys.readouterr().out
    assert len(joined.blob.server.requests) == asked
    joined.machine.clock.time += 2
    assert joined.poll() == 0
    assert (len(joined.blob.server.requests), joined.trouble()) == (asked + 1, {})


def test_a_clock_that_was_set_back_does_not_stop_the_looking(joined: Followed) -> None:
    joined.blob.answer = Answer(status=503, headers={"Retry-After": "120"})
    joined.poll()
    joined.blob.answer = None
    joined.machine.clock.time -= 86400 * 365
    joined.poll()
    assert joined.trouble() == {}


def test_a_clock_that_was_set_back_does_not_stop_retries(joined: Followed) -> None:
    """The clock showed 2038 when a document failed for a passing reason."""
    right = joined.machine.clock.time
    joined.machine.clock.time = 2_145_916_800.0
    joined.blob.publish(
        {"mirror": {"url": "https://127.0.0.1:1"}, "runc": {"version": "1.4.4", "sha256": "ab" * 32}}
    )
    assert joined.poll() == 3
    assert joined.poll() == 0  # a pause
    joined.machine.clock.time = right
    assert joined.poll() == 3
    assert joined.followed()["blocked"]["retryAt"] < right + 3600


# -- documents that are not followed -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "change", "code"),
    [
        (Answer(b"<html>hello"), {}, "FLEX-1102"),
        (None, {"node": {"maxPods": 0}}, "FLEX-1101"),
        (None, {"nodes": {}}, "FLEX-1101"),
        (None, {"hooks": {"before": ["/srv/before.yml"]}}, "FLEX-1105"),
        (None, {"kubernetes": {"version": "1.99.0"}}, "FLEX-1204"),
    ],
)
def test_a_bad_document_is_refused_told_and_the_old_one_stays(
    joined: Followed, answer: Answer | None, change: dict[str, Any], code: str, capsys: Captured
) -> None:
    before, config = joined.machine.snapshot("/etc", "/opt", "/usr"), joined.machine.store.current_config()
    joined.blob.publish(change)
    joined.blob.answer = answer
    assert joined.poll() == 3
    assert code in capsys.readouterr().out
    assert (joined.trouble()["ok"], joined.trouble()["code"]) == (False, code)
    assert joined.machine.snapshot("/etc", "/opt", "/usr") == before
    assert joined.machine.store.current_config() == config
    assert joined.machine.store.config_version() == "17"
    status = status_of(joined.machine.host)
    assert status["monitoring"]["status"] == "Blocked"
    written = joined.machine.snapshot("/var")
    for _ in range(3):  # it is not tried again, and stays told
        assert joined.poll() == 0
    assert joined.machine.snapshot("/var") == written
    joined.blob.answer = None
    joined.blob.publish({"nodes": None, "hooks": None, "kubernetes": {"version": "1.34.4"}})
    joined.blob.publish({"node": {"maxPods": 50}})
    assert joined.poll() == 0
    assert (joined.trouble(), joined.followed()["blocked"]) == ({}, None)


def test_an_update_that_does_not_work_is_rolled_back_and_blocked(joined: Followed, capsys: Captured) -> None:
    before = joined.machine.snapshot("/etc", "/usr")
    node, bearable = joined.site.api.nodes["edge-1"], False

    def kubelet_starts() -> None:
        works = bearable or '"maxPods": 50' not in joined.machine.text("/etc/default/kubeletconfig.json")
        node["status"]["conditions"] = a_node(ready=works)["status"]["conditions"]

    joined.machine.commands.on_start[KUBELET] = kubelet_starts
    joined.blob.publish({"node": {"maxPods": 50}, "upgrade": {"gateSeconds": 10}})
    assert joined.poll() == 3
    assert joined.machine.snapshot("/etc", "/usr") == before
    restarts = joined.machine.commands.times("systemctl", "restart")
    for _ in range(3):
        assert joined.poll() == 0
    assert joined.machine.commands.times("systemctl", "restart") == restarts
    assert joined.followed()["blocked"]["configVersion"] == "18"
    status = status_of(joined.machine.host)
    assert status["drift"] == []  # the document went back with the machine
    assert status["monitoring"]["blockedVersion"] == "18"
    assert main(["status"], joined.machine.host) == 3
    words = capsys.readouterr().out
    assert "config polling  Blocked  version 18, FLEX-1502 since" in words
    assert (
        "drift           none (compared with the earlier configuration, which the rollback restored)\n"
        in words
    )
    rolled_back = "the update failed and was rolled back; this machine runs its earlier configuration"
    assert (
        f"reason          FLEX-1502  {rolled_back}. With the new configuration Node edge-1 is not Ready"
        in words
    )
    assert "(settings changed by that update: node.maxPods, upgrade.gateSeconds)\n" in words
    assert (
        "fix             correct node.maxPods, upgrade.gateSeconds where the configuration comes from"
        in words
    )
    assert re.search(r"`journalctl -u kubelet.service -n 50 --until=@\d+`", words)
    bearable = True
    joined.blob.publish({"upgrade": {"gateSeconds": 11}})
    assert joined.poll() == 0
    assert '"maxPods": 50' in joined.machine.text("/etc/default/kubeletconfig.json")


def test_what_may_pass_is_tried_again_after_a_while_and_not_at_every_look(joined: Followed) -> None:
    newer = {"runc": {"version": "1.4.4", "sha256": "ab" * 32}}  # the mirror has another file
    joined.blob.publish(newer, {"mirror": {"url": joined.site.mirror.url + "/away"}})
    joined.blob.document["mirror"]["url"] = "https://127.0.0.1:1"
    assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1201"
    assert joined.poll() == 0
    joined.machine.clock.time += 61
    assert joined.poll() == 3
    assert joined.followed()["blocked"]["attempts"] == 2
    joined.machine.clock.time += 61
    assert joined.poll() == 0  # twice as long
    assert joined.poll() == 0


def test_a_proxys_page_instead_of_a_file_blocks_a_version_only_while_it_lasts(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page came with status 200, so that only the digest of the file says that it is wrong."""
    newer = {"runc": {"version": "1.4.4", "sha256": hashlib.sha256(b"new runc").hexdigest()}}
    joined.blob.publish(newer)
    monkeypatch.setitem(FILES, "runc", b"<html>the proxy is being restarted</html>")
    assert joined.poll() == 3
    assert (joined.trouble()["code"], joined.machine.store.refused().get("blocks")) == ("FLEX-1203", False)
    monkeypatch.setitem(FILES, "runc", b"new runc")
    assert joined.poll() == 0  # a pause
    assert joined.machine.store.config_version() == "17"
    assert later(joined) == 0
    assert (joined.trouble(), joined.followed()["blocked"]) == ({}, None)
    assert joined.machine.store.config_version() == "18"


def test_a_file_system_that_was_read_only_for_a_moment_does_not_block_a_version(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(self: File, _host: Host) -> None:
        raise ReadOnlyTarget("a file can't be written", where=self.name, why="Read-only file system")

    joined.blob.publish({"node": {"maxPods": 50}})
    with monkeypatch.context() as patched:
        patched.setattr(File, "apply", read_only)
        assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1304"
    assert later(joined) == 0
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


def test_a_cut_line_in_the_middle_holds_and_is_completed_later(joined: Followed) -> None:
    """The files are the new ones, nothing is rolled back: so the new document stays as well."""
    joined.site.api.refuse["GET /api"] = 503
    joined.blob.publish({"node": {"maxPods": 50}, "upgrade": {"gateSeconds": 10}})
    assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1504"
    assert joined.machine.store.config_version() == "18"
    joined.site.api.refuse.clear()
    joined.machine.clock.time += 61
    assert joined.poll() == 0
    assert (joined.trouble(), joined.followed()["blocked"]) == ({}, None)
    assert joined.machine.store.state()["phase"] == "NodeJoined"


@pytest.mark.parametrize(
    ("verify_code", "why"), [(9, "certificate is not yet valid"), (19, "self-signed certificate in chain")]
)
@pytest.mark.parametrize("killed", [True, False])
def test_a_certificate_that_is_not_trusted_for_a_while_holds(
    joined: Followed, monkeypatch: pytest.MonkeyPatch, verify_code: int, why: str, killed: bool
) -> None:
    """A power cut in an update, and a boot before NTP has set the clock; or a captive portal at the gate."""
    joined.blob.publish(MORE, SHORT)
    if killed:
        with killed_at(monkeypatch, NodeReady, "pass_"):
            joined.poll()
    with distrusted(joined.site, monkeypatch, verify_code, why):
        assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1504"
    assert why in joined.trouble()["message"]
    assert '"maxPods": 50' in joined.machine.text(CONFIG), "held, not rolled back"
    assert later(joined) == 0
    assert (joined.trouble(), joined.followed()["blocked"]) == ({}, None)
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


def test_another_ca_that_is_wrong_is_rolled_back(joined: Followed, tmp_path: Path) -> None:
    """The change altered the CA: that it does not work is its own fault."""
    wrong = b64encode(Pki.make(tmp_path).ca_pem.encode()).decode()
    joined.blob.publish({"node": {"kubelet": {"caCertData": wrong}}}, SHORT)
    assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1507"
    assert joined.machine.store.transaction() is None
    assert joined.followed()["blocked"]["retryAt"] is None


def test_a_clock_that_is_set_back_during_the_gate_rolls_nothing_back(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By NTP, by more than a gate takes: the kubelet reports by the new clock from then on."""
    clock, store = joined.machine.clock, joined.machine.store
    behind = [0.0]
    monkeypatch.setattr(clock, "now", lambda: clock.time - behind[0])

    def set_back() -> None:
        if store.transaction():
            behind[0] = 7200.0

    clock.then = set_back
    joined.site.api.now = clock.now
    joined.blob.publish({"containerd": {"metricsAddress": "127.0.0.1:1338"}})
    assert joined.poll() == 0
    assert (behind, store.transaction(), joined.followed()["blocked"]) == ([7200.0], None, None)
    assert store.config_version() == "18"


def later(joined: Followed) -> int:
    """The first look after a pause."""
    joined.machine.clock.time += 61
    return joined.poll()


def test_pods_that_did_not_leave_are_asked_again_later(joined: Followed) -> None:
    joined.site.api.pods, joined.site.api.protected = [a_pod("web")], {"web"}
    joined.blob.publish(DRAINED)
    assert joined.poll() == 3
    assert '"maxPods": 110' in joined.machine.text(CONFIG)
    joined.site.api.protected = set()
    assert later(joined) == 0
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


def test_a_rollback_on_a_full_disk_is_completed_by_a_later_look(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_host: Host, name: str, *_: object) -> list[str]:
        raise DiskFull("no space left on the disk", where=name)

    exits_from_now_on(joined.site)
    joined.blob.publish(MORE)
    with monkeypatch.context() as patched:
        patched.setitem(RESTORE, "file", full)
        assert joined.poll() == 3
    assert (joined.machine.store.transaction() or {})["stage"] == Stage.ROLLING_BACK.value
    later(joined)
    assert joined.machine.store.transaction() is None
    assert '"maxPods": 110' in joined.machine.text(CONFIG)


@pytest.mark.parametrize("answer", [None, Answer(status=503)], ids=["invalid", "away"])
def test_a_held_update_is_completed_whatever_the_address_gives_meanwhile(
    joined: Followed, answer: Answer | None
) -> None:
    """The line is back, and the Node is not Ready with what was held: it is rolled back."""
    api, starts = joined.site.api, joined.machine.commands.on_start
    starts[KUBELET] = lambda: api.refuse.update({"GET": 503})
    joined.blob.publish(MORE, SHORT)
    assert joined.poll() == 3
    assert (joined.machine.store.transaction() or {})["stage"] == Stage.PROVING.value
    api.refuse.clear()
    api.nodes["edge-1"] = a_node(ready=False)
    starts[KUBELET] = lambda: api.nodes.update({"edge-1": a_node()})
    joined.blob.publish({"node": {"maxPods": -1}})
    joined.blob.answer = answer
    later(joined)
    assert joined.machine.store.transaction() is None
    assert '"maxPods": 110' in joined.machine.text(CONFIG)


def test_a_rollback_that_was_killed_goes_back_to_the_address_too(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was pushed had no address to follow, and did not work."""
    store = joined.machine.store
    put = Store.set_source

    def dies(self: Store, source: dict[str, Any] | None) -> None:
        if (self.transaction() or {}).get("stage") == Stage.ROLLING_BACK.value:
            raise Killed
        put(self, source)

    exits_from_now_on(joined.site)
    with monkeypatch.context() as patched:
        patched.setattr(Store, "set_source", dies)
        with pytest.raises(Killed):
            joined.site.join(MORE)
    assert store.source() is None
    with pytest.raises(Blocked):
        joined.site.join(MORE)
    assert store.transaction() is None
    assert store.current_config() == store.applied_config()
    assert store.source() is not None


# -- odd bytes, and records that are damaged ---------------------------------------------------------------


def test_an_unexpected_failure_is_one_of_that_document_and_is_tried_again_less_and_less_often(
    joined: Followed, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def fails(*_arguments: Any, **_options: Any) -> None:
        raise KeyError(f"no such thing as {TOKEN}")

    joined.blob.publish(MORE)
    with monkeypatch.context() as patched:
        patched.setattr(following, "reconcile", fails)
        assert joined.poll() == 3
        said = capsys.readouterr().out
        assert "Traceback" in said, "whoever corrects it needs the place"
        assert TOKEN not in said
        assert joined.trouble()["code"] == Unforeseen.code
        assert "KeyError: 'no such thing as <secret>'" in joined.trouble()["message"]
        status = json.loads(joined.machine.text(f"{DATA_DIR}/status.json"))
        assert (status["reason"], TOKEN in json.dumps(status)) == (Unforeseen.code, False)
        assert joined.poll() == 0, "not at every poll"
        joined.machine.clock.time += 61
        assert joined.poll() == 3
        assert joined.followed()["blocked"]["attempts"] == 2
    joined.machine.clock.time += 121
    assert joined.poll() == 0
    assert joined.trouble() == {}


def test_an_interrupted_change_that_can_not_be_completed_for_an_unexpected_reason(
    joined: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined.machine.store.begin({"stage": "applying"})
    with monkeypatch.context() as patched:
        patched.setattr(following, "reconcile", lambda *_, **__: [][0])
        assert joined.poll() == 3
        assert (joined.trouble()["code"], joined.poll()) == (Unforeseen.code, 0)
    joined.machine.clock.time += 61
    assert joined.poll() == 0
    assert joined.trouble() == {}


@pytest.mark.parametrize("url", ["https://.plant.example", "https://plant..example:443"])
def test_a_server_that_no_host_can_be_is_refused_and_the_polls_go_on(joined: Followed, url: str) -> None:
    joined.blob.publish({"node": {"kubelet": {"serverURL": url}}})
    assert joined.poll() == 3
    assert joined.trouble()["code"] == "FLEX-1101"
    assert joined.poll() == 0


def test_half_a_character_is_refused_and_the_polls_go_on(joined: Followed) -> None:
    joined.blob.publish({"containerd": {"pauseImage": "reg/\ud800:1"}})
    assert joined.poll() == 3
    assert (joined.trouble()["code"], joined.followed()["blocked"]["retryAt"]) == ("FLEX-1102", None)
    assert r"\ud800 is half of a character" in joined.machine.text("/var/log/aks-flex-node/agent.log")
    assert joined.poll() == 0
    joined.blob.publish({"containerd": {"pauseImage": "reg/pause:1"}})
    assert joined.poll() == 0
    assert joined.trouble() == {}


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema": 1}', None])
def test_a_lost_state_is_that_of_the_applied_document(
    joined: Followed, content: str | None, capsys: Captured
) -> None:
    machine = joined.machine
    before = machine.store.state()
    if content is None:
        machine.path(f"{DATA_DIR}/state.json").unlink()
    else:
        machine.put(f"{DATA_DIR}/state.json", content)
    machine.put("/proc/sys/kernel/hostname", "renamed-since\n")
    machine.commands(["systemctl", "stop", KUBELET], None, 1)
    assert joined.poll("--hand-over") == 0
    assert machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0
    assert "state.json was damaged or missing: it is written again" in capsys.readouterr().out
    assert machine.commands.units[KUBELET] == "active"
    after = machine.store.state()
    for name in ("phase", "drift", "facts", "versions", "appliedVersion"):
        assert after[name] == before[name], name
    assert joined.poll() == 0
    assert "state.json" not in capsys.readouterr().out


def test_a_lost_state_of_a_node_that_only_reports_drift_repairs_nothing(joined: Followed) -> None:
    joined.blob.publish({"drift": {"mode": "report"}})
    assert joined.poll() == 0
    joined.machine.put(f"{DATA_DIR}/state.json", "")
    joined.machine.commands(["systemctl", "stop", KUBELET], None, 1)
    assert joined.poll() == 0
    assert joined.machine.store.state()["drift"]["mode"] == "report"
    assert joined.machine.commands.units[KUBELET] == "inactive"


def test_a_lost_state_without_an_applied_document_is_an_error(joined: Followed) -> None:
    for name in ("state", "applied-config"):
        joined.machine.put(f"{DATA_DIR}/{name}.json", "")
    assert joined.poll() == 1


def test_a_status_without_its_part_on_polling_is_written_again(joined: Followed) -> None:
    joined.machine.put(f"{DATA_DIR}/status.json", "{}")
    assert joined.poll() == 0
    joined.blob.answer = Answer(status=503)
    assert joined.poll() == 0
    assert json.loads(joined.machine.text(f"{DATA_DIR}/status.json"))["monitoring"]["code"] == "FLEX-1103"


DAMAGED = pytest.mark.parametrize("damage", ["", "{"])


@DAMAGED
def test_a_damaged_record_of_the_address_is_reported_once_and_the_node_is_kept_right(
    joined: Followed, damage: str, capsys: Captured
) -> None:
    machine = joined.machine
    machine.put(f"{DATA_DIR}/source.json", damage)
    machine.commands(["systemctl", "stop", KUBELET], None, 1)
    assert joined.poll("--hand-over") == 0
    said = capsys.readouterr().out
    assert "FLEX-1402" in said
    assert "`aks-flex-node join` with the same options as before" in said
    assert machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0
    assert machine.commands.units[KUBELET] == "active"
    trouble = joined.trouble()
    assert (trouble["ok"], trouble["code"]) == (False, "FLEX-1402")
    written = json.loads(machine.text(f"{DATA_DIR}/status.json"))
    for status in (written, status_of(machine.host)):
        assert (status["reason"], status["monitoring"]["status"]) == ("FLEX-1402", "Failing")
        assert f"{DATA_DIR}/source.json" in status["message"]
        assert status["fix"]
    capsys.readouterr()
    machine.clock.time += 60
    before = machine.snapshot("/var")
    assert joined.poll("--hand-over") == 0
    assert machine.snapshot("/var") == before
    assert main(["status"], machine.host) == 3  # not right
    assert main(["agent"], machine.host) == 0
    assert joined.blob.server.requests == []


@DAMAGED
def test_joining_again_writes_a_damaged_record_of_the_address_anew(joined: Followed, damage: str) -> None:
    joined.machine.put(f"{DATA_DIR}/source.json", damage)
    assert joined.poll() == 0
    assert main(["update"], joined.machine.host) == 1  # nobody knows where the stored document came from
    assert joined.machine.text(f"{DATA_DIR}/source.json") == damage
    joined.blob.publish(MORE)
    joined.join()
    assert joined.followed()["url"] == joined.blob.url
    assert joined.poll() == 0
    assert joined.trouble() == {}
    status = json.loads(joined.machine.text(f"{DATA_DIR}/status.json"))
    assert (status["reason"], status["monitoring"]["status"]) == ("NodeJoined", "Ok")


@DAMAGED
def test_a_change_that_was_interrupted_is_completed_without_the_record_of_the_address(
    joined: Followed, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined.blob.publish(MORE)
    with killed_at(monkeypatch, NodeReady, "pass_"):
        joined.poll()
    joined.machine.put(f"{DATA_DIR}/source.json", damage)
    assert joined.poll("--hand-over") == 0
    assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0
    assert not joined.machine.store.is_unfinished
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


@DAMAGED
def test_a_damaged_record_of_the_address_does_not_stop_the_way_back(
    joined: Followed, damage: str, capsys: Captured
) -> None:
    joined.machine.put(f"{DATA_DIR}/source.json", damage)
    assert main(["unbootstrap"], joined.machine.host) == 0, capsys.readouterr().err
    assert not joined.machine.path(DATA_DIR).exists()
    assert joined.site.api.nodes == {}


@DAMAGED
def test_a_leave_that_was_interrupted_goes_on_without_the_record_of_the_address(
    joined: Followed, damage: str
) -> None:
    joined.machine.store.enter(Phase.RESETTING)
    joined.machine.put(f"{DATA_DIR}/source.json", damage)
    assert joined.poll() == 0
    assert not joined.machine.path(DATA_DIR).exists()


# -- copies that are not the newest ------------------------------------------------------------------------


def copy_of(blob: Blob) -> Answer:
    """What stands at the address now, for a cache to keep."""
    return replace(blob, answer=None, etags=False).get(Request("GET", "/", {}, b""))


def breaks_with_50_pods(joined: Followed) -> None:
    """The kubelet does not get Ready with the next document."""

    def kubelet_starts() -> None:
        works = '"maxPods": 50' not in joined.machine.text(CONFIG)
        joined.site.api.nodes["edge-1"]["status"]["conditions"] = a_node(ready=works)["status"]["conditions"]

    joined.machine.commands.on_start[KUBELET] = kubelet_starts


def test_an_outdated_copy_is_nothing_new_and_is_told_once(joined: Followed, capsys: Captured) -> None:
    old = copy_of(joined.blob)
    joined.blob.publish(MORE)
    assert joined.poll() == 0
    before = joined.machine.snapshot("/etc", "/opt", "/usr")
    capsys.readouterr()
    joined.blob.answer = old
    assert joined.poll() == 0
    assert capsys.readouterr().out.startswith("configuration 17 is ignored: configuration 18 was there")
    assert (joined.machine.store.config_version(), joined.trouble()) == ("18", {})
    assert main(["status"], joined.machine.host) == 0
    assert "(version 17, which is older, was returned after it and is ignored)" in capsys.readouterr().out
    written = joined.machine.snapshot("/var")
    for answer in (None, old, old, None):
        joined.blob.answer = answer
        assert joined.poll() == 0
    assert "ignored" not in capsys.readouterr().out
    assert (joined.machine.snapshot("/etc", "/opt", "/usr"), joined.machine.snapshot("/var")) == (
        before,
        written,
    )


def test_an_outdated_copy_does_not_end_a_block(joined: Followed) -> None:
    old = copy_of(joined.blob)
    breaks_with_50_pods(joined)
    joined.blob.publish(MORE, SHORT)
    assert joined.poll() == 3
    restarts = joined.machine.commands.times("systemctl", "restart")
    for answer in (old, None, old, None):
        joined.blob.answer = answer
        assert joined.poll() == 0
        assert joined.followed()["blocked"]["configVersion"] == "18"
        assert status_of(joined.machine.host)["reason"] == "FLEX-1502"
    assert joined.machine.store.refused()["blocks"]
    assert joined.machine.commands.times("systemctl", "restart") == restarts


def test_an_outdated_tombstone_removes_no_node(joined: Followed) -> None:
    joined.blob.answer = Answer(b'{"tombstone": true, "configVersion": "16"}')
    assert joined.poll() == 0
    assert list(joined.site.api.nodes) == ["edge-1"]


def test_the_earlier_document_with_a_newer_version_is_followed(joined: Followed) -> None:
    """Its owner returns to it, after an update that did not work, or that did."""
    earlier = joined.blob.document
    breaks_with_50_pods(joined)
    joined.blob.publish(MORE, SHORT)
    assert joined.poll() == 3
    joined.blob.document = earlier
    joined.blob.publish()
    assert joined.poll() == 0
    assert (joined.trouble(), joined.followed()["blocked"]) == ({}, None)
    assert joined.machine.store.refused() == {}
    assert joined.machine.store.config_version() == "19"


@pytest.mark.parametrize("word", ["", "release-1"], ids=["no versions", "words"])
def test_without_numbers_a_copy_of_the_applied_document_does_not_end_a_block(
    joined: Followed, word: str
) -> None:
    """Nobody knows which of two is the newer one. A refused one that returns is not tried again."""

    def published(document: dict[str, Any]) -> Answer:
        return Answer(json.dumps({"config": document, **({"configVersion": word} if word else {})}).encode())

    old, new = published(joined.blob.document), published(merge(joined.blob.document, {**MORE, **SHORT}))
    breaks_with_50_pods(joined)
    joined.blob.answer = new
    assert joined.poll() == 3
    restarts = joined.machine.commands.times("systemctl", "restart")
    for _ in range(2):
        joined.blob.answer = old  # the owner may have returned to it: nothing is wrong then
        assert joined.poll() == 0
        assert (joined.trouble(), status_of(joined.machine.host)["reason"]) == ({}, "NodeJoined")
        joined.blob.answer = new
        assert joined.poll() == 0
        assert status_of(joined.machine.host)["monitoring"]["status"] == "Blocked"
        assert status_of(joined.machine.host)["reason"] == "FLEX-1502"
    assert joined.machine.commands.times("systemctl", "restart") == restarts
    joined.blob.answer = published(merge(joined.blob.document, {"node": {"maxPods": 51}}))
    assert joined.poll() == 0
    assert "earlier" not in joined.followed()
    assert '"maxPods": 51' in joined.machine.text(CONFIG)


def test_a_damaged_document_and_only_an_outdated_copy(joined: Followed) -> None:
    old = copy_of(joined.blob)
    joined.blob.publish(MORE)
    assert joined.poll() == 0
    joined.machine.put(f"{DATA_DIR}/current-config.json", "{", 0o600)
    joined.blob.answer = old
    assert joined.poll() == 0
    assert joined.machine.store.current_config() == joined.machine.store.applied_config()
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


@pytest.mark.parametrize("version", ["\u00b2", "9" * 5000, "-1", "", True, None, [], {}])
def test_odd_versions_have_no_order(joined: Followed, version: object) -> None:
    joined.blob.answer = Answer(
        json.dumps({"config": joined.blob.document, "configVersion": version}).encode()
    )
    assert joined.poll() in (0, 3)


# -- the end -----------------------------------------------------------------------------------------------


def test_a_tombstone_takes_the_node_away(node: Followed, capsys: Captured) -> None:
    before = node.machine.snapshot("/etc", "/opt", "/usr")
    node.join()
    node.blob.answer = Answer(b'{"tombstone": true, "configVersion": "18"}', 200, {"ETag": '"t"'})
    assert node.poll() == 0
    assert "no longer a node" in capsys.readouterr().out
    assert node.machine.snapshot("/etc", "/opt", "/usr") == before
    assert (node.site.api.nodes, node.machine.path(DATA_DIR).exists()) == ({}, False)
    assert node.machine.commands.units[TIMER] == "inactive"


def killed_while_leaving(joined: Followed, at: int) -> bool:
    """Leave, and die before the effect with this number; False: there are not so many."""

    def die(moment: int, _where: str) -> None:
        if moment == at:
            raise Killed

    machine = joined.machine
    host = DyingHost(str(machine.root), machine.commands, machine.clock)
    host.watch = Watch(die)
    try:
        leave(host)
    except Killed:
        return True
    return False


def test_a_leave_that_was_killed_is_finished_by_the_timer(joined: Followed) -> None:
    """At many moments; the timer, its services and the program are there until all else is done."""
    machine = joined.machine
    took_up = 0
    for at in range(0, 1000, 13):
        if not killed_while_leaving(joined, at):
            break
        if machine.commands.units[TIMER] == "active" and machine.store.state()["phase"] == "Resetting":
            assert all(machine.path(path).exists() for path in UNIT_FILES)
            assert machine.path(WANTED).is_symlink()
            assert machine.path(str(machine.path(f"/usr/local/bin/{COMMAND}").readlink())).exists()
            assert joined.poll("--hand-over") == 0
            assert machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
            assert joined.poll() == 0
            took_up += 1
            assert not machine.path(DATA_DIR).exists()
        else:  # at its very beginning, or all that remains is what takes up an interrupted leave
            assert not machine.path("/etc/kubernetes").exists() or not at
            leave(machine.host)
        assert not machine.path("/etc/kubernetes").exists()
        assert not any(machine.path(path).exists() for path in (*UNIT_FILES, WANTED))
        joined.join()
    assert took_up > 10


def test_the_timer_does_not_disturb_a_leave_that_is_at_work(joined: Followed, capsys: Captured) -> None:
    joined.machine.store.enter(Phase.RESETTING)
    with held(joined.machine.host, "other", "unbootstrap"):
        assert joined.poll() == 0
    assert "unbootstrap" in capsys.readouterr().out
    assert joined.machine.path("/etc/kubernetes").exists()
    assert joined.poll() == 0
    assert not joined.machine.path("/etc/kubernetes").exists()
    assert "it continues" in capsys.readouterr().out


@pytest.mark.parametrize("body", [b"", b"{}", b'{"tombstone": "true"}', b'{"tombstone": false}', b"[]"])
def test_nothing_but_a_tombstone_does(joined: Followed, body: bytes) -> None:
    joined.blob.answer = Answer(body)
    assert joined.poll() == 3
    assert list(joined.site.api.nodes) == ["edge-1"]
    assert status_of(joined.machine.host)["node"]["ready"]


# -- what it costs -----------------------------------------------------------------------------------------

NODE = Path(__file__).parents[4] / "plugins/module_utils/node"
IMPORTED = """
import sys, types
package = types.ModuleType("flexnode"); package.__path__ = [sys.argv[1]]; sys.modules["flexnode"] = package
import importlib; importlib.import_module(f"flexnode.follow.{sys.argv[2]}")
slow = {"http.client", "urllib.request", "email.parser", "calendar", "argparse"} & set(sys.modules)
print(" ".join(name for name in sys.modules if name.startswith("flexnode.") or name in slow))
"""


def test_a_look_imports_little() -> None:
    """Each of these is read by a timer, every 30 seconds, on a small machine."""
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", IMPORTED, str(NODE), "tick"],
        capture_output=True,
        text=True,
        check=True,
    )
    rooms = "drift engine engine.records follow machine net resources sources"
    files = "dataclass drift.quick engine.records.above engine.records.checked "
    files += "engine.records.journal engine.lease engine.records.schema engine.records.state errors "
    files += "follow.report follow.request follow.tick follow.watch machine.clock machine.links "
    files += "machine.removal machine.running "
    files += "sources.errors "
    files += "machine.disk machine.host machine.layout machine.program net.answer net.short_request net.tls "
    files += "resources.base sources.watched"
    loaded = {name.removeprefix("flexnode.") for name in done.stdout.split()}
    assert loaded == {*rooms.split(), *files.split()}


def test_a_look_at_a_node_of_a_pool_does_not_import_the_configuration() -> None:
    """Its document is read as data; the types of the configuration cost more than all the rest."""
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", IMPORTED, str(NODE), "machine"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name.removeprefix("flexnode.") for name in done.stdout.split()}
    heavy = {"config.model", "config.document", "catalogue.artifacts", "components.every", "status.publish"}
    assert loaded & heavy == set()
    assert {name for name in loaded if name.startswith("config.")} == {"config.pool"}


def test_the_command_knows_the_option(node: Followed, capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(node.pki.ca_pem)
    given = ["--config-url", node.blob.url, "--ca-cert", str(tmp_path / "ca.pem")]
    assert main(["join", *given], node.machine.host) == 1
    assert main(["plan", *given, "--durable"], node.machine.host) == 0
    assert main(["join", *given, "--durable"], node.machine.host) == 0
    assert main(["status"], node.machine.host) == 0
    said = capsys.readouterr().out
    assert f"config polling  Ok  {node.blob.server.url}/flexnode-edge-1/config.json" in said
    assert "s3cret" not in said
    assert COMMAND in (node.machine.text(UNIT_FILES[1]))
    with pytest.raises(SystemExit):
        main(["join", "--config", "x", "--durable"], node.machine.host)
