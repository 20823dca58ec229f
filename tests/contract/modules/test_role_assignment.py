# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""flexnode_role_assignment and flexnode_access_token against the emulated Azure."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from testbed import Testbed
from testbed.azure import Azure, Fault, Principal
from tests.contract.modules.conftest import Person

MODULE = "flexnode_role_assignment"
MANAGER = "Role Based Access Control Administrator"
READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
USER_ROLE = "Azure Kubernetes Service Cluster User Role"
ARM = "https://management.azure.com"
MACHINES = "2026-07-15"


@pytest.fixture
def machines(azure: Azure) -> Iterator[list[Principal]]:
    """Identities of machines."""
    made = [azure.app_registration(f"machine {uuid.uuid4()}") for _ in range(3)]
    yield made
    for one in made:
        azure.revoke(one)
        azure.remove_registration(one.name)


@pytest.fixture
def manager(person: Callable[..., Person]) -> Person:
    """Somebody who may give roles, and nothing else."""
    return person(MANAGER)


def nodes(machines: list[Principal]) -> list[dict[str, str]]:
    return [{"name": f"edge-{n}", "principal_id": one.object_id} for n, one in enumerate(machines, 1)]


def told(answer: dict[str, Any]) -> list[str]:
    return [one["action"] for one in answer["assignments"]]


def calls(bed: Testbed, method: str, pattern: str) -> int:
    return sum(
        one.method == method and bool(re.search(pattern, one.path, re.IGNORECASE))
        for one in bed.azure.requests()
    )


def arm(bed: Testbed, method: str, path: str, token: str, body: Any = None) -> requests.Response:
    """One request by hand, as whoever holds the token."""
    return requests.request(
        method,
        f"{bed.azure.url}{path}",
        json=body,
        headers={"Authorization": f"Bearer {token}"},
        verify=str(bed.ca_file),
        timeout=30,
    )


def test_the_life_of_assignments(bed: Testbed, manager: Person, machines: list[Principal]) -> None:
    given: dict[str, Any] = {
        "cluster_id": bed.azure.cluster_id,
        "nodes": nodes(machines),
        "auth_profile": "token",
    }
    planned = manager.do(MODULE, check=True, **given)
    assert (planned["changed"], len(planned["missing"]), len(planned["diff"])) == (True, 9, 9)
    looked = manager.do(MODULE, state="query", **given)
    assert (looked["changed"], set(told(looked)), len(looked["missing"])) == (False, {"missing"}, 9)

    bed.azure.forget_requests()
    done = manager.do(MODULE, **given)
    assert (set(told(done)), done["missing"], len(done["actions"])) == ({"created"}, [], 9)
    counted = [
        calls(bed, "POST", "/token$"),
        calls(bed, "GET", "/roleAssignments$"),
        calls(bed, "PUT", "/roleAssignments/"),
    ]
    assert counted == [1, 1, 9]

    bed.azure.forget_requests()
    again = manager.do(MODULE, **given)
    assert (again["changed"], set(told(again)), calls(bed, "PUT", "")) == (False, {"unchanged"}, 0)
    assert all(one["ours"] for one in again["assignments"])
    assert set(told(manager.do(MODULE, state="query", **given))) == {"present"}

    # What one machine loses, whatever its profile is by now, the others keep.
    one: dict[str, Any] = {"cluster_id": bed.azure.cluster_id, "nodes": nodes(machines)[:1]}
    assert len(manager.do(MODULE, check=True, state="absent", **one)["actions"]) == 3
    assert told(manager.do(MODULE, state="absent", **one)) == ["deleted"] * 3
    assert not manager.do(MODULE, state="absent", **one)["changed"]
    left = manager.do(MODULE, state="query", **given)["assignments"]
    assert [entry["action"] for entry in left] == ["missing"] * 3 + ["present"] * 6
    assert told(manager.do(MODULE, state="absent", **given)) == ["deleted"] * 6


def test_what_somebody_else_gave_is_theirs(
    bed: Testbed, azure: Azure, manager: Person, machines: list[Principal]
) -> None:
    group = azure.cluster_id.partition("/providers/")[0]
    azure.grant(machines[0], "Reader")
    azure.grant(machines[1], "Reader", group)
    given: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": nodes(machines)}
    done = manager.do(MODULE, **given)
    assert told(done) == ["unchanged", "unchanged", "created"]
    assert [one["ours"] for one in done["assignments"]] == [False, False, True]
    assert group in done["assignments"][1]["reason"]
    gone = manager.do(MODULE, state="absent", roles=["reader"], **given)
    assert told(gone) == ["kept", "kept", "deleted"]
    (first, second, third) = manager.do(MODULE, state="query", **given)["assignments"]
    assert [first["action"], second["action"], third["action"]] == ["present", "present", "missing"]
    assert manager.do(MODULE, state="absent", **given)["assignments"] == []


def test_the_command_that_is_shown_means_the_same(
    bed: Testbed, azure: Azure, manager: Person, machines: list[Principal]
) -> None:
    given: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": nodes(machines)[:1]}
    (missing,) = manager.do(MODULE, state="query", **given)["missing"]
    words = shlex.split(missing["command"])
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert words[:4] == ["az", "role", "assignment", "create"]
    assert options["--assignee-object-id"] == machines[0].object_id
    azure.grant(machines[0], options["--role"], options["--scope"])
    assert told(manager.do(MODULE, **given)) == ["unchanged"]


def test_a_role_by_name_guid_and_short_name(
    bed: Testbed, azure: Azure, manager: Person, machines: list[Principal]
) -> None:
    group = azure.cluster_id.partition("/providers/")[0]
    azure.grant(manager.principal, MANAGER, group)
    who = machines[0].object_id
    single = [
        {"principal_id": who, "role": role, "scope": scope}
        for role, scope in [
            (USER_ROLE, azure.cluster_id),
            (READER.upper(), azure.cluster_id),
            ("reader", f"{azure.cluster_id}/"),
            ("Reader", group),
        ]
    ]
    done = manager.do(MODULE, assignments=single)
    assert [one["role"] for one in done["assignments"]] == [USER_ROLE, "Reader", "Reader"]
    assert told(manager.do(MODULE, assignments=single)) == ["unchanged"] * 3
    assert told(manager.do(MODULE, assignments=single, state="absent")) == ["deleted"] * 3
    wrong = manager.run(MODULE, assignments=[{**single[0], "role": "Reeder"}])
    assert wrong["error"]["code"] == "FLEX-1703"
    assert "Reeder" in wrong["msg"]
    nowhere = manager.run(MODULE, assignments=[{**single[0], "role": str(uuid.UUID(int=1))}])
    assert "az role definition" in nowhere["msg"]


def test_a_principal_that_azure_has_not_heard_of_yet(
    bed: Testbed, azure: Azure, manager: Person, machines: list[Principal]
) -> None:
    lag = Fault(path="roleAssignments", method="PUT", status=400, code="PrincipalNotFound", times=2)
    azure.fail(lag)
    given: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": nodes(machines)[:1]}
    assert told(manager.do(MODULE, **given)) == ["created"]
    nobody = [{"name": "edge-9", "principal_id": str(uuid.uuid4())}]
    answer = manager.run(MODULE, cluster_id=azure.cluster_id, nodes=nobody, principal_seconds=0)
    assert answer["error"]["code"] == "FLEX-1709"
    assert nobody[0]["principal_id"] in answer["msg"]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(path="roleAssignments", status=429, retry_after=1, times=3), id="429"),
        pytest.param(Fault(path="roleAssignments", status=503, times=3), id="503"),
        pytest.param(Fault(path="roleAssignments", method="PUT", drop=True, times=2), id="dropped"),
        pytest.param(
            Fault(path="roleAssignments", method="PUT", lose_answer=True, times=1), id="answer-lost"
        ),
    ],
)
def test_bad_days_of_azure_are_survived(
    azure: Azure, manager: Person, machines: list[Principal], fault: Fault
) -> None:
    azure.fail(fault)
    given: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": nodes(machines)}
    assert told(manager.do(MODULE, **given)) == ["created"] * 3
    assert manager.do(MODULE, state="query", **given)["missing"] == []


def test_who_may_not_give_roles_is_told_what_others_can_type(
    azure: Azure, person: Callable[..., Person], machines: list[Principal]
) -> None:
    reader = person("Reader")
    given: dict[str, Any] = {"cluster_id": azure.cluster_id, "nodes": nodes(machines)}
    answer = reader.run(MODULE, **given)
    assert answer["error"]["code"] == "FLEX-1702"
    assert "Microsoft.Authorization/roleAssignments/write" in answer["msg"]
    assert f'--role "{MANAGER}" --scope {azure.cluster_id}' in answer["msg"]
    assert [one.object_id for one in machines if one.object_id not in answer["msg"]] == []
    # What the message says to do is enough.
    azure.grant(reader.principal, MANAGER)
    assert told(reader.do(MODULE, **given)) == ["created"] * 3


def test_an_arc_machine_by_its_resource_id(bed: Testbed, azure: Azure, person: Callable[..., Person]) -> None:
    group = azure.cluster_id.partition("/providers/")[0]
    someone = person(MANAGER)
    azure.grant(someone.principal, "Contributor", group)
    machine = f"{group}/providers/Microsoft.HybridCompute/machines/edge-{uuid.uuid4().hex[:6]}"
    token = someone.do("flexnode_access_token")["access_token"]
    version = f"?api-version={MACHINES}"
    made = arm(bed, "PUT", f"{machine}{version}", token, {"location": "westeurope"}).json()
    given: dict[str, Any] = {
        "cluster_id": azure.cluster_id,
        "nodes": [{"name": "edge-1", "machine_id": machine}],
    }
    (one,) = someone.do(MODULE, **given)["assignments"]
    assert (one["action"], one["principal_id"]) == ("created", made["identity"]["principalId"])
    assert told(someone.do(MODULE, state="absent", **given)) == ["deleted"]
    # Also where nobody knows any more which cluster it was.
    someone.do(MODULE, **given)
    alone: dict[str, Any] = {"nodes": given["nodes"], "state": "absent"}
    assert someone.run(MODULE, **alone)["error"]["code"] == "FLEX-1702"
    azure.grant(someone.principal, "Reader", f"/subscriptions/{azure.subscription_id}")
    assert told(someone.do(MODULE, **alone)) == ["deleted"]
    assert arm(bed, "DELETE", f"{machine}{version}", token).ok
    # Without the machine nobody knows whose roles are meant.
    assert someone.do(MODULE, state="absent", **given)["assignments"] == []
    assert someone.run(MODULE, **given)["error"]["code"] == "FLEX-1703"


def test_an_access_token_for_resource_manager_and_for_kubernetes(bed: Testbed, manager: Person) -> None:
    found = manager.do("flexnode_access_token")
    assert not found["changed"]
    assert found["audience"] == ARM
    assert (found["tenant_id"], found["object_id"]) == (bed.azure.tenant_id, manager.principal.object_id)
    assert 0 < found["expires_in"] <= 3600 * 24
    scope = f"{bed.azure.cluster_id}/providers/Microsoft.Authorization/permissions?api-version=2022-04-01"
    assert arm(bed, "GET", scope, found["access_token"]).json()["value"]
    kubernetes = manager.do("flexnode_access_token", audience="6dae42f8-4368-4678-94ff-3960e28e3630")
    assert bed.cluster.whoami(kubernetes["access_token"]) == manager.principal.object_id


def test_a_sign_in_that_is_refused(azure: Azure, manager: Person) -> None:
    answer = manager.run("flexnode_access_token", secret="wr0ng-s3cret")
    assert answer["error"]["code"] == "FLEX-1701"
    assert "access_token" not in answer
    assert "wr0ng-s3cret" not in str(answer)


@pytest.mark.exhaustive  # Ansible itself; test_cluster.py keeps one of these in make test
def test_ansible_itself_shows_no_secret(bed: Testbed, manager: Person, machines: list[Principal]) -> None:
    given = {"cluster_id": bed.azure.cluster_id, "nodes": nodes(machines)[:1]}
    shown = manager.ansible(MODULE, given, "-vvvv", "--diff")
    assert '"action": "created"' in shown
    assert manager.principal.secret not in shown
