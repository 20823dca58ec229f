# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_role_assignment and flexnode_access_token: the real SDK, and the modules as Ansible runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.access import (
    access_token,
    scope_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    NotInAzure,
    PermissionMissing,
    PrincipalUnknown,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.login import (
    Login,
    sign_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.assignments import (
    Existing,
    Grant,
    Request,
    known_role,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.authorization import (
    Authorization,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.granting import plan_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.settings import settings_of
from tests.contract.recorded import Recorded, aks, arm
from tests.unit.controller.fake_azure import (
    CLIENT,
    CLUSTER,
    OBJECT,
    SUBSCRIPTION,
    TENANT,
    FakeAzure,
    Fault,
    refusal,
)
from tests.unit.controller.test_modules import run
from tests.unit.node import servers
from tests.unit.node.fakes import FakeClock
from tests.unit.node.servers import Answer, Pki, answer_json

OTHER = "22222222-8888-7777-6666-555555555555"
OWN_ROLE = "33333333-8888-7777-6666-555555555555"
MACHINE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.HybridCompute/machines/edge-1"
DEFINITIONS = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions"


@dataclass
class FakeRoles(FakeAzure):
    """Azure with role assignments, and a machine of Arc."""

    assignments: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)  # codes of the next answers to a PUT

    def _arm(self, request: servers.Request, path: str, query: Mapping[str, list[str]]) -> Answer:
        if path == MACHINE:
            return answer_json({"id": MACHINE, "identity": {"principalId": OTHER.upper()}})
        if path.endswith("/roleDefinitions"):
            known = "AKS Flex Node" in query["$filter"][0]
            found = [{"id": f"{DEFINITIONS}/{OWN_ROLE}", "name": OWN_ROLE}] if known else []
            return answer_json({"value": found})
        if path.endswith("/roleAssignments"):
            assert query["$filter"] == ["atScope()"]
            return self._pages(query)
        if "/roleAssignments/" in path:
            return self._one(request, path.rpartition("/")[2])
        return super()._arm(request, path, query)

    def _pages(self, query: Mapping[str, list[str]]) -> Answer:
        """One assignment a page."""
        start, all_of_them = int(query.get("$skiptoken", ["0"])[0]), list(self.assignments.values())
        found: dict[str, Any] = {"value": all_of_them[start : start + 1]}
        if start + 1 < len(all_of_them):
            here = f"{self.server.url}{CLUSTER}/providers/Microsoft.Authorization/roleAssignments"
            found["nextLink"] = f"{here}?$filter=atScope()&$skiptoken={start + 1}"
        return answer_json(found)

    def _one(self, request: servers.Request, name: str) -> Answer:
        if request.method == "DELETE":
            return answer_json(gone) if (gone := self.assignments.pop(name, None)) else Answer(status=204)
        if self.refused:
            code = self.refused.pop()
            return refusal(409 if code == "RoleAssignmentExists" else 400, code, "Because. Of this.")
        properties = {**request.json["properties"], "scope": CLUSTER}
        self.assignments[name] = {"id": name, "name": name, "properties": properties}
        return answer_json(self.assignments[name], 201)


@pytest.fixture
def roles(pki: Pki, tmp_path: Path) -> Iterator[FakeRoles]:
    fake = FakeRoles()
    with fake.running(pki, tmp_path):
        yield fake


@pytest.fixture
def authorization(roles: FakeRoles) -> Authorization:
    return Authorization(sign_in(settings_of({}, roles.environment)))


def grant(role: str = "reader") -> Grant:
    known = known_role(role)
    assert known
    return Grant(OBJECT, known, CLUSTER, "edge-1")


def test_assignments_are_made_listed_and_deleted(roles: FakeRoles, authorization: Authorization) -> None:
    assert authorization.at(CLUSTER) == []
    assert authorization.create(grant())
    assert authorization.create(grant("cluster-admin"))
    assert roles.assignments[grant().name]["properties"]["principalType"] == "ServicePrincipal"
    found = authorization.at(CLUSTER)
    assert [one.ours for one in found] == [True, True]
    assert found[0].grants(grant())
    authorization.delete(grant())
    authorization.delete(grant())
    assert len(authorization.at(CLUSTER)) == 1


def test_roles_and_machines_are_looked_up(authorization: Authorization) -> None:
    assert authorization.role("AKS Flex Node", CLUSTER).id == OWN_ROLE
    with pytest.raises(NotInAzure, match="Reeder"):
        authorization.role("Reeder", CLUSTER)
    assert authorization.principal_of(MACHINE) == OTHER
    with pytest.raises(NotInAzure, match="there is no machine"):
        authorization.principal_of(f"{MACHINE}2")


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (arm.ARC_MISSING.at().sent(Answer), "machine"),
        (aks.GROUP_MISSING.at().sent(Answer), "resource group"),
        (answer_json({"id": MACHINE, "identity": arm.ARC_IDENTITIES[1]}), "identity"),
        (answer_json({"id": MACHINE}), "identity"),
        (refusal(404, "SubscriptionNotFound", "The subscription could not be found."), ""),
    ],
)
def test_why_a_machine_has_no_principal(
    roles: FakeRoles, authorization: Authorization, answer: Answer, missing: str
) -> None:
    """Contradiction 11."""
    roles.faults = [Fault("GET .*/machines/", answer)]
    with pytest.raises(NotInAzure) as caught:
        authorization.principal_of(MACHINE)
    assert caught.value.unowned == missing


def test_a_role_in_a_group_that_is_gone_is_gone(roles: FakeRoles, authorization: Authorization) -> None:
    """Contradiction 3, in short."""
    gone = arm.ASSIGNMENT_OF_GONE_GROUP.at().sent(Answer)
    roles.faults = [Fault("DELETE .*/roleAssignments/", gone)]
    authorization.delete(grant())


def test_a_management_group_grants() -> None:
    """Contradiction 9, in short."""
    wanted = grant()
    assert Existing("by-others", arm.SCOPES_ABOVE[-1], wanted.role.id, OBJECT).grants(wanted)


@pytest.mark.parametrize("above", arm.SCOPES_ABOVE)
def test_what_azure_lists_from_above_grants(
    roles: FakeRoles, authorization: Authorization, above: str
) -> None:
    """Contradiction 9: atScope() also lists what is assigned at the management groups of a subscription."""
    wanted = grant()
    properties = {**wanted.properties, "scope": above.replace("{subscription}", SUBSCRIPTION)}
    roles.assignments = {"by-others": {"id": "by-others", "name": "by-others", "properties": properties}}
    (found,) = authorization.at(CLUSTER)
    assert found.grants(wanted)
    assert not found.ours


@pytest.mark.parametrize(
    "answer",
    [
        arm.ASSIGNMENT_GONE,
        arm.ASSIGNMENT_OF_GONE_GROUP,
        arm.ASSIGNMENT_OF_GONE_RESOURCE,
        aks.CLUSTER_MISSING_AT_GATEWAY,
    ],
)
def test_an_assignment_whose_scope_is_gone_is_gone(
    roles: FakeRoles, authorization: Authorization, answer: Recorded
) -> None:
    """Contradiction 3."""
    found = answer.at()
    scope, below, _name = found.path.partition("/providers/Microsoft.Authorization/")
    roles.faults = [Fault("DELETE .*/roleAssignments/", found.sent(Answer))]
    authorization.delete(replace(grant(), scope=scope) if below else grant())
    assert roles.asked("DELETE .*/roleAssignments/") == 1


def test_an_assignment_is_not_gone_where_azure_says_nothing_of_it(
    roles: FakeRoles, authorization: Authorization
) -> None:
    for answer in (Answer(b"<html>", 404), refusal(404, "SubscriptionNotFound", "It was not found.")):
        roles.faults = [Fault("DELETE .*/roleAssignments/", answer)]
        with pytest.raises(NotInAzure):
            authorization.delete(grant())


def test_an_unbootstrap_after_the_cluster_was_deleted(roles: FakeRoles, authorization: Authorization) -> None:
    """Contradiction 3: whether the list is refused in the same way was not recorded."""
    roles.faults = [Fault("GET .*/roleAssignments", aks.CLUSTER_MISSING_AT_GATEWAY.at().sent(Answer), 2)]
    request = Request(CLUSTER, "", OBJECT)
    plan = plan_of(authorization, [request], absent=True)
    assert (plan.grants, plan.failures) == ([], [])
    (failed,) = plan_of(authorization, [request]).failures
    assert isinstance(failed.error, NotInAzure), "a role is not assigned in a cluster that does not exist"


def test_what_azure_refuses(roles: FakeRoles, authorization: Authorization) -> None:
    roles.refused = ["RoleAssignmentExists"]
    assert not authorization.create(grant())
    roles.refused = ["PrincipalNotFound"]
    with pytest.raises(PrincipalUnknown, match=OBJECT):
        authorization.create(grant())
    roles.refused = ["RoleDefinitionDoesNotExist"]
    with pytest.raises(NotInAzure, match="Reader"):
        authorization.create(grant())
    roles.forbidden = "PUT"
    with pytest.raises(PermissionMissing):
        authorization.create(grant())


def test_the_module_from_plan_to_end(roles: FakeRoles, tmp_path: Path) -> None:
    nodes = [{"name": "edge-1", "principal_id": OBJECT}, {"name": "edge-2", "machine_id": MACHINE}]

    def act(*, check: bool = False, **more: Any) -> dict[str, Any]:
        given: dict[str, Any] = {"cluster_id": CLUSTER, "nodes": nodes, **more}
        return run("flexnode_role_assignment", tmp_path, roles.environment, check=check, **given)

    planned = act(check=True)
    assert (planned["changed"], len(planned["missing"]), roles.assignments) == (True, 2, {})
    done = act()
    assert done["actions"] == planned["actions"]
    assert done["missing"] == []
    assert [one["principal_id"] for one in done["assignments"]] == [OBJECT, OTHER]
    assert not act()["changed"]
    assert {one["action"] for one in act(state="query")["assignments"]} == {"present"}
    assert len(act(state="query", auth_profile="token")["missing"]) == 4
    assert [one["action"] for one in act(state="absent")["assignments"]] == ["deleted", "deleted"]
    assert not act(state="absent")["changed"]


@pytest.mark.parametrize(
    ("module", "hide", "package"),
    [
        ("flexnode_role_assignment", "azure.mgmt.authorization", "azure-mgmt-authorization"),
        ("flexnode_role_assignment", "azure.mgmt.hybridcompute", "azure-mgmt-hybridcompute"),
        ("flexnode_access_token", "azure.identity", "azure-identity"),
    ],
)
def test_a_missing_package_is_named(tmp_path: Path, module: str, hide: str, package: str) -> None:
    nodes = [{"name": "edge-1", "machine_id": MACHINE}]
    given: dict[str, Any] = {"nodes": nodes, "cluster_id": CLUSTER} if "role" in module else {}
    answer = run(module, tmp_path, hide=hide, **given)
    assert f"({package})" in answer["msg"]


def test_arc_is_not_needed_for_other_identities(roles: FakeRoles, tmp_path: Path) -> None:
    given: dict[str, Any] = {"cluster_id": CLUSTER, "nodes": [{"name": "edge-1", "principal_id": OBJECT}]}
    hidden = "azure.mgmt.hybridcompute"
    assert run("flexnode_role_assignment", tmp_path, roles.environment, hide=hidden, **given)["changed"]


@pytest.mark.parametrize(
    ("audience", "scope"),
    [
        ("https://management.azure.com/", "https://management.azure.com/.default"),
        ("https://vault.azure.net", "https://vault.azure.net/.default"),
        (CLIENT, f"{CLIENT}/.default"),
        (f"{CLIENT}/.default", f"{CLIENT}/.default"),
    ],
)
def test_how_an_audience_is_asked_for(audience: str, scope: str) -> None:
    assert scope_of(audience) == scope


def test_a_token_and_what_is_known_of_it(login: Login) -> None:
    found = access_token(login, "", FakeClock(time=0))
    assert found["audience"] == "https://management.azure.com"
    assert found["access_token"].endswith(".signature")
    assert (found["object_id"], found["tenant_id"]) == (OBJECT, TENANT)
    assert found["expires"].endswith("Z")
    assert found["expires_in"] > 0


def test_the_module_returns_the_token_and_fails_without_one(azure: FakeAzure, tmp_path: Path) -> None:
    found = run("flexnode_access_token", tmp_path, azure.environment, audience=CLIENT)
    assert found["access_token"].count(".") == 2
    assert (found["changed"], found["audience"]) == (False, CLIENT)
    wrong = {**azure.environment, "AZURE_SECRET": "wrong"}
    answer = run("flexnode_access_token", tmp_path, wrong)
    assert answer["error"]["code"] == "FLEX-1701"
    assert "access_token" not in answer
