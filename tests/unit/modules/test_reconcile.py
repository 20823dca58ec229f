# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What flexnode_reconcile answers about a machine: `changed` says exactly whether the machine was changed."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest
from ansible.module_utils import basic

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.agent import GATES
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import PATIENCE, held
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight import run as run_module
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.playbook import MARK
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine import flexnode_reconcile as on_machine
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.own_run import DOWNLOADS
from ansible_collections.aks.flexnode.plugins.modules import flexnode_reconcile
from tests.unit.node.fakes import Machine
from tests.unit.node.processes import another_process
from tests.unit.node.rollout import rollouts
from tests.unit.node.servers import Pki
from tests.unit.node.sites import KUBELET, MORE, SHORT, Site, a_site

REFUSED = "E1115 failed to run Kubelet: cannot create certificate signing request: Unauthorized\n"


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def site(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine that the module takes for the one it runs on."""
    with Machine.temporary() as made, a_site(made.furnish(), pki) as site:
        for directory in ("/var/lib", "/var/log", "/opt"):
            made.path(directory).mkdir(parents=True, exist_ok=True)
        monkeypatch.setattr(on_machine, "Host", lambda: made.host)
        yield site


def answer(
    site: Site, capsys: pytest.CaptureFixture[str], *changes: dict[str, Any], **options: Any
) -> dict[str, Any]:
    """Run the module in this process, with its code from the checkout; its answer."""
    document = site.document
    for change in changes:
        document = merge(document, change)
    arguments = {"source": "inline", "document": json.dumps(document), **options}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(basic, "_ANSIBLE_ARGS", json.dumps({"ANSIBLE_MODULE_ARGS": arguments}).encode())
        patched.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)  # not in older releases
        patched.setattr(flexnode_reconcile, "run_node_code", lambda module, _name: on_machine.run(module))
        with pytest.raises(SystemExit):
            flexnode_reconcile.main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_a_refused_token_on_a_fresh_machine_is_a_change(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    """All was installed, and stays for the next run."""
    site.machine.commands.on_start.clear()
    site.machine.commands.logs[KUBELET] = REFUSED
    failed = answer(site, capsys, SHORT, origin="cluster")
    assert failed["error"]["code"] == "FLEX-1503"
    rejected = (
        "the API server rejected the bootstrap token with ID fedcba (Node edge-1): the token does not exist, "
        "has expired, or its secret is wrong"
    )
    stays = (
        "The changes made so far stay on the machine. The kubelet is stopped. After you replace "
        "the token, the next run continues from here"
    )
    fix = "run playbook aks.flexnode.bootstrap again: it creates a new token"
    message = f"FLEX-1503: {rejected}. {stays}\nfix: {fix}"
    assert failed["msg"] == message
    status = status_of(site.machine.host)
    assert status["message"] == (
        "the join failed: the API server rejected the bootstrap token with ID fedcba; the kubelet is stopped"
    )
    assert (status["fix"], status["drift"]) == (fix, [])
    assert site.machine.path("/usr/local/bin/kubelet").is_symlink()
    assert (failed["failed"], failed.get("changed"), "rolled_back" in failed) == (True, True, False)


def test_after_a_refused_document_a_good_one_changes_nothing(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answer(site, capsys)["changed"]
    refused = answer(site, capsys, {"containerd": {"version": "2.9.9"}})
    assert (refused["error"]["code"], refused["changed"]) == ("FLEX-1204", False)
    again = answer(site, capsys)
    assert (again["changed"], again["summary"], again["actions"]) == (False, "unchanged", [])


def test_a_run_of_ansible_pull_does_not_wait_for_its_turn_and_does_not_fail(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tasks of the playbook go on, and the next run asks again. A push fails, and names the others."""
    rollouts.create(site.api)
    assert answer(site, capsys, rollouts.LIMIT)["outcome"] == "joined"
    rollouts.held_by(site.api, "edge-7")
    pushed = answer(site, capsys, rollouts.LIMIT, MORE, wait_seconds=0)
    assert (pushed["failed"], pushed["error"]["code"]) == (True, "FLEX-1522")
    monkeypatch.setenv(MARK, "1")
    naps = len(site.machine.clock.naps)
    waits = answer(site, capsys, rollouts.LIMIT, MORE)
    assert (waits.get("failed"), waits["changed"], waits["outcome"]) == (None, False, "waits")
    assert waits["waits"].startswith("FLEX-1522: ")
    assert "edge-7" in waits["waits"]
    assert len(site.machine.clock.naps) == naps
    rollouts.put(site.api, lambda now: now.without_holder("edge-7"))
    assert answer(site, capsys, rollouts.LIMIT, MORE)["outcome"] == "updated"


@pytest.mark.parametrize(
    ("files", "machine_id"),
    [
        ({"/etc/machine-id": f"{'1' * 32}\n"}, "1" * 32),
        ({"/etc/machine-id": "", "/var/lib/dbus/machine-id": f"{'2' * 32}\n"}, "2" * 32),
        ({}, ""),
    ],
    ids=["systemd", "dbus", "none"],
)
def test_a_machine_says_what_tells_its_node_from_others_of_the_same_name(
    site: Site, pki: Pki, capsys: pytest.CaptureFixture[str], files: dict[str, str], machine_id: str
) -> None:
    """The kubeconfig of the controller may be of another cluster."""
    site.machine.path("/etc/machine-id").unlink(missing_ok=True)
    for path, content in files.items():
        site.machine.put(path, content)
    digest = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pki.ca_pem)).hexdigest()
    known = {"machine_id": machine_id, "api_server": site.api.server.url, "ca_sha256": [digest]}
    assert answer(site, capsys)["machine"] == known
    left = answer(site, capsys, state="absent")
    assert (left["node_name"], left["machine"]) == ("edge-1", known)


@pytest.mark.parametrize(
    ("wanted", "skipped"), [(True, True), ("True", True), (False, False), ("false", False)], ids=str
)
def test_roles_are_looked_for_unless_they_are_assigned_later(
    site: Site, monkeypatch: pytest.MonkeyPatch, wanted: bool | str, skipped: bool
) -> None:
    seen: list[str] = []

    class Passed:
        def require(self) -> None:
            pass

    def preflight(_host: object, _document: object, skip: list[str]) -> Passed:
        seen.extend(skip)
        return Passed()

    monkeypatch.setattr(run_module, "run_preflight", preflight)
    document = merge(site.document, {"azure": {"arc": {"autoRoleAssignment": wanted}}})
    on_machine.require_preflight(site.machine.host, document, [], check=True)
    assert ("azure-role" in seen) is skipped


# -- a node that applies the same configuration by itself ---------------------------------------------------

LEASE = "/run/aks-flex-node/lease.json"
OWN_SECONDS = DOWNLOADS + 300 + GATES * 120  # drainSeconds and gateSeconds by default


@contextmanager
def poll(site: Site, seconds: float) -> Iterator[None]:
    """The node runs its own poll, for so long from now on."""
    stack, machine = ExitStack(), site.machine
    act = partial(stack.enter_context, held(machine.host, "its own", "aks-flex-node poll"))
    end = machine.clock.monotonic() + seconds
    with ExitStack() as running:
        running.enter_context(another_process(act))

        def ends() -> None:
            if machine.clock.monotonic() >= end:
                machine.path(LEASE).unlink(missing_ok=True)  # a run that ends removes it
                running.close()

        machine.clock.then = ends
        yield
    machine.clock.then = lambda: None


def test_a_node_that_applies_it_by_itself_is_no_failure(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poll found the new configuration first, and drains for minutes: it is found applied afterwards."""
    said: list[str] = []
    monkeypatch.setattr(basic.AnsibleModule, "warn", lambda _module, text: said.append(text))
    assert answer(site, capsys, MORE)["changed"]
    with poll(site, 600):
        found = answer(site, capsys, MORE)
    assert (found.get("failed"), found["summary"]) == (None, "unchanged")
    (warning,) = said
    assert re.search(r"waited for it: aks-flex-node poll \(process \d+\), 600 s", warning)


def test_a_poll_that_hangs_fails_the_push_and_is_named(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(site, capsys)
    start = site.machine.clock.time
    with poll(site, 86400):
        failed = answer(site, capsys, MORE)
    assert (failed["error"]["code"], failed["changed"]) == ("FLEX-1401", False)
    assert f"takes {OWN_SECONDS:.0f} s at most, so it hangs" in failed["msg"]
    assert site.machine.clock.time - start == pytest.approx(OWN_SECONDS, abs=1)


@pytest.mark.parametrize("who", ["ansible-pull", "uninstalls"])
def test_others_do_not_wait_longer_than_before(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    answer(site, capsys)
    start = site.machine.clock.time
    if who == "ansible-pull":
        monkeypatch.setenv(MARK, "1")
    with poll(site, 600):
        failed = answer(site, capsys, state="absent" if who == "uninstalls" else "present")
    assert failed["error"]["code"] == "FLEX-1401"
    assert site.machine.clock.time - start == pytest.approx(PATIENCE, abs=1)
