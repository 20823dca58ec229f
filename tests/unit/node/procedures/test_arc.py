# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Azure Arc: registered once, as requested; removed only if this collection registered it."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Store
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ArtifactTooLarge,
    ArtifactTruncated,
    ArtifactUnreachable,
    DigestMismatch,
    StateCorrupt,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.cache import HANDOVER
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import (
    IdentityRefused,
    TokenSourceUnreachable,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.token import AccessToken
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.answer import HttpFailure
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.rights import (
    APPROVAL,
    BOOTSTRAPPER,
    GET_CERTIFICATE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc import (
    agent,
    package,
    registration,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.agent import (
    Registration,
    RegistrationRequest,
    tag_list,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import (
    ArcElsewhere,
    ArcFailed,
    ArcMissing,
    ArcPackageFailed,
    ArcUnhealthy,
    ArmUnusable,
    RolesMissing,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.registration import (
    Package,
    query,
    register,
    unregister,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import (
    ROLES,
    Grants,
    Missing,
    allowed,
    missing_bindings,
    missing_roles,
    needed,
    wait_for_roles,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.secret import REDACTED, Secret
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.fakes import FakeClock, Machine
from tests.unit.node.servers import Answer, Pki, Request, answer_json, serving

AGENT = Path(__file__).with_name("fake_azcmagent.py")
TOKEN = Secret("t0ken-of-the-installer")
EDGE = Registration("sub-1", "edge", "edge-1")
REQUEST = RegistrationRequest(
    registration=EDGE, tenant_id="tenant-1", location="westeurope", tags={"site": "lab 1"}
)
UNITS = ("himdsd.service", "extd.service", "gcad.service")
PACKAGE = b"!<arch>\nnot really"
DIGEST = hashlib.sha256(PACKAGE).hexdigest()


@dataclass
class Site:
    """A machine whose azcmagent is a program, and whose dpkg puts it there and takes it away."""

    machine: Machine
    installed: bool = True
    dpkg: list[Completed] = field(default_factory=list)

    def run(self, argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        if argv[0] == "azcmagent":
            self.machine.commands.calls.append(tuple(argv))
            if not self.installed:
                return Completed(tuple(argv), 127, "", "azcmagent: not found")
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(AGENT), *argv[1:]],
                capture_output=True,
                text=True,
                check=False,
                timeout=20,
                env={"AGENT_ROOT": str(self.machine.root), "PATH": os.environ["PATH"]},
            )
            return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
        if argv[0] == "dpkg" and self.dpkg:
            self.machine.commands.calls.append(tuple(argv))
            return self.dpkg.pop(0)
        if argv[0] == "dpkg":
            self.installed = argv[1] == "--install"
        return self.machine.commands(argv, data, timeout)

    @property
    def host(self) -> Host:
        return Host(root=str(self.machine.root), runner=self.run, clock=self.machine.clock)

    @property
    def store(self) -> Store:
        return Store(self.host)

    def register(
        self, request: RegistrationRequest = REQUEST, token: Secret | None = TOKEN, **more: Any
    ) -> registration.Outcome:
        return register(self.host, self.store, request, token, **more)

    def unregister(self, token: Secret | None = TOKEN, **more: Any) -> registration.Outcome:
        return unregister(self.host, token, **more)

    def agent_calls(self, command: str) -> list[dict[str, Any]]:
        log = self.machine.root / "agent.log"
        calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return [call for call in calls if call["argv"][0] == command]

    def is_registered(self, **more: str) -> None:
        """Somebody registered it before we came."""
        known = {
            "resourceName": "edge-1",
            "resourceGroup": "edge",
            "subscriptionId": "sub-1",
            "status": "Connected",
            **more,
        }
        (self.machine.root / "agent.json").write_text(json.dumps(known))

    def trouble(self, **commands: dict[str, Any]) -> None:
        (self.machine.root / "trouble.json").write_text(json.dumps(commands))


@pytest.fixture
def site(machine: Machine) -> Site:
    machine.commands.units = dict.fromkeys(UNITS, "active")
    return Site(machine)


def test_a_machine_is_registered_once(site: Site) -> None:
    told: list[str] = []
    done = site.register(progress=told.append)
    assert done.actions == [f"register this machine as {EDGE.resource_id}"] == told
    assert done.as_dict() == {
        "installed": True,
        "connected": True,
        "agent_status": "Connected",
        "resource_id": EDGE.resource_id,
        "vm_id": "a-vm-id",
        "tenant_id": "tenant-1",
        "location": "westeurope",
        "agent_version": "1.62",
        "agent_error": "",
        "principal_id": "",
        "services": {"himdsd": "active", "extd": "active", "gcad": "active"},
        "registered_by_us": True,
    }
    assert not site.register(token=None).changed
    assert len(site.agent_calls("connect")) == 1


def test_the_token_is_in_a_file_of_roots_and_nowhere_else(site: Site) -> None:
    site.register()
    (call,) = site.agent_calls("connect")
    assert call["mode"] == 0o600
    assert call["options"] == {
        "access-token": TOKEN.reveal(),
        "subscription-id": "sub-1",
        "tenant-id": "tenant-1",
        "resource-group": "edge",
        "resource-name": "edge-1",
        "location": "westeurope",
        "cloud": "AzureCloud",
        "tags": "site='lab 1'",
    }
    assert not site.machine.path(HANDOVER).exists()
    assert not any(TOKEN.reveal() in word for call_ in site.machine.commands.calls for word in call_)
    left = [path for path in site.machine.root.rglob("*") if path.is_file() and path.name != "agent.log"]
    assert not any(TOKEN.reveal() in path.read_text() for path in left)


def test_check_mode_only_says_so(site: Site) -> None:
    planned = site.register(check=True, token=None)
    assert planned.actions == [f"register this machine as {EDGE.resource_id}"]
    assert site.agent_calls("connect") == []
    assert not site.machine.path("/var/lib/aks-flex-node").exists()


@pytest.mark.parametrize("name", ["edge-1", "EDGE-1"])
def test_a_registration_of_somebody_else_is_used_and_never_removed(site: Site, name: str) -> None:
    site.is_registered(resourceName=name)
    done = site.register()
    assert (done.changed, done.ours) == (False, False)
    gone = site.unregister()
    assert not gone.changed
    assert "someone else" in gone.remains[0]
    assert site.agent_calls("disconnect") == []


def test_another_registration_is_an_error_that_names_both(site: Site) -> None:
    site.is_registered(resourceName="other")
    with pytest.raises(ArcElsewhere) as raised:
        site.register()
    assert "machines/other" in raised.value.what
    assert EDGE.resource_id in raised.value.where
    assert "set azure.arc.machineName: other;" in raised.value.fix
    assert "azcmagent disconnect --force-local-only" in raised.value.fix, "it may be a copy of another disk"
    assert site.agent_calls("connect") == []


def test_settings_that_confirm_a_registration_are_those_that_differ() -> None:
    other = Registration("SUB-1", "lab", "edge-2")
    assert other.settings(EDGE) == "azure.arc.machineName: edge-2, azure.arc.resourceGroup: lab"
    assert Registration("sub-2", "edge", "EDGE-1").settings(EDGE) == "azure.subscriptionId: sub-2"


def test_what_we_registered_is_taken_back_once(site: Site) -> None:
    site.register()
    gone = site.unregister()
    assert gone.actions == [f"remove the registration {EDGE.resource_id}"]
    assert site.agent_calls("disconnect")[0]["options"] == {"access-token": TOKEN.reveal()}
    assert not gone.status.connected
    assert not site.unregister().changed
    assert not site.machine.path("/var/lib/aks-flex-node").exists()


def test_without_a_token_it_is_not_taken_back_by_accident(site: Site) -> None:
    site.register()
    with pytest.raises(ArcFailed, match="an access token is needed"):
        site.unregister(token=None)
    gone = site.unregister(token=None, local_only=True)
    assert site.agent_calls("disconnect")[0]["options"] == {"force-local-only": True}
    assert "delete the resource in Azure" in gone.remains[0]


def test_tokens_of_the_machine_end_with_its_registration(site: Site) -> None:
    kept = site.machine.put("/run/aks-flex-node/tokens/abc", "{}", 0o600)
    site.register()
    assert not kept.exists()
    kept = site.machine.put("/run/aks-flex-node/tokens/abc", "{}", 0o600)
    site.unregister()
    assert not kept.exists()


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (12, "new one"),
        (26, "azcmagent check"),
        (42, "Onboarding"),
        (44, "another machine name"),
        (99, "azcmagent show"),
    ],
)
def test_what_the_agent_complains_about(site: Site, code: int, advice: str) -> None:
    site.trouble(connect={"code": code, "text": f"no, not with {TOKEN.reveal()}"})
    with pytest.raises(ArcFailed) as raised:
        site.register()
    assert f"AZCM{code:04}" in raised.value.why
    assert advice in raised.value.fix
    assert TOKEN.reveal() not in str(raised.value)
    assert not site.machine.path(HANDOVER).exists()
    site.trouble()
    assert site.register().ours


def test_a_registration_that_fails_after_it_was_made_is_still_ours(site: Site) -> None:
    site.trouble(connect={"code": 62, "text": "late", "after": True})
    with pytest.raises(ArcFailed):
        site.register()
    site.trouble()
    assert site.register(token=None).ours
    assert site.unregister().changed


def test_a_run_that_was_killed_in_the_middle(site: Site) -> None:
    site.machine.put("/var/lib/aks-flex-node/arc.json", json.dumps({"registration": EDGE.resource_id}))
    site.machine.put(HANDOVER, TOKEN.reveal(), 0o600)
    site.register()
    assert not site.machine.path(HANDOVER).exists()
    assert site.unregister().changed


def test_a_record_that_can_not_be_read_is_told(site: Site) -> None:
    site.machine.put("/var/lib/aks-flex-node/arc.json", "[")
    with pytest.raises(StateCorrupt):
        query(site.host)


def test_an_agent_that_says_nonsense(site: Site) -> None:
    site.trouble(show={"code": 61, "text": "himds is down"})
    with pytest.raises(ArcFailed) as raised:
        query(site.host)
    assert "systemctl restart himdsd" in raised.value.fix


# -- the agent at work -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gcad", "gcarcservice"])
def test_guest_configuration_has_two_names(site: Site, name: str) -> None:
    site.machine.commands.units = dict.fromkeys(
        ("himdsd.service", "extd.service", f"{name}.service"), "active"
    )
    assert agent.services(site.host) == {"himdsd": "active", "extd": "active", name: "active"}


def test_services_are_waited_for(site: Site) -> None:
    site.machine.commands.units["extd.service"] = "inactive"
    site.machine.clock.then = lambda: site.machine.commands.units.update({"extd.service": "active"})
    assert site.register().services["extd"] == "active"
    assert site.machine.clock.naps == [1.0]


def test_services_that_do_not_come(site: Site) -> None:
    site.machine.commands.units["extd.service"] = "failed"
    with pytest.raises(ArcUnhealthy) as raised:
        site.register(services_seconds=5)
    assert raised.value.why == "extd not running"
    assert "systemctl restart extd" in raised.value.fix


def test_an_agent_that_azure_does_not_hear(site: Site) -> None:
    site.is_registered(status="Expired", agentErrorCode="AZCM0026")
    with pytest.raises(ArcUnhealthy, match="does not work") as raised:
        site.register(services_seconds=3)
    assert raised.value.why == "its status is Expired; AZCM0026"


def test_a_proxy(site: Site) -> None:
    done = site.register(proxy="http://proxy:3128")
    assert done.actions[-1] == "set the Arc agent's proxy: http://proxy:3128"
    assert not site.register(proxy="http://proxy:3128").changed
    with pytest.raises(ArcFailed, match="can't use this proxy") as raised:
        site.register(proxy="http://user:pa55word@proxy:3128")
    assert "pa55word" not in str(raised.value)


def test_tags_as_the_agent_reads_them() -> None:
    assert tag_list({"b": "2, or 3", "a": "x=y", "c": "1"}) == "a='x=y',b='2, or 3',c=1"
    with pytest.raises(ArcFailed):
        tag_list({"a": "it's"})


# -- the package -------------------------------------------------------------------------------------------


def served(pki: Pki, url: str, digest: str = DIGEST, query: str = "") -> Package:
    return Package(f"{url}/azcmagent.deb{query}", digest, HttpClient(ca_pem=pki.ca_pem, attempts=1))


def test_an_agent_that_is_not_there_is_installed_and_removed_again(site: Site, pki: Pki) -> None:
    site.installed = False
    with pytest.raises(ArcMissing):
        site.register()
    with serving(lambda _: Answer(PACKAGE), pki.server_context()) as server:
        planned = site.register(package_=served(pki, server.url), check=True)
        assert server.requests == []
        done = site.register(package_=served(pki, server.url))
        assert done.actions == planned.actions
        assert done.actions[0] == f"install the Arc agent from {server.url}/azcmagent.deb"
        assert not site.register(package_=served(pki, server.url)).changed
    assert len(server.requests) == 1
    assert not list(site.machine.path("/var/lib/aks-flex-node/cache").iterdir())
    assert not site.machine.path("/opt").exists()
    gone = site.unregister()
    assert gone.actions == [f"remove the registration {EDGE.resource_id}", "remove the Arc agent"]
    assert site.machine.path("/opt").is_dir(), "dpkg takes it where nothing else is in it"
    assert not gone.status.installed
    assert not site.unregister().changed


def test_an_agent_that_was_there_is_never_removed(site: Site, pki: Pki) -> None:
    with serving(lambda _: Answer(PACKAGE), pki.server_context()) as server:
        site.register(package_=served(pki, server.url))
    assert server.requests == []
    site.unregister()
    assert site.installed
    assert site.machine.commands.times("dpkg") == 0


def test_our_agent_stays_where_somebody_else_registered_with_it(site: Site, pki: Pki) -> None:
    site.installed = False
    with serving(lambda _: Answer(PACKAGE), pki.server_context()) as server:
        site.register(package_=served(pki, server.url))
    site.is_registered(resourceName="other")
    assert not site.unregister().changed
    assert site.installed


@pytest.mark.parametrize(
    ("answer", "digest", "error"),
    [
        (Answer(PACKAGE), "0" * 64, DigestMismatch),
        (Answer(status=404), DIGEST, ArtifactUnreachable),
        (Answer(PACKAGE, cut=5), DIGEST, ArtifactTruncated),
        (Answer(PACKAGE, headers={"Content-Length": str(1 << 40)}), DIGEST, ArtifactTooLarge),
    ],
)
def test_a_package_that_is_not_what_it_must_be(
    site: Site, pki: Pki, answer: Answer, digest: str, error: type[Exception]
) -> None:
    site.installed = False
    with serving(lambda _: answer, pki.server_context()) as server, pytest.raises(error) as raised:
        site.register(package_=served(pki, server.url, digest, "?sv=2024&sig=s1gnature"))
    assert server.asked == ["GET /azcmagent.deb?sv=2024&sig=s1gnature"]
    assert f"{server.url}/azcmagent.deb?…" in str(raised.value)
    assert "s1gnature" not in str(raised.value)
    assert site.machine.commands.times("dpkg") == 0
    assert not list(site.machine.path("/var/lib/aks-flex-node/cache").iterdir())


class Endless(HttpClient):
    """A server that announces no length, and sends without end."""

    headers: ClassVar[dict[str, str]] = {}
    sent = 0

    def open(self, *_request: Any, **_more: Any) -> Any:
        return self

    def __enter__(self) -> Endless:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def read(self, size: int) -> bytes:
        self.sent += size
        assert self.sent < 64 << 20, "it fills the disk"
        return bytes(size)


def test_a_package_without_end_does_not_fill_the_disk(site: Site) -> None:
    client = Endless()
    with pytest.raises(ArtifactTooLarge, match="too large") as raised:
        package.fetch(site.host, client, "https://mirror/x.deb", DIGEST, "/cache", largest=4 << 20)
    assert client.sent < 8 << 20
    assert "flexnode_arc_package_url" in raised.value.fix
    assert not list(site.machine.path("/cache").iterdir())


def test_dpkg_waits_its_turn_and_then_complains(site: Site, pki: Pki) -> None:
    site.installed = False
    lock = "dpkg: error: dpkg frontend lock was locked by another process with pid 1\n"
    site.dpkg = [Completed(("dpkg",), 2, "", lock), Completed(("dpkg",), 1, "", "dependency problems\n")]
    with (
        serving(lambda _: Answer(PACKAGE), pki.server_context()) as server,
        pytest.raises(ArcPackageFailed) as raised,
    ):
        site.register(package_=served(pki, server.url))
    assert site.machine.clock.naps == [5]
    assert "dependency problems" in raised.value.why
    assert "apt-get --fix-broken install" in raised.value.fix


def test_unattended_upgrades_that_do_not_end(site: Site, pki: Pki) -> None:
    """Waited for as long as they take on a slow machine, and said once; then they are named."""
    site.installed = False
    lock = "dpkg: error: dpkg frontend lock was locked by another process with pid 77\n"
    site.dpkg = [Completed(("dpkg",), 2, "", lock)] * 200
    said: list[str] = []
    with (
        serving(lambda _: Answer(PACKAGE), pki.server_context()) as server,
        pytest.raises(ArcPackageFailed) as raised,
    ):
        site.register(package_=served(pki, server.url), progress=said.append)
    assert sum(site.machine.clock.naps) >= 900
    assert said.count("waiting until another process has installed its packages") == 1
    assert "pid 77" in raised.value.why
    assert "for 15 min" in raised.value.fix


# -- roles -------------------------------------------------------------------------------------------------

CLUSTER = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
AKS = "Microsoft.ContainerService/managedClusters"


@pytest.mark.parametrize(
    ("grant", "permission", "data", "expected"),
    [
        ({"actions": ["*/read"]}, f"{AKS}/read", False, True),
        ({"actions": ["*"]}, f"{AKS}/read", False, True),
        ({"actions": ["*"], "notActions": [f"{AKS}/*"]}, f"{AKS}/read", False, False),
        ({"actions": ["*"]}, f"{AKS}/nodes/write", True, False),
        ({"dataActions": [f"{AKS}/*"]}, f"{AKS}/nodes/write", True, True),
        (
            {"dataActions": [f"{AKS}/*"], "notDataActions": [f"{AKS}/nodes/*"]},
            f"{AKS}/nodes/write",
            True,
            False,
        ),
        ({"actions": ["microsoft.containerservice/MANAGEDCLUSTERS/read"]}, f"{AKS}/read", False, True),
        ({"actions": ["Microsoft.ContainerService/managedClusters.read"]}, f"{AKS}/read", False, False),
        ({"actions": None}, f"{AKS}/read", False, False),
        ({}, f"{AKS}/read", False, False),
    ],
)
def test_what_a_grant_allows(grant: dict[str, Any], permission: str, data: bool, expected: bool) -> None:
    assert allowed([grant], permission, data=data) is expected


def test_one_grant_does_not_take_away_what_another_gives() -> None:
    grants = [{"actions": ["*"], "notActions": ["*/read"]}, {"actions": ["*/read"]}]
    assert allowed(grants, f"{AKS}/read")


@dataclass
class Somebody:
    name: str = "somebody"
    audiences: list[str] = field(default_factory=list)

    def token(self, audience: str) -> AccessToken:
        self.audiences.append(audience)
        payload = urlsafe_b64encode(json.dumps({"oid": "who-am-i"}).encode()).decode()
        return AccessToken(Secret(f"head.{payload}.sign"), 0, 0)


Arm = Callable[[Callable[[Request], Answer]], list[Missing]]


@pytest.fixture
def arm(pki: Pki) -> Callable[..., tuple[list[Missing], list[Request]]]:
    def ask(answer: Callable[[Request], Answer], roles: Sequence[str] = needed("token")) -> Any:
        with serving(answer, pki.server_context()) as server:
            client = HttpClient(ca_pem=pki.ca_pem, attempts=1)
            grants = Grants(Somebody(), server.url, client)
            return missing_roles(grants, Somebody(), CLUSTER, roles), server.requests

    return ask


GRANTED: dict[str, dict[str, list[str]]] = {
    "reader": {"actions": ["*/read"]},
    "rbac-cluster-admin": {"dataActions": [f"{AKS}/*"]},
    "cluster-admin": {"actions": [f"{AKS}/listClusterAdminCredential/action", f"{AKS}/read"]},
}


@pytest.mark.parametrize(
    ("have", "missing"),
    [
        ([], ["reader", "rbac-cluster-admin", "cluster-admin"]),
        (["reader"], ["rbac-cluster-admin", "cluster-admin"]),
        (["cluster-admin"], ["rbac-cluster-admin"]),  # it reads too: what counts is what is allowed
        (["reader", "rbac-cluster-admin", "cluster-admin"], []),
    ],
)
def test_which_roles_are_missing(arm: Any, have: list[str], missing: list[str]) -> None:
    found, requests = arm(lambda _: answer_json({"value": [GRANTED[key] for key in have]}))
    assert [one.role_id for one in found] == [ROLES[key].id for key in missing]
    (request,) = requests
    assert request.path == f"{CLUSTER}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
    assert request.headers["Authorization"].startswith("Bearer head.")
    for one in found:
        assert one.command == (
            "az role assignment create --assignee-object-id who-am-i --assignee-principal-type "
            f"ServicePrincipal --role {one.role_id} --scope {CLUSTER}"
        )


def test_who_may_not_even_ask_has_nothing(arm: Any) -> None:
    found, _ = arm(lambda _: answer_json({"error": {"code": "AuthorizationFailed"}}, 403), ("reader",))
    assert [one.role for one in found] == ["Reader"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(status=401), IdentityRefused),
        (Answer(status=404), ArmUnusable),
        (Answer(status=503), ArmUnusable),
        (Answer(b"<html>"), ArmUnusable),
        (answer_json([]), ArmUnusable),
    ],
)
def test_answers_that_are_none(arm: Any, answer: Answer, error: type[Exception]) -> None:
    with pytest.raises(error):
        arm(lambda _: answer)


def test_pages_are_followed_but_not_to_strangers(arm: Any, pki: Pki) -> None:
    with serving(lambda _: answer_json({"value": []}), pki.server_context()) as stranger:
        next_link = {"value": [], "nextLink": f"{stranger.url}/more"}
        found, _ = arm(lambda _: answer_json(next_link), ("reader",))
    assert stranger.requests == []
    assert len(found) == 1


READER = Missing("Reader", CLUSTER, "az role assignment create ...", ROLES["reader"].id)


@pytest.mark.parametrize(
    ("profile", "api", "expected"),
    [
        ("certificate", FakeApi(), []),
        ("certificate", FakeApi(denied={GET_CERTIFICATE[1].words}), [APPROVAL]),
        ("certificate", FakeApi(denied={act.words for act in GET_CERTIFICATE}), [BOOTSTRAPPER, APPROVAL]),
        ("token", FakeApi(denied={"create nodes", "watch pods"}), ["system:node"]),
        ("token", FakeApi(refuse={"POST": 401}), []),  # preflight tells of it
        ("token", FakeApi(refuse={"POST": 500}), []),
    ],
)
def test_what_the_machine_may_do_in_the_cluster(
    pki: Pki, profile: str, api: FakeApi, expected: list[str]
) -> None:
    with serving(api.answer, pki.server_context()) as server:
        client = KubeClient(server.url, pki.ca_pem, token="any", attempts=1)
        found = missing_bindings(client, Somebody(), "https://arm/", profile, "edge-1")
    assert [(one.role, one.role_id) for one in found] == [(role, "") for role in expected]
    assert all(one.command.endswith(f"--clusterrole={one.role} --user=who-am-i") for one in found)
    assert {one.as_dict()["kind"] for one in found} <= {"kubernetes"}


def test_a_role_that_is_granted_while_we_wait() -> None:
    clock, told = FakeClock(), list[str]()
    answers = [[READER]] * 12 + [[]]
    wait_for_roles(lambda: answers.pop(0), clock, 1800, told.append)
    assert told[0] == f"waiting for Reader at {CLUSTER} (0 of 1800 s)"
    assert told[1] == f"grant it: {READER.command}"
    assert len(told) < 10  # a line a minute, not one an attempt
    assert max(clock.naps) == 30


def test_a_role_that_is_never_granted() -> None:
    clock = FakeClock()
    with pytest.raises(RolesMissing) as raised:
        wait_for_roles(lambda: [READER], clock, 1800, lambda _: None)
    assert sum(clock.naps) == pytest.approx(1800)
    assert READER.command in raised.value.fix


# -- ours, and others' -------------------------------------------------------------------------------------


def test_the_record_has_one_place_wherever_the_data_is(site: Site) -> None:
    register(site.host, Store(site.host, "/srv/flex"), REQUEST, TOKEN)
    assert site.machine.path("/var/lib/aks-flex-node/arc.json").exists()
    assert not site.machine.path("/srv/flex/arc.json").exists()
    assert query(site.host).ours


def test_the_same_name_is_not_the_same_machine(site: Site) -> None:
    site.register()
    site.is_registered(vmId="another-vm-id")
    gone = site.unregister()
    assert not gone.changed
    assert "someone else" in gone.remains[0]
    assert site.agent_calls("disconnect") == []


@pytest.mark.parametrize("unpacked", [False, True])
def test_a_package_that_dpkg_did_not_install_is_not_ours(site: Site, pki: Pki, unpacked: bool) -> None:
    site.installed = False
    broken = Completed(("dpkg",), 1, "", "dependency problems\n")

    class Half(list[Completed]):
        def pop(self, index: Any = -1) -> Completed:
            site.installed = unpacked
            return super().pop(index)

    site.dpkg = Half([broken])
    with serving(lambda _: Answer(PACKAGE), pki.server_context()) as server, pytest.raises(ArcPackageFailed):
        site.register(package_=served(pki, server.url))
    site.installed = True  # somebody else mends it
    site.register()
    site.unregister()
    assert site.installed != unpacked


def test_an_agent_of_others_keeps_its_proxy(site: Site) -> None:
    site.is_registered(proxy="http://theirs:3128")
    assert not site.register(proxy="http://ours:3128").changed
    assert agent.proxy_of(site.host) == "http://theirs:3128"


def test_the_proxy_that_was_there_is_put_back(site: Site) -> None:
    (site.machine.root / "agent.json").write_text(json.dumps({"proxy": "http://theirs:3128"}))
    site.register(proxy="http://first:3128")
    site.register(proxy="http://ours:3128")
    assert site.unregister().actions[-1] == "restore the Arc agent's proxy: http://theirs:3128"
    assert agent.proxy_of(site.host) == "http://theirs:3128"
    assert not site.unregister().changed


def test_a_password_that_somebody_gave_the_agent_is_not_shown(site: Site) -> None:
    theirs = "http://user:password@theirs:3128"
    (site.machine.root / "agent.json").write_text(json.dumps({"proxy": theirs}))
    site.register(proxy="http://ours:3128")
    assert site.unregister().actions[-1] == "restore the Arc agent's proxy: http://theirs:3128"
    assert agent.proxy_of(site.host) == theirs


def test_a_proxy_that_somebody_changed_since_stays(site: Site) -> None:
    site.register(proxy="http://ours:3128")
    agent.set_proxy(site.host, "http://newer:3128")
    site.unregister()
    assert agent.proxy_of(site.host) == "http://newer:3128"


def test_a_proxy_that_is_only_marked_is_refused(site: Site) -> None:
    with pytest.raises(ArcFailed, match="can't use this proxy"):
        site.register(proxy=REDACTED)
    assert agent.proxy_of(site.host) == ""


def test_a_wait_for_roles_outlasts_troubles_that_pass() -> None:
    clock, told = FakeClock(), list[str]()
    answers: list[Exception] = [ArmUnusable("no answer"), TokenSourceUnreachable("no token")]

    def look() -> list[Missing]:
        if answers:
            raise answers.pop(0)
        return []

    wait_for_roles(look, clock, 60, told.append)
    assert len(told) == 2
    answers.append(ArmUnusable("no answer"))
    with pytest.raises(ArmUnusable):
        wait_for_roles(look, clock, 0, told.append)


def test_a_wait_for_roles_asks_no_earlier_than_azure_says() -> None:
    clock, told, answers = FakeClock(), list[str](), [90.0, 600.0]

    def look() -> list[Missing]:
        why = HttpFailure("https://arm.example", "HTTP 429", status=429, retry_after=answers.pop(0))
        raise ArmUnusable("no answer") from why

    with pytest.raises(ArmUnusable):
        wait_for_roles(look, clock, 300, told.append)
    assert (clock.naps, answers) == ([90.0], [])


def test_what_each_profile_needs() -> None:
    assert needed("certificate", monitored=False) == ()
    assert needed("certificate") == ("reader",)
    assert needed("token", monitored=False) == tuple(ROLES)[:3]
    assert needed("certificate", pool=True) == ("flex-node-agent",)
    assert needed("certificate", pool=True, purposes=("kubernetes",)) == ()
    assert needed("token", purposes=["kubernetes"]) == ("rbac-cluster-admin", "cluster-admin")
    assert needed("token", purposes=["azure"]) == ("reader",)
