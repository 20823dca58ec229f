# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node follows its flexNodeConfig resource with its own identity; Azure is a server behind real TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import NotAvailable
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.credential import (
    Needed,
    credential_needed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.follow.token import FILE
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import TokenSourceUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import hostname
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
    stored_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import (
    EVERYTHING,
    reconcile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.flexnode_config import (
    GAP,
    Reply,
    Verdict,
    verdict,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline, Stored, Url
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.watched import Watched
from tests.unit.node.config.test_samples import CLIENT, CLUSTER, TENANT
from tests.unit.node.fake_arm import PLANT, RESOURCE, FakeArm, arm_error, not_found
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, Pki, answer_json, serving
from tests.unit.node.sites import CONFIG, MORE, TOKEN, Site, a_site

SECRET, NEXT = "first~secret", "second~secret"
PRINCIPAL = {"clientId": CLIENT, "clientSecret": SECRET, "clientTenant": TENANT}
GET = f"GET {RESOURCE}"
ENTRA = f"POST /{TENANT}/oauth2/v2.0/token"
REGENERATE = f"POST {RESOURCE}/regenerateToken"
BOTH = {"azureAuth": {"method": "servicePrincipal"}, "kubernetesAuth": {"useAzureAuth": True}}
Captured = pytest.CaptureFixture[str]


@dataclass
class Polling:
    """A machine that polls its resource."""

    site: Site
    arm: FakeArm
    pki: Pki

    @property
    def machine(self) -> Machine:
        return self.site.machine

    def join(self, overrides: dict[str, Any] | None = None) -> None:
        source = Url(self.arm.url, HttpClient(ca_pem=self.pki.ca_pem, clock=self.machine.clock))
        store_config(self.machine.host, source, overrides or {})
        reconcile(stored_config(self.machine.host), EVERYTHING)

    def poll(self, *arguments: str) -> int:
        return main(["poll", *arguments], self.machine.host)

    def later(self, seconds: float = 30) -> int:
        self.machine.clock.time += seconds
        return self.poll()

    def source(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.machine.text(f"{DATA_DIR}/source.json"))
        return found

    def trouble(self) -> dict[str, Any]:
        return self.machine.store.monitoring()

    @property
    def is_node(self) -> bool:
        return self.machine.path("/etc/kubernetes").exists()


@pytest.fixture
def node(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Polling]:
    """By a service principal for Azure, with a bootstrap token for the join."""
    (tmp_path / "ca.pem").write_text(pki.ca_pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    for directory in ("/var/lib", "/var/log", "/opt"):
        debian.path(directory).mkdir(parents=True)
    with a_site(debian, pki) as site:
        arm = FakeArm(site.document, secrets={SECRET})
        with serving(arm, pki.server_context()) as server:
            arm.server = server
            azure = {
                "servicePrincipal": PRINCIPAL,
                "resourceManagerEndpoint": server.url,
                "activeDirectoryEndpoint": server.url,
            }
            arm.document = merge(site.document, {"continuousMonitoring": True, "azure": azure})
            assert hostname(debian.host) == "edge-1"
            yield Polling(site, arm, pki)


@pytest.fixture
def joined(node: Polling) -> Polling:
    node.join()
    assert node.poll() == 0
    node.arm.server.requests.clear()
    return node


# -- which documents are followed --------------------------------------------------------------------------


def test_a_bundle_with_an_identity_is_followed_at_its_resource(node: Polling) -> None:
    node.join()
    source = node.source()
    assert source["resource"] == RESOURCE
    assert source["url"].startswith(f"{node.arm.server.url}{RESOURCE}?api-version=2026-05-01-preview")
    assert (source["configVersion"], source["settled"], source["found"]) == ("17", True, False)
    assert SECRET not in json.dumps(source)
    assert node.machine.commands.units["aks-flex-node-poll.timer"] == "active"


def test_the_seeds_put_with_one_principal_for_both(node: Polling) -> None:
    node.arm.document = merge(node.arm.document, {**BOTH, "azure": {"bootstrapToken": None}})
    node.join()
    assert node.poll() == 0
    assert node.trouble() == {}
    node.arm.publish(MORE)
    assert node.later() == 0
    assert '"maxPods": 50' in node.machine.text(CONFIG)


def test_a_bare_document_has_no_resource(node: Polling) -> None:
    with pytest.raises(NotAvailable, match="nothing to poll"):
        store_config(node.machine.host, Inline(node.arm.document), {})
    bundle = Inline({"config": node.arm.document, "configVersion": "17"})
    assert store_config(node.machine.host, bundle, {}).is_polled


def test_what_the_resource_says_too_is_followed_there_and_the_rest_stays(node: Polling) -> None:
    """The controller wrote the labels to the resource; the mirror is the site's own."""
    node.join({"node": {"labels": {"site": "lab-1"}, "maxPods": 33}})
    assert node.source()["over"] == {"node": {"maxPods": 33}}
    node.arm.publish({"node": {"maxPods": 50, "labels": {"site": "lab-2"}}})
    assert node.poll() == 0
    assert '"maxPods": 33' in node.machine.text(CONFIG)
    assert node.site.api.nodes["edge-1"]["metadata"]["labels"]["site"] == "lab-2"
    store_config(node.machine.host, Stored(node.machine.store), {"node": {"labels": {"site": "lab-2"}}})
    assert node.source()["over"] == {"node": {"maxPods": 33}}


def test_a_bundle_that_was_completed_by_hand_keeps_what_a_resource_has_no_place_for(node: Polling) -> None:
    """As docs/edge.md says: download it, add mirror and CNI, join with the file."""
    site = {"cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}, "kubernetesAuth": {"profile": "certificate"}}
    bundle = {"config": merge(node.arm.document, site), "configVersion": "17"}
    store_config(node.machine.host, Inline(bundle), {})
    reconcile(stored_config(node.machine.host), EVERYTHING)
    over = node.source()["over"]
    assert sorted(over) == ["cni", "kubernetesAuth", "mirror"]
    node.arm.document = {key: value for key, value in node.arm.document.items() if key != "mirror"}
    node.arm.publish(MORE)
    assert node.poll() == 0
    assert '"maxPods": 50' in node.machine.text(CONFIG)
    assert (node.machine.store.current_config() or {})["cni"]["mode"] == "bridge"


def test_a_second_join_writes_nothing(joined: Polling) -> None:
    before = joined.machine.snapshot("/")
    joined.join()
    assert joined.machine.snapshot("/") == before


# -- a poll ------------------------------------------------------------------------------------------------


def test_nothing_new_is_one_request_without_a_write_or_a_new_token(joined: Polling, capsys: Captured) -> None:
    disk = ("/etc", "/opt", "/usr", "/var")
    before, calls = joined.machine.snapshot(*disk), joined.machine.commands.changing()
    for _ in range(5):
        assert joined.later() == 0
    assert joined.machine.snapshot(*disk) == before
    assert joined.machine.commands.changing() == calls
    assert capsys.readouterr().out == "nothing new\n" * 5
    assert joined.arm.server.asked == [f"{GET}?api-version=2026-05-01-preview"] * 5
    kept = joined.machine.path(FILE)
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700


def test_a_token_is_renewed_before_it_expires(joined: Polling) -> None:
    issued = joined.arm.issued
    assert joined.later(3290) == 0
    assert joined.arm.issued == issued
    assert joined.later(20) == 0
    assert joined.arm.issued == issued + 1


def test_a_token_that_azure_refuses_is_replaced_once(joined: Polling) -> None:
    kept = json.loads(joined.machine.text(FILE))["token"]
    joined.arm.revoked = {kept}
    issued = joined.arm.issued
    assert joined.later() == 0
    assert (joined.trouble(), joined.arm.issued) == ({}, issued + 1)
    joined.arm.answers[GET] = arm_error(401, "InvalidAuthenticationToken")
    assert joined.later() == 0
    assert joined.trouble()["code"] == "FLEX-1103"
    assert joined.arm.issued == issued + 2


def test_a_new_version_is_applied_and_keeps_the_secrets(joined: Polling, capsys: Captured) -> None:
    joined.arm.publish(MORE, {"node": {"labels": {"site": "lab-2"}}})
    assert joined.later() == 0
    assert "configuration 18 is applied" in capsys.readouterr().out
    assert '"maxPods": 50' in joined.machine.text(CONFIG)
    assert joined.site.api.nodes["edge-1"]["metadata"]["labels"]["site"] == "lab-2"
    azure = (joined.machine.store.current_config() or {})["azure"]
    assert azure["servicePrincipal"]["clientSecret"] == SECRET
    assert azure["bootstrapToken"]["token"] == TOKEN
    assert joined.machine.store.config_version() == "18"
    assert joined.arm.asked(REGENERATE) == 0
    before = joined.machine.snapshot("/var", "/etc")
    assert joined.later() == 0
    assert joined.machine.snapshot("/var", "/etc") == before


def test_the_timers_poll_hands_over(joined: Polling) -> None:
    joined.arm.publish(MORE)
    before = joined.machine.snapshot("/")
    assert joined.poll("--hand-over") == 0
    assert joined.machine.snapshot("/") == before
    assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"


@pytest.mark.parametrize("state", ["Updating", "Creating", "Deleting", "Failed"])
def test_a_resource_that_is_being_written_is_not_followed_yet(joined: Polling, state: str) -> None:
    joined.arm.publish(MORE)
    joined.arm.state = state
    assert joined.later() == 0
    assert '"maxPods": 50' not in joined.machine.text(CONFIG)
    joined.arm.state = "Succeeded"
    assert joined.later() == 0
    assert '"maxPods": 50' in joined.machine.text(CONFIG)


def test_an_older_version_is_a_server_that_lags_behind(joined: Polling) -> None:
    joined.arm.publish(MORE)
    assert joined.later() == 0
    joined.arm.version = 17
    before = joined.machine.snapshot("/var", "/etc")
    assert joined.later() == 0
    assert joined.machine.snapshot("/var", "/etc") == before


def test_a_bad_document_is_refused_and_the_next_good_one_applied(joined: Polling) -> None:
    joined.arm.publish({"node": {"maxPods": -1}})
    assert joined.later() == 3
    assert joined.trouble()["code"] == "FLEX-1101"
    written = joined.machine.snapshot("/var")
    assert joined.later() == 0
    assert joined.machine.snapshot("/var") == written
    joined.arm.publish(MORE)
    assert joined.later() == 0
    assert (joined.trouble(), joined.source()["blocked"]) == ({}, None)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (arm_error(403, "AuthorizationFailed"), "role Reader on the cluster"),
        (arm_error(500, "InternalServerError"), "HTTP 500"),
        (Answer(b"<html>", 404), "HTTP 404"),
        (Answer(b"<html>welcome"), "not a flexNodeConfig resource"),
        (answer_json({"properties": {}}), "not a flexNodeConfig resource"),
    ],
)
def test_a_failed_poll_is_recorded_once_and_changes_nothing(
    joined: Polling, answer: Answer, message: str
) -> None:
    joined.arm.answers[GET] = answer
    before = joined.machine.snapshot("/etc", "/opt", "/usr")
    assert joined.later() == 0
    assert (joined.trouble()["code"], joined.machine.snapshot("/etc", "/opt", "/usr")) == (
        "FLEX-1103",
        before,
    )
    assert message in joined.trouble()["message"]
    written = joined.machine.snapshot("/var")
    assert joined.later() == 0
    assert joined.machine.snapshot("/var") == written
    del joined.arm.answers[GET]
    assert joined.later() == 0
    assert joined.trouble() == {}


def test_retry_after_is_obeyed_and_a_source_that_keeps_failing_is_polled_less_often(joined: Polling) -> None:
    joined.arm.answers[GET] = Answer(b"{}", 429, {"Retry-After": "90"})
    assert joined.later() == 0
    asked = joined.arm.asked(GET)
    assert joined.later(80) == 0
    assert joined.arm.asked(GET) == asked
    joined.arm.answers[GET] = arm_error(503, "ServiceUnavailable")
    for _ in range(120):
        joined.later()
    hour = joined.arm.asked(GET) - asked
    assert 10 < hour < 40
    del joined.arm.answers[GET]
    assert joined.later(301) == 0
    assert (joined.trouble(), joined.source()["notBefore"]) == ({}, 0.0)


def test_entra_id_is_left_alone_as_long_as_it_asks(joined: Polling) -> None:
    """There is no token, and so no request of Azure either."""
    joined.arm.answers[ENTRA] = Answer(b"{}", 429, {"Retry-After": "300"})
    joined.machine.clock.time += 3700  # the stored token has expired
    assert joined.poll() == 0
    assert (joined.arm.asked(ENTRA), joined.trouble()["code"]) == (1, TokenSourceUnreachable.code)
    for _ in range(9):
        assert joined.later(30) == 0
    assert joined.arm.asked(ENTRA) == 1
    del joined.arm.answers[ENTRA]
    assert joined.later(40) == 0
    assert (joined.arm.asked(ENTRA), joined.trouble()) == (2, {})


def test_a_cut_line_is_polled_at_every_tick(joined: Polling) -> None:
    url = joined.source()["url"]
    joined.machine.store.set_source(
        {**joined.source(), "url": url.replace(joined.arm.server.url, "https://127.0.0.1:1")}
    )
    for _ in range(20):
        assert joined.later() == 0
    assert joined.source()["notBefore"] == 0.0
    assert "refused" in joined.trouble()["message"]


def test_an_identity_without_tokens_is_reported_with_its_own_code(joined: Polling) -> None:
    joined.arm.secrets.clear()
    joined.machine.path(FILE).unlink()
    joined.machine.clock.time += 3700
    assert joined.poll() == 0
    assert joined.trouble()["code"] == "FLEX-1802"
    assert joined.is_node


def test_a_damaged_document_is_healed_from_the_resource(joined: Polling) -> None:
    whole = joined.machine.text(f"{DATA_DIR}/current-config.json")
    joined.machine.put(f"{DATA_DIR}/current-config.json", whole[:100], 0o600)
    assert joined.later() == 0
    assert joined.machine.text(f"{DATA_DIR}/current-config.json") == whole


# -- a changed credential ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fresh", "stored", "needed"),
    [
        ({}, {}, Needed.NO),
        ({"azure": {"servicePrincipal": {"clientId": "a"}}}, {}, Needed.YES),
        (
            {"azure": {"servicePrincipal": {"clientId": "b"}}},
            {"azure": {"servicePrincipal": {"clientId": "a", "clientSecret": "x"}}},
            Needed.YES,
        ),
        (
            {"azure": {"servicePrincipal": {"clientId": "A", "tenantId": "t"}}},
            {"azure": {"servicePrincipal": {"clientId": "a", "clientTenant": "t", "clientSecret": "x"}}},
            Needed.NO,
        ),
        (
            {"azure": {"servicePrincipal": {"clientId": "a"}}},
            {"azure": {"servicePrincipal": {"clientId": "a", "clientSecret": "x"}}},
            Needed.MAYBE,
        ),
        (
            {"azure": {"servicePrincipal": {"clientId": "a"}}, "node": {"maxPods": 5}},
            {"azure": {"servicePrincipal": {"clientId": "a", "clientSecret": "x"}}},
            Needed.NO,
        ),
        (
            {"azure": {"servicePrincipal": {"clientId": "b", "clientSecretFile": "/etc/secret"}}},
            {"azure": {"servicePrincipal": {"clientId": "a", "clientSecret": "x"}}},
            Needed.NO,
        ),
        ({"azure": {"managedIdentity": {}}}, {"azure": {"managedIdentity": {}}}, Needed.NO),
    ],
)
def test_when_a_new_credential_is_needed(
    fresh: dict[str, Any], stored: dict[str, Any], needed: Needed
) -> None:
    assert credential_needed(fresh, stored, {}) is needed


@pytest.mark.parametrize("long_running", [False, True])
def test_a_changed_secret_is_requested_with_the_old_one(joined: Polling, long_running: bool) -> None:
    joined.arm.publish({"azure": {"servicePrincipal": {"clientSecret": NEXT}}})
    joined.arm.secrets.add(NEXT)
    joined.arm.long_running = long_running
    assert joined.later() == 0
    principal = (joined.machine.store.current_config() or {})["azure"]["servicePrincipal"]
    assert principal["clientSecret"] == NEXT
    assert joined.arm.asked(REGENERATE) == 1
    assert joined.source()["configVersion"] == str(joined.arm.version) == "19"
    joined.arm.secrets.remove(SECRET)
    joined.machine.clock.time += 3700
    before = joined.machine.snapshot("/var", "/etc")
    assert joined.poll() == 0
    assert (joined.trouble(), joined.machine.snapshot("/var", "/etc")) == ({}, before)
    assert joined.arm.asked(REGENERATE) == 1


def test_a_version_without_any_change_and_no_right_to_ask(joined: Polling) -> None:
    """The identity is a Reader only: the stored secret is used, the version counts as applied."""
    joined.arm.publish()
    joined.arm.answers[REGENERATE] = arm_error(403, "AuthorizationFailed")
    assert joined.later() == 0
    assert (joined.trouble(), joined.machine.store.config_version()) == ({}, "18")


def test_another_principal_without_the_right_to_ask_is_refused(joined: Polling) -> None:
    other = {"clientId": "99999999-2222-3333-4444-555555555555", "clientSecret": NEXT}
    joined.arm.publish({"azure": {"servicePrincipal": other}})
    joined.arm.answers[REGENERATE] = arm_error(403, "AuthorizationFailed")
    before = joined.machine.store.current_config()
    assert joined.later() == 3
    assert joined.trouble()["code"] == "FLEX-1110"
    assert joined.machine.store.current_config() == before
    del joined.arm.answers[REGENERATE]
    joined.arm.secrets.add(NEXT)
    joined.arm.publish()
    assert joined.later() == 0
    principal = (joined.machine.store.current_config() or {})["azure"]["servicePrincipal"]
    assert (principal["clientId"], principal["clientSecret"]) == (other["clientId"], NEXT)


def test_a_secret_that_changed_beside_other_things_is_requested_when_the_old_one_is_refused(
    joined: Polling,
) -> None:
    """The last token of the old secret is still valid when a new one is refused."""
    joined.arm.publish(MORE, {"azure": {"servicePrincipal": {"clientSecret": NEXT}}})
    assert joined.later() == 0
    assert joined.arm.asked(REGENERATE) == 0
    joined.arm.secrets = {NEXT}
    joined.machine.clock.time += 3310
    assert joined.poll("--hand-over") == 0
    assert joined.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert joined.poll() == 0
    principal = (joined.machine.store.current_config() or {})["azure"]["servicePrincipal"]
    assert (principal["clientSecret"], joined.arm.asked(REGENERATE)) == (NEXT, 1)
    before = joined.machine.snapshot("/var", "/etc")
    assert joined.later() == 0
    assert (joined.trouble(), joined.machine.snapshot("/var", "/etc")) == ({}, before)


# -- DELETE ------------------------------------------------------------------------------------------------

NOW = 1_800_000_000.0
DELETED = Reply(404, not_found().body)
CLUSTER_REPLY = Reply(200, json.dumps({"id": CLUSTER.upper()}).encode())
SEEN = Watched("https://arm.example/x", resource=RESOURCE, found=True)
AGAIN = Watched("https://arm.example/x", resource=RESOURCE, found=True, missing_since=NOW - GAP)


@pytest.mark.parametrize(
    ("watched", "resource", "cluster", "expected"),
    [
        pytest.param(SEEN, DELETED, CLUSTER_REPLY, Verdict.MISSING, id="the first answer"),
        pytest.param(AGAIN, DELETED, CLUSTER_REPLY, Verdict.LEAVES, id="the second answer"),
        pytest.param(
            Watched("", resource=RESOURCE, found=True, missing_since=NOW - 1),
            DELETED,
            CLUSTER_REPLY,
            Verdict.MISSING,
            id="at once again",
        ),
        pytest.param(
            Watched("", resource=RESOURCE, found=True, missing_since=NOW + 5000),
            DELETED,
            CLUSTER_REPLY,
            Verdict.MISSING,
            id="a clock that was set back",
        ),
        pytest.param(
            Watched("", resource=RESOURCE, missing_since=NOW - GAP),
            DELETED,
            CLUSTER_REPLY,
            Verdict.STAYS,
            id="it was never there",
        ),
        *(
            pytest.param(AGAIN, reply, CLUSTER_REPLY, Verdict.STAYS, id=name)
            for name, reply in {
                "a bare 404": Reply(404),
                "a 404 of a web server": Reply(404, b"<html>ResourceNotFound</html>"),
                "a list": Reply(404, b'["ResourceNotFound"]'),
                "a text as error": Reply(404, b'{"error": "ResourceNotFound"}'),
                "the group is gone": Reply(404, arm_error(404, "ResourceGroupNotFound").body),
                "the parent is gone": Reply(404, arm_error(404, "ParentResourceNotFound").body),
                "the subscription is gone": Reply(404, arm_error(404, "SubscriptionNotFound").body),
                "no such type": Reply(404, arm_error(404, "InvalidResourceType").body),
                "another node": Reply(
                    404,
                    not_found(f"{PLANT}/flexNodeConfig/edge-10").body,
                ),
                "the cluster itself": Reply(404, not_found(PLANT).body),
                "another status": Reply(410, not_found().body),
                "forbidden": Reply(403, arm_error(403, "AuthorizationFailed").body),
                "throttled": Reply(429, arm_error(429, "ResourceNotFound").body),
                "an error of Azure": Reply(500, arm_error(500, "InternalServerError").body),
                "a cut line": Reply(0),
            }.items()
        ),
        *(
            pytest.param(AGAIN, DELETED, reply, Verdict.STAYS, id=f"cluster: {name}")
            for name, reply in {
                "gone": Reply(404, arm_error(404, "ResourceNotFound").body),
                "forbidden": Reply(403, arm_error(403, "AuthorizationFailed").body),
                "down": Reply(503),
                "a cut line": Reply(0),
                "a portal": Reply(200, b"<html>welcome"),
                "another one": Reply(200, json.dumps({"id": f"{CLUSTER}2"}).encode()),
            }.items()
        ),
        pytest.param(
            AGAIN,
            Reply(404, arm_error(404, "ResourceNotFound", "gone").body),
            CLUSTER_REPLY,
            Verdict.LEAVES,
            id="another wording",
        ),
    ],
)
def test_when_a_node_leaves(watched: Watched, resource: Reply, cluster: Reply, expected: Verdict) -> None:
    assert verdict(watched, resource, cluster, NOW) is expected


def test_a_deleted_resource_takes_the_node_away_at_the_second_poll(node: Polling, capsys: Captured) -> None:
    before = node.machine.snapshot("/etc", "/opt", "/usr")
    node.join()
    assert node.poll() == 0
    node.arm.deleted = True
    assert node.later() == 0
    assert (node.is_node, node.trouble()["code"]) == (True, "FLEX-1109")
    assert node.source()["missingSince"] == node.machine.clock.time
    written = node.machine.snapshot("/")
    assert node.poll() == 0  # at once: it may be the same server that lags behind
    assert node.machine.snapshot("/") == written
    node.machine.clock.time += 30
    assert node.poll("--hand-over") == 0
    assert node.machine.commands.calls[-1][-1] == "aks-flex-node-apply.service"
    assert node.poll() == 0
    assert "no longer a node" in capsys.readouterr().out
    assert node.machine.snapshot("/etc", "/opt", "/usr") == before
    assert (node.site.api.nodes, node.machine.path(DATA_DIR).exists()) == ({}, False)
    node.arm.deleted = False
    node.join()
    assert node.poll() == 0
    assert node.is_node


def test_a_resource_that_comes_back_begins_anew(joined: Polling) -> None:
    joined.arm.deleted = True
    joined.later()
    joined.arm.deleted = False
    joined.later()
    assert (joined.source()["missingSince"], joined.trouble()) == (0.0, {})
    joined.arm.deleted = True
    joined.later()
    joined.arm.answers[GET] = arm_error(503, "ServiceUnavailable")
    joined.later()
    del joined.arm.answers[GET]
    joined.later()
    assert joined.is_node
    joined.later()
    assert not joined.is_node


def test_a_resource_that_never_was_removes_nothing(node: Polling) -> None:
    node.arm.deleted = True
    node.join()
    for _ in range(4):
        assert node.later() == 0
    assert node.is_node
    assert node.trouble()["code"] == "FLEX-1109"


@pytest.mark.parametrize(
    "answer", [arm_error(403, "AuthorizationFailed"), not_found("x/y"), Answer(b"<html>")]
)
def test_without_its_cluster_a_node_stays(joined: Polling, answer: Answer) -> None:
    joined.arm.deleted = True
    joined.arm.answers[f"GET {CLUSTER}"] = answer
    for _ in range(4):
        assert joined.later() == 0
    assert joined.is_node
    assert (joined.trouble()["code"], joined.source()["missingSince"]) == ("FLEX-1109", 0.0)
    del joined.arm.answers[f"GET {CLUSTER}"]
    joined.later(301)
    assert joined.is_node
    joined.later()
    assert not joined.is_node
