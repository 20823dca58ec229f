# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Roles of machines: what is ordered, what is there, whose it is, what is done."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import (
    action_of,
    granted_scope,
    role_for,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.assignments import (
    KNOWN,
    Existing,
    Grant,
    Request,
    Role,
    decide,
    decide_absent,
    known_role,
    requests_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.roles.granting import (
    NO_GROUP,
    NO_IDENTITY,
    NO_MACHINE,
    Done,
    assign_roles,
    inspect_roles,
    plan_of,
    remove_roles,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster import rbac
from ansible_collections.aks.flexnode.plugins.module_utils.controller.failures import as_result
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import (
    ROLES,
    allowed,
    needed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.assignments import name_of
from tests.contract.recorded import arm
from tests.unit.controller.fake_authorization import FakeAuthorization, forbidden
from tests.unit.controller.fake_azure import CLUSTER, OBJECT, SUBSCRIPTION
from tests.unit.node.fakes import FakeClock

ROOT = Path(__file__).parents[5]
READER, RBAC, ADMIN = (ROLES[key].id for key in ("reader", "rbac-cluster-admin", "cluster-admin"))
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
MACHINE = f"{GROUP}/providers/Microsoft.HybridCompute/machines/edge-1"
POOL_ROLE = ROLES["flex-node-agent"].id
OTHER = "22222222-8888-7777-6666-555555555555"
OWN_ROLE = "33333333-8888-7777-6666-555555555555"
NODE = {"principal_id": None, "machine_id": None, "cluster_id": None, "auth_profile": None, "roles": None}
OPTIONS: dict[str, Any] = {
    "assignments": [],
    "nodes": [],
    "cluster_id": CLUSTER,
    "roles": None,
    "auth_profile": "certificate",
}


def orders(*nodes: dict[str, Any], state: str = "present", **options: Any) -> list[Request]:
    given = [{**NODE, "name": f"edge-{index}", **node} for index, node in enumerate(nodes, 1)]
    return requests_of({**OPTIONS, "state": state, "nodes": given, **options})


def grant(role: str = "reader", principal: str = OBJECT, scope: str = CLUSTER) -> Grant:
    known = known_role(role)
    assert known
    return Grant(principal, known, scope, "edge-1")


def of_others(role: str = READER, principal: str = OBJECT, scope: str = CLUSTER) -> Existing:
    return Existing(str(uuid.UUID(int=7)), scope, role, principal)


def ours(wanted: Grant) -> Existing:
    return Existing(wanted.name, wanted.scope, wanted.role.id, wanted.principal_id)


def act(azure: FakeAuthorization, *nodes: dict[str, Any], check: bool = False, **options: Any) -> list[str]:
    plan = plan_of(azure, orders(*nodes, **options))
    return succeeded(assign_roles(azure, plan, FakeClock(), seconds=30, check=check))


def undo(azure: FakeAuthorization, *nodes: dict[str, Any], check: bool = False, **options: Any) -> list[str]:
    plan = plan_of(azure, orders(*nodes, state="absent", **options), absent=True)
    return succeeded(remove_roles(azure, plan, check=check))


def succeeded(done: Done) -> list[str]:
    """What was done for each; the failures as the module tells them."""
    if done.failures:
        raise Failed(as_result(done.failures))
    return [one.action for one in done.outcomes]


class Failed(Exception):
    """The result of a module that fails."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result["msg"])
        self.result = result


# -- what is ordered ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("reader", READER),
        ("Reader", READER),
        (READER, READER),
        (READER.upper(), READER),
        (f"/subscriptions/1/providers/Microsoft.Authorization/roleDefinitions/{RBAC}", RBAC),
        ("azure kubernetes service cluster admin role", ADMIN),
        (OWN_ROLE, OWN_ROLE),
    ],
)
def test_a_role_that_needs_no_question(text: str, expected: str) -> None:
    found = known_role(text)
    assert found
    assert found.id == expected


def test_a_role_of_ones_own_making_must_be_asked_for() -> None:
    assert known_role("AKS Flex Node") is None


@pytest.mark.parametrize(
    ("node", "options", "roles"),
    [
        ({}, {}, list(needed("certificate"))),
        ({}, {"auth_profile": "token"}, ["reader", "rbac-cluster-admin", "cluster-admin"]),
        ({"auth_profile": "token"}, {}, ["reader", "rbac-cluster-admin", "cluster-admin"]),
        ({}, {"roles": ["AKS Flex Node"], "auth_profile": "token"}, ["AKS Flex Node"]),
        ({"roles": []}, {"roles": ["reader"]}, []),
        ({}, {"state": "absent"}, [""]),
        ({}, {"state": "absent", "roles": ["reader"]}, ["reader"]),
    ],
)
def test_the_roles_of_a_node(node: dict[str, Any], options: dict[str, Any], roles: list[str]) -> None:
    assert [order.role for order in orders({"principal_id": OBJECT, **node}, **options)] == roles


def test_all_that_is_wrong_is_told_at_once() -> None:
    single = {"principal_id": "me", "role": "reader", "scope": "plant"}
    with pytest.raises(ConfigInvalid) as caught:
        orders({}, {"principal_id": "x"}, {"machine_id": "m"}, {"principal_id": OBJECT, "cluster_id": "c"},
               assignments=[single])  # fmt: skip
    assert [problem.path for problem in caught.value.problems] == [
        "assignments[0].principal_id",
        "assignments[0].scope",
        "nodes[0].principal_id",
        "nodes[1].principal_id",
        "nodes[2].machine_id",
        "nodes[3].cluster_id",
    ]


# -- names --------------------------------------------------------------------------------------------------


def test_a_name_depends_on_what_is_granted_and_never_changes() -> None:
    assert grant().name == "bb1be2a5-f237-5723-bb5c-96125023dff5"
    assert name_of(f"{CLUSTER.upper()}/", OBJECT.upper(), READER.upper()) == grant().name
    others = [grant("cluster-admin"), grant(principal=OTHER), grant(scope=GROUP)]
    assert len({grant().name, *(one.name for one in others)}) == 4
    assert uuid.UUID(grant().name).version == 5


def test_what_azure_is_told() -> None:
    definition = f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{READER}"
    assert grant().properties == {
        "roleDefinitionId": definition,
        "principalId": OBJECT,
        "principalType": "ServicePrincipal",
        "description": "aks.flexnode: edge-1",
    }
    everywhere = Role(READER, "Reader").definition("/providers/Microsoft.Management/managementGroups/all")
    assert everywhere == f"/providers/Microsoft.Authorization/roleDefinitions/{READER}"


# -- decisions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("existing", "present", "absent"),
    [
        pytest.param([], ("created", False), "unchanged", id="nothing"),
        pytest.param([ours(grant())], ("unchanged", True), "deleted", id="ours"),
        pytest.param([of_others()], ("unchanged", False), "kept", id="theirs"),
        pytest.param([of_others(scope=GROUP)], ("unchanged", False), "kept", id="above"),
        pytest.param([of_others(scope="")], ("unchanged", False), "kept", id="at-the-root"),
        pytest.param([of_others(), ours(grant())], ("unchanged", True), "deleted", id="both"),
        pytest.param([of_others(role=ADMIN)], ("created", False), "unchanged", id="another-role"),
        pytest.param([of_others(principal=OTHER)], ("created", False), "unchanged", id="another-principal"),
        pytest.param([of_others(scope=f"{GROUP}2")], ("created", False), "unchanged", id="beside"),
        pytest.param(
            [Existing("x", CLUSTER, READER, OBJECT, conditional=True)],
            ("created", False),
            "unchanged",
            id="on-conditions",
        ),
    ],
)
def test_what_is_to_be_done(existing: list[Existing], present: tuple[str, bool], absent: str) -> None:
    given = decide(grant(), existing)
    assert (given.action, given.ours) == present
    assert decide_absent(grant(), existing).action == absent


# -- acting -------------------------------------------------------------------------------------------------


def test_the_life_of_roles() -> None:
    azure = FakeAuthorization()
    two = ({"principal_id": OBJECT}, {"principal_id": OTHER})
    assert act(azure, *two, check=True) == ["created", "created"]
    assert azure.existing == []
    assert act(azure, *two, auth_profile="token") == ["created"] * 6
    assert act(azure, *two, auth_profile="token") == ["unchanged"] * 6
    assert succeeded(inspect_roles(plan_of(azure, orders(*two)))) == ["present"] * 2
    # All that we gave goes, whatever the profile is now; what others gave and have stays.
    azure.existing.append(of_others())
    assert undo(azure, two[0], check=True) == ["deleted"] * 3
    assert undo(azure, two[0]) == ["deleted"] * 3
    assert undo(azure, two[0]) == []
    assert len(azure.existing) == 4


def test_each_question_is_asked_once() -> None:
    azure = FakeAuthorization(own_roles={"AKS Flex Node": OWN_ROLE})
    many = [{"principal_id": str(uuid.UUID(int=n))} for n in range(20)]
    assert act(azure, *many, roles=["AKS Flex Node"]) == ["created"] * 20
    assert [line for line in azure.asked if not line.startswith("create")] == [
        f"list {CLUSTER}",
        "role AKS Flex Node",
    ]


def test_a_principal_so_new_that_azure_has_not_heard_of_it() -> None:
    azure, clock = FakeAuthorization(unheard=3), FakeClock()
    plan = plan_of(azure, orders({"principal_id": OBJECT}))
    assert succeeded(assign_roles(azure, plan, clock, seconds=60, check=False)) == ["created"]
    assert clock.naps == [2.0, 3.0, 4.5]
    azure.existing, azure.unheard = [], 100
    with pytest.raises(Failed, match=f"^FLEX-1709: there is no principal {OBJECT}"):
        succeeded(assign_roles(azure, plan, clock, seconds=60, check=False))
    assert sum(clock.naps[3:]) == pytest.approx(60)


def test_somebody_else_is_faster() -> None:
    azure = FakeAuthorization(raced=True)
    plan = plan_of(azure, orders({"principal_id": OBJECT}))
    (one,) = assign_roles(azure, plan, FakeClock(), seconds=0, check=False).outcomes
    assert (one.action, one.ours) == ("unchanged", False)


def test_who_may_not_give_roles_is_told_all_commands() -> None:
    azure = FakeAuthorization(forbidden=forbidden())
    with pytest.raises(Failed) as caught:
        act(azure, {"principal_id": OBJECT}, {"principal_id": OTHER}, auth_profile="token")
    failed, create = caught.value.result, "az role assignment create --assignee-object-id"
    assert failed["error"] == {"code": "FLEX-1702"}
    assert failed["msg"].count("FLEX-1702") == 1
    assert failed["msg"].count(create) == 6
    for one, principal in zip(failed["failures"], (OBJECT, OTHER), strict=True):
        assert (one["msg"].count(create), one["msg"].count(f"{create} {principal}")) == (3, 3)


def test_who_may_not_even_look_at_roles_is_told_all_commands() -> None:
    azure = FakeAuthorization(unseen=forbidden("read"), machines={MACHINE: OTHER})
    with pytest.raises(Failed, match="roleAssignments/read") as caught:
        act(azure, {"principal_id": OBJECT}, {"machine_id": MACHINE}, auth_profile="token")
    for principal in (OBJECT, OTHER):
        text = f"az role assignment create --assignee-object-id {principal} "
        assert str(caught.value).count(text) == 3
    with pytest.raises(Failed) as caught:
        undo(azure, {"principal_id": OBJECT})
    assert OBJECT not in str(caught.value)


# -- what fails for one machine is kept from no other --------------------------------------------------------


def test_a_machine_that_azure_does_not_know_keeps_no_other_from_its_roles() -> None:
    azure = FakeAuthorization(machines={MACHINE: OBJECT})
    with pytest.raises(Failed) as caught:
        act(azure, {"machine_id": f"{MACHINE}2"}, {"machine_id": MACHINE}, auth_profile="token")
    assert sorted((one.role_id, one.principal_id) for one in azure.existing) == sorted(
        (role, OBJECT) for role in (READER, RBAC, ADMIN)
    )
    (failed,) = caught.value.result["failures"]
    assert (failed["name"], failed["machine_id"], failed["code"]) == ("edge-1", f"{MACHINE}2", "FLEX-1703")


def test_a_role_that_can_not_be_assigned_or_removed_is_that_of_its_machine() -> None:
    azure = FakeAuthorization(machines={MACHINE: OBJECT, f"{MACHINE}2": OTHER}, refused={OTHER: forbidden()})
    nodes = {"machine_id": MACHINE}, {"machine_id": f"{MACHINE}2"}
    with pytest.raises(Failed) as caught:
        act(azure, *nodes)
    assert [one.principal_id for one in azure.existing] == [OBJECT]
    assert [one["machine_id"] for one in caught.value.result["failures"]] == [f"{MACHINE}2"]
    azure.existing.append(ours(grant(principal=OTHER)))
    with pytest.raises(Failed) as caught:
        undo(azure, *nodes)
    assert [one.principal_id for one in azure.existing] == [OTHER]
    assert [one["machine_id"] for one in caught.value.result["failures"]] == [f"{MACHINE}2"]


def test_machines_of_another_cluster_and_with_another_role_are_not_concerned() -> None:
    azure = FakeAuthorization()
    with pytest.raises(Failed) as caught:
        act(azure, {"principal_id": OBJECT, "roles": ["AKS Flex Node"]}, {"principal_id": OTHER})
    assert [one.principal_id for one in azure.existing] == [OTHER]
    assert [one["name"] for one in caught.value.result["failures"]] == ["edge-1"]


def test_failures_of_several_causes_are_told_apart() -> None:
    azure = FakeAuthorization(refused={OTHER: forbidden()})
    nodes = {"machine_id": MACHINE}, {"principal_id": OTHER}, {"machine_id": f"{MACHINE}3"}
    with pytest.raises(Failed) as caught:
        act(azure, *nodes)
    failed = caught.value.result
    assert [line for line in failed["msg"].splitlines() if line.startswith("edge")] == [
        line for line in failed["msg"].splitlines() if "FLEX-" in line
    ]
    assert failed["error"] == {
        "code": "FLEX-1703",
        "nodes": {
            name: {"code": f"FLEX-17{code}"}
            for name, code in (("edge-1", "03"), ("edge-2", "02"), ("edge-3", "03"))
        },
    }


def test_what_is_left_of_a_machine_that_is_gone_can_be_listed() -> None:
    """Azure no longer says which identity it had: the assignments are found by their description."""
    azure = FakeAuthorization()
    plan = plan_of(azure, orders({"machine_id": MACHINE}, state="absent"), absent=True)
    (gone,) = plan.gone
    one = gone.request
    assert (one.machine_id, gone.missing, plan.grants, plan.failures) == (MACHINE, "machine", [], [])
    assert one.list_command == (
        f"az role assignment list --scope {CLUSTER} --query "
        f"\"[?description=='{grant().properties['description']}'].id\" -o tsv"
    )
    (anywhere,) = orders({"machine_id": MACHINE}, state="absent", cluster_id=None)
    assert f"list --all --subscription {SUBSCRIPTION} --query" in anywhere.list_command


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (NO_MACHINE, "there is no machine"),
        (NO_GROUP, "there is no resource group of machine"),
        (NO_IDENTITY, "has no identity of its own"),
    ],
)
def test_no_identity_and_no_machine_are_two_things(missing: str, words: str) -> None:
    """Contradiction 11: Arc has machines without an identity."""
    azure = FakeAuthorization(missing=missing)
    with pytest.raises(Failed, match=words):
        act(azure, {"machine_id": MACHINE})
    plan = plan_of(azure, orders({"machine_id": MACHINE}, state="absent"), absent=True)
    assert [one.as_dict()["missing"] for one in plan.gone] == [missing]


@pytest.mark.parametrize("above", [one.format(subscription=SUBSCRIPTION) for one in arm.SCOPES_ABOVE])
def test_what_is_assigned_above_counts(above: str) -> None:
    """Contradiction 9: atScope() lists those of management groups, whose ids are no beginning of others."""
    azure = FakeAuthorization(existing=[Existing("by-others", above.rstrip("/"), READER, OBJECT)])
    assert act(azure, {"principal_id": OBJECT, "roles": ["reader"]}) == ["unchanged"]
    conditional = Existing("by-others", above.rstrip("/"), READER, OBJECT, conditional=True)
    assert act(FakeAuthorization(existing=[conditional]), {"principal_id": OBJECT, "roles": ["reader"]}) == [
        "created"
    ]


def test_a_machine_of_arc_instead_of_its_principal() -> None:
    azure = FakeAuthorization(machines={MACHINE: OBJECT})
    assert act(azure, {"machine_id": MACHINE}, auth_profile="token") == ["created"] * 3
    assert azure.asked.count("machine") == 1
    azure.machines = {}
    with pytest.raises(Failed, match=r"FLEX-1703.*edge-1"):
        act(azure, {"machine_id": MACHINE})
    assert undo(azure, {"machine_id": MACHINE}) == []


@pytest.mark.parametrize("principal", [None, OBJECT])
def test_roles_are_taken_back_where_nobody_knows_the_cluster(principal: str | None) -> None:
    azure = FakeAuthorization(machines={MACHINE: OBJECT})
    act(azure, {"principal_id": OBJECT}, {"principal_id": OTHER}, auth_profile="token")
    azure.existing.append(of_others())
    node = {"machine_id": MACHINE, "principal_id": principal}
    assert undo(azure, node, cluster_id=None) == ["deleted"] * 3
    assert azure.asked[-4] == f"of {OBJECT} in /subscriptions/{SUBSCRIPTION}"
    assert len(azure.existing) == 4
    assert undo(azure, node, cluster_id=None) == []
    with pytest.raises(ConfigInvalid, match="cluster_id"):
        orders(node, cluster_id=None)


def test_what_is_told_of_a_change() -> None:
    created = decide(grant(), [])
    assert created.sentence() == f"assign role Reader to edge-1 at {CLUSTER}"
    assert created.diff()["after"] == {"principal": "edge-1", "role": "Reader", "scope": CLUSTER}
    assert created.lacks(planned=True)
    assert not created.lacks(planned=False)
    gone = decide_absent(grant(), [ours(grant())])
    assert gone.sentence() == f"remove role assignment Reader of edge-1 at {CLUSTER}"
    assert created.grant.command == ROLES["reader"].command(OBJECT, CLUSTER)


# -- errors -------------------------------------------------------------------------------------------------


def test_errors_about_roles_name_the_right_role_and_place() -> None:
    path = f"{CLUSTER}/providers/Microsoft.Authorization/roleAssignments/x"
    assert action_of("PUT", path) == "Microsoft.Authorization/roleAssignments/write"
    assert role_for(action_of("DELETE", path)) == "Role Based Access Control Administrator"
    assert role_for("Microsoft.HybridCompute/machines/write") == "Azure Connected Machine Onboarding"
    assert granted_scope(path) == CLUSTER
    assert granted_scope(f"{GROUP}/providers/Microsoft.Authorization/roleAssignments/x") == GROUP


def test_the_bindings_of_the_docs_let_a_kubelet_ask_for_its_certificate_and_nothing_else() -> None:
    items = yaml.safe_load((ROOT / "docs/examples/identity_rbac.yaml").read_text())["items"]
    *own, renewal = items
    assert [item["roleRef"]["name"] for item in own] == [
        right.role for right in rbac.RIGHTS if right.subject == "system:bootstrappers"
    ]
    assert {subject["kind"] for item in own for subject in item["subjects"]} == {"User"}
    assert renewal == rbac.AFTER_JOIN[0].binding, "of all nodes, the same as in rbac.yaml"


# -- least privilege ----------------------------------------------------------------------------------------


def test_the_role_of_the_docs_is_enough_and_no_more() -> None:
    """The node looks whether it has Reader by what it needs of it; this role has that, and little else."""
    role = json.loads((ROOT / "docs/examples/flexnode-role.json").read_text())
    granted = [
        {
            "actions": role["Actions"],
            "notActions": role["NotActions"],
            "dataActions": role["DataActions"],
            "notDataActions": role["NotDataActions"],
        }
    ]
    clusters = "Microsoft.ContainerService/managedClusters"
    for action in (f"{clusters}/read", f"{clusters}/flexNodeConfig/read", ROLES["reader"].permission):
        assert allowed(granted, action)
    for key in ("rbac-cluster-admin", "cluster-admin"):
        assert not allowed(granted, ROLES[key].permission, data=ROLES[key].data)
    assert allowed(granted, "Microsoft.Authorization/permissions/read")
    assert role["DataActions"] == []
    assert not any("*" in action for action in role["Actions"])
    assert set(KNOWN) == {READER, RBAC, ADMIN, POOL_ROLE}


def test_all_machines_lose_their_roles_where_nobody_knows_the_cluster() -> None:
    other = f"{MACHINE}2"
    azure = FakeAuthorization(machines={MACHINE: OBJECT, other: OTHER})
    act(azure, {"principal_id": OBJECT}, {"principal_id": OTHER}, auth_profile="token")
    nodes = ({"machine_id": MACHINE}, {"machine_id": other})
    assert undo(azure, *nodes, cluster_id=None) == ["deleted"] * 6
    assert azure.existing == []


def test_the_role_of_a_pool_is_assigned_at_the_pool() -> None:
    azure = FakeAuthorization()
    node = {"principal_id": OBJECT, "pool": "edge"}
    assert act(azure, node) == ["created"]
    assert [(one.scope, one.role_id) for one in azure.existing] == [(f"{CLUSTER}/agentPools/edge", POOL_ROLE)]
    assert act(azure, node) == ["unchanged"]
    # Of an earlier source: both are removed, wherever they are.
    act(azure, {"principal_id": OBJECT})
    assert undo(azure, node) == ["deleted", "deleted"]
    assert azure.existing == []


def test_the_role_of_a_pool_counts_if_it_is_assigned_above() -> None:
    azure = FakeAuthorization()
    above = {"principal_id": OBJECT, "roles": ["flex-node-agent"]}
    assert act(azure, above) == ["created"]
    assert act(azure, {"principal_id": OBJECT, "pool": "edge"}) == ["unchanged"]


def test_a_pool_must_be_the_name_of_one() -> None:
    with pytest.raises(ConfigInvalid, match=r"nodes\[0\].pool"):
        orders({"principal_id": OBJECT, "pool": "Edge-1"})
