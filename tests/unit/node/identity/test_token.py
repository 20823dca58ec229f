# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The life of a bootstrap token: one join, never a second try, and of no concern to a node that works."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ConfigInvalid,
    ConfigMissing,
    ConfigUnreachable,
    NodeNotReady,
    TokenRefused,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.advice import REPLACE, UNAPPROVED
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
    stored_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored, Url
from tests.unit.node.fakes import Machine
from tests.unit.node.node_object.test_gates import UNAUTHORIZED
from tests.unit.node.servers import Answer, Pki, Server, answer_json, serving
from tests.unit.node.sites import IDENTITY, KUBELET, TOKEN, Site, a_site

NODE = Path(__file__).parents[4] / "plugins/module_utils/node"
PLACES = ("/etc", "/opt", "/usr", "/proc", "/var")
WANTS = "/etc/systemd/system/multi-user.target.wants/kubelet.service"
NOT_AGAIN = "in an earlier run, and this run did not try it again"
OTHER = {"azure": {"bootstrapToken": {"token": "abcdef.0123456789abcdef"}}}


@pytest.fixture
def site(debian: Machine, pki: Pki) -> Iterator[Site]:
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    with a_site(debian, pki) as made:
        yield made


def refused_once(site: Site) -> None:
    """A join whose token the API server does not take."""
    starts = site.machine.commands.on_start.pop(KUBELET)
    site.machine.commands.logs[KUBELET] = UNAUTHORIZED
    with pytest.raises(TokenRefused):
        site.join()
    del site.machine.commands.logs[KUBELET]
    site.machine.commands.on_start[KUBELET] = starts


def join_state(site: Site) -> dict[str, Any]:
    return dict(site.machine.store.state()["join"])


# -- refused -----------------------------------------------------------------------------------------------


def test_a_refused_token_stops_the_kubelet_now_and_at_boot(site: Site) -> None:
    refused_once(site)
    assert join_state(site) == {
        "token": "fedcba",
        "outcome": "refused",
        "digest": hashlib.sha256(TOKEN.encode()).hexdigest(),
        "what": "the API server rejected the bootstrap token with ID fedcba",
    }
    assert site.machine.commands.units[KUBELET] == "inactive"
    assert not site.machine.path(WANTS).is_symlink()
    assert TOKEN.partition(".")[2] not in site.machine.text(f"{DATA_DIR}/state.json")


def test_it_is_never_tried_again_and_nothing_is_touched(site: Site) -> None:
    refused_once(site)
    before, calls = site.machine.snapshot(*PLACES), site.machine.commands.changing()
    asked = len(site.api.server.requests), len(site.mirror.requests)
    stored = stored_config(site.machine.host)
    attempts: list[Callable[[], object]] = [
        lambda: site.join(),
        lambda: reconcile(stored, EVERYTHING, machine="x86_64"),
        lambda: reconcile(stored, EVERYTHING, machine="x86_64", check=True),
    ]
    for attempt in attempts:
        with pytest.raises(TokenRefused) as caught:
            attempt()
        assert caught.value.where == "Node edge-1"
        rejected = "the API server rejected the bootstrap token with ID fedcba"
        assert caught.value.what == f"{rejected} {NOT_AGAIN}"
        assert caught.value.why == (
            "the token does not exist, has expired, or its secret is wrong. The kubelet is stopped"
        )
        assert caught.value.fix == REPLACE
        assert TOKEN not in str(caught.value)
    changed = dict(site.machine.snapshot(*PLACES).items() - before.items())
    assert list(changed) == ["var/log/aks-flex-node/agent.log"], "each attempt is logged"
    assert site.machine.commands.changing() == calls
    assert asked == (len(site.api.server.requests), len(site.mirror.requests))
    assert site.machine.store.state()["code"] == "FLEX-1503"


def test_another_token_goes_ahead_and_joins(site: Site) -> None:
    refused_once(site)
    site.join(OTHER)
    assert join_state(site) == {"token": "abcdef", "outcome": "joined"}
    assert site.machine.path(WANTS).is_symlink()
    assert site.machine.commands.units[KUBELET] == "active"
    leave(site.machine.host)
    assert not site.machine.path(DATA_DIR).exists()


def test_the_same_token_with_its_secret_corrected_goes_ahead(site: Site) -> None:
    """A typo in the secret leaves the ID as it is: what was refused is the whole token."""
    refused_once(site)
    site.join({"azure": {"bootstrapToken": {"token": "fedcba.0000000000000000"}}})
    assert join_state(site) == {"token": "fedcba", "outcome": "joined"}
    assert site.machine.commands.units[KUBELET] == "active"


def test_a_record_of_an_older_release_does_not_say_which_secret_was_refused(site: Site) -> None:
    refused_once(site)
    site.machine.store.set_join("fedcba", "refused")
    site.join()
    assert join_state(site) == {"token": "fedcba", "outcome": "joined"}


def test_a_token_that_brought_no_certificate_is_not_said_to_be_wrong(site: Site) -> None:
    refused_once(site)
    what = "the kubelet asked for a certificate with bootstrap token fedcba, and got none"
    site.machine.store.note(join={**join_state(site), "what": what})
    with pytest.raises(TokenRefused) as caught:
        site.join()
    assert caught.value.what == f"{what} {NOT_AGAIN}"
    assert caught.value.fix == UNAPPROVED


def test_a_kubelet_of_others_stays_enabled(site: Site) -> None:
    site.machine.path(WANTS).parent.mkdir()
    site.machine.path(WANTS).symlink_to("/lib/systemd/system/kubelet.service")
    refused_once(site)
    assert site.machine.path(WANTS).is_symlink()


def test_preparing_needs_no_token_at_all(site: Site) -> None:
    refused_once(site)
    reconcile(stored_config(site.machine.host, purpose="prepare"), ["runtime"], machine="x86_64")
    store_config(site.machine.host, Inline(site.document), {}, purpose="prepare", check=True)


# -- cut off -----------------------------------------------------------------------------------------------


class Killed(BaseException):
    """kill -9, as near as a test can get."""


def test_killed_before_the_attempt_nothing_is_noted(site: Site) -> None:
    def die(sentence: str) -> None:
        if sentence.startswith("apply"):
            raise Killed

    with pytest.raises(Killed):
        site.join(progress=die)
    assert "join" not in site.machine.store.state()
    site.join()
    assert join_state(site)["outcome"] == "joined"


def test_killed_after_the_attempt_the_next_run_carries_on(site: Site) -> None:
    def die(sentence: str) -> None:
        if sentence.startswith("wait"):
            raise Killed

    with pytest.raises(Killed):
        site.join(progress=die)
    assert join_state(site) == {"token": "fedcba", "outcome": "attempted"}
    site.join(OTHER)  # by now the kubelet has its certificate, by the token that was noted
    assert join_state(site) == {"token": "fedcba", "outcome": "joined"}


def test_an_attempt_that_ends_without_an_answer_is_made_again(site: Site) -> None:
    starts = site.machine.commands.on_start.pop(KUBELET)
    with pytest.raises(NodeNotReady):
        site.join({"upgrade": {"gateSeconds": 10}})
    assert join_state(site)["outcome"] == "attempted"
    site.machine.put(IDENTITY, "a certificate\n")  # approved at last
    starts()
    site.join()
    assert join_state(site)["outcome"] == "joined"


# -- joined ------------------------------------------------------------------------------------------------


def test_a_dead_token_does_not_disturb_a_node_that_has_joined(site: Site) -> None:
    site.join()
    site.machine.store.set_join("fedcba", "refused")
    assert not site.join().changed
    restarts = site.machine.commands.times("systemctl", "restart")
    site.join(OTHER)
    assert site.machine.commands.times("systemctl", "restart") == restarts


@pytest.fixture
def bundle(site: Site, pki: Pki) -> Iterator[Server]:
    answers = {"status": 200}

    def answer(_: object) -> Answer:
        if answers["status"] != 200:
            return Answer(status=answers["status"])
        return answer_json({"config": site.document, "configVersion": "17"})

    with serving(answer, pki.server_context()) as server:
        server.answers = answers  # type: ignore[attr-defined]
        yield server


def revoked(bundle: Server, status: int) -> None:
    bundle.answers["status"] = status  # type: ignore[attr-defined]


def an_address(site: Site, bundle: Server, pki: Pki) -> Url:
    return Url(f"{bundle.url}/b?sig=s3cret", HttpClient(ca_pem=pki.ca_pem, clock=site.machine.clock))


@pytest.mark.parametrize("status", [403, 404, 410, 503])
def test_a_revoked_address_does_not_disturb_a_node_that_has_joined(
    site: Site, bundle: Server, pki: Pki, status: int
) -> None:
    store_config(site.machine.host, an_address(site, bundle, pki), {})
    reconcile(stored_config(site.machine.host), EVERYTHING, machine="x86_64")
    revoked(bundle, status)
    got = store_config(site.machine.host, an_address(site, bundle, pki), {"node": {"maxPods": 50}})
    (warning,) = got.warnings
    assert str(status) in warning
    assert "has joined" in warning
    assert "s3cret" not in warning
    assert (got.version, got.document["node"]["maxPods"]) == ("17", 50)
    assert got.document["azure"]["bootstrapToken"]["token"] == TOKEN


@pytest.mark.parametrize("stored", [False, True])
def test_without_a_join_a_revoked_address_is_an_error(
    site: Site, bundle: Server, pki: Pki, stored: bool
) -> None:
    if stored:
        store_config(site.machine.host, Inline(site.document), {})
    revoked(bundle, 403)
    with pytest.raises(ConfigUnreachable):
        store_config(site.machine.host, an_address(site, bundle, pki), {})


def test_the_command_warns_and_goes_on(
    site: Site, bundle: Server, pki: Pki, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    arguments = ["join", "--config-url", f"{bundle.url}/b?sig=s3cret", "--ca-cert", str(tmp_path / "ca.pem")]
    assert main(arguments, site.machine.host) == 0
    capsys.readouterr()
    revoked(bundle, 403)
    assert main(arguments, site.machine.host) == 0
    printed = capsys.readouterr()
    assert "warning: the configuration can't be fetched" in printed.out + printed.err
    assert "unchanged in" in printed.out
    assert "s3cret" not in printed.out + printed.err


def test_a_tombstone_is_no_configuration_to_join_with(site: Site, pki: Pki) -> None:
    gone = answer_json({"tombstone": True})
    with (
        serving(lambda _: gone, pki.server_context()) as server,
        pytest.raises(ConfigInvalid, match="deleted"),
    ):
        store_config(site.machine.host, Url(server.url, HttpClient(ca_pem=pki.ca_pem)), {})


# -- stored, and places where a secret is only marked ------------------------------------------------------


def test_the_stored_document_with_something_over_it(site: Site) -> None:
    host = site.machine.host
    with pytest.raises(ConfigMissing) as caught:
        store_config(host, Stored(site.machine.store), {})
    assert "reinstalled" in caught.value.why
    for way in (
        "ansible-playbook aks.flexnode.config_tokens -i INVENTORY",
        "bootstrap",
        "aks-flex-node join",
    ):
        assert way in caught.value.fix
    store_config(host, Inline({"config": site.document, "configVersion": "17"}), {})
    got = store_config(host, Stored(site.machine.store), {"node": {"maxPods": 50, "labels": {"site": None}}})
    assert (got.version, got.document["node"]["maxPods"], got.changed) == ("17", 50, True)
    assert "site" not in got.document["node"]["labels"]
    stored = site.machine.store.current_config() or {}
    assert stored["azure"]["bootstrapToken"]["token"] == TOKEN
    assert not store_config(host, Stored(site.machine.store), {}).changed


MARKED = {"azure": {"bootstrapToken": {"token": REDACTED}}}


def test_a_secret_that_is_only_marked_is_taken_from_the_machine(site: Site) -> None:
    host = site.machine.host
    with pytest.raises(ConfigMissing) as caught:
        store_config(host, Inline(site.document), MARKED)
    assert "azure.bootstrapToken.token" in caught.value.where
    assert "get a new token" in caught.value.fix
    assert site.machine.store.current_config() is None
    assert store_config(host, Inline(site.document), MARKED, check=True).changed  # not minted yet
    store_config(host, Inline(site.document), {})
    assert not store_config(host, Inline(site.document), MARKED).changed
    assert (site.machine.store.current_config() or {})["azure"]["bootstrapToken"]["token"] == TOKEN


# -- nobody else -------------------------------------------------------------------------------------------


def attributes(path: Path) -> set[str]:
    """The names of all attributes that a file uses."""
    return {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}


def test_no_code_but_the_kubelets_kubeconfig_reads_the_token() -> None:
    """Whoever wants it comes by `bootstrap_token`, and then by `reveal`."""
    using = {path.relative_to(NODE).as_posix(): attributes(path) for path in NODE.rglob("*.py")}
    knowing = {path: names for path, names in using.items() if "bootstrap_token" in names}
    assert {path for path, names in knowing.items() if "reveal" in names} == {"components/kubelet.py"}


def test_nothing_that_is_sent_or_remembered_holds_the_token(site: Site) -> None:
    site.join()
    secret = TOKEN.partition(".")[2]
    assert not any(secret in json.dumps(dict(request.headers)) for request in site.api.server.requests)
    holding = {
        path.relative_to(site.machine.root).as_posix()
        for path in site.machine.root.rglob("*")
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes()
    }
    assert holding == {
        "var/lib/kubelet/bootstrap-kubeconfig",
        "var/lib/aks-flex-node/current-config.json",
        "var/lib/aks-flex-node/applied-config.json",
    }
