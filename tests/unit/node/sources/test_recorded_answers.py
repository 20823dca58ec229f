# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a node does about answers that Azure really gave: whether it leaves, waits, or goes on."""

from __future__ import annotations

import json

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.arm_answers import (
    ArmError,
    Missing,
    another_operation,
    asks_again,
    gone,
    missing,
    named_kind,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.flexnode_config import (
    GAP,
    Reply,
    Verdict,
    says_deleted,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.machine_answers import (
    Evidence,
    lists_others,
    machine_deleted,
    verdict,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.watched import Watched
from tests.contract.recorded import Recorded, aks, arm, network

NOW = 1_800_000_000.0
CLUSTER = aks.CLUSTER_MISSING.at().path
POOL = aks.POOL_MISSING.at().path
MACHINE = aks.MACHINE_MISSING.at().path
NODE = f"{CLUSTER}/flexNodeConfig/edge-1"
SERVER = "https://management.azure.com"
SEEN = Watched(f"{SERVER}/x", resource=MACHINE, found=True, deleting=True)
AGAIN = replace(SEEN, missing_since=NOW - GAP)


def reply(answer: Recorded, **places: str) -> Reply:
    found = answer.at(server=SERVER, **places)
    return Reply(found.status, found.content)


def error_of(answer: Recorded, **places: str) -> ArmError:
    return reply(answer, **places).error


GONE = reply(aks.MACHINE_MISSING)
OTHERS = (reply(aks.MACHINES_FIRST_PAGE, machine="edge-2"), reply(aks.MACHINES_LAST_PAGE))
THERE = reply(aks.POOL_THERE)


# What the GET of a machine is answered with, and whether that says that the machine was deleted.
MACHINE_ANSWERS = {
    "the machine": (GONE, True),
    "its detail alone": (
        Reply(
            404,
            aks.MACHINE_MISSING.content.replace(b"GetMachine_N", b"").replace(
                b'"otFound_HCPServerError"', b'""'
            ),
        ),
        True,
    ),
    "its pool": (reply(aks.MACHINE_OF_MISSING_POOL), False),
    "its cluster": (reply(aks.MACHINE_OF_MISSING_CLUSTER), False),
    "its cluster in 2023": (reply(aks.CLUSTER_MISSING_2023), False),
    "its cluster, by the gateway": (reply(aks.MACHINE_OF_MISSING_CLUSTER_AT_GATEWAY), False),
    "its group": (reply(aks.GROUP_MISSING), False),
    "its parent": (reply(aks.PARENT_MISSING), False),
    "something named without an id": (reply(aks.NAMED_WITHOUT_ID), False),
    "code NotFound alone": (
        Reply(404, b'{"code": "NotFound", "message": "The entity was not found."}'),
        False,
    ),
    "code ResourceNotFound alone": (Reply(404, b'{"error": {"code": "ResourceNotFound"}}'), False),
    "a 404 of a web server": (Reply(404, b"<html>Machine not found</html>"), False),
    "the same with another status": (Reply(410, GONE.body), False),
    "forbidden": (Reply(403, b'{"error": {"code": "AuthorizationFailed"}}'), False),
    "throttled": (reply(arm.THROTTLED), False),
    "a gateway without an answer": (reply(aks.GATEWAY_TIMEOUT), False),
    "a cut line": (Reply(0), False),
    "the machine itself": (reply(aks.MACHINE_THERE), False),
    "a subcode and a detail that disagree": (
        Reply(404, aks.MACHINE_MISSING.content.replace(b"Machine not found", b"Agent Pool not found")),
        False,
    ),
}


# Answers that name something by its name only, which may be the name of the node, too.
NAMED = {
    f"{code}: {what}": (code, what)
    for code in ("NotFound", "ResourceNotFound")
    for what in ("Agent pool", "Managed cluster", "Resource group", "Machine")
}


@pytest.mark.parametrize(("code", "what"), NAMED.values(), ids=NAMED)
def test_a_node_never_leaves_by_a_name(code: str, what: str) -> None:
    """A NotFound that quotes a name equal to that of the pool, the cluster or the group."""
    group = "/subscriptions/1/resourceGroups/edge/providers/Microsoft.ContainerService/managedClusters/edge"
    machine, node = f"{group}/agentPools/edge/machines/edge", f"{group}/flexNodeConfig/edge"
    for body in (
        {"code": code, "message": f"{what} 'edge' was not found"},
        {"error": {"code": code, "message": f"{what} 'edge' was not found"}},
    ):
        answer = Reply(404, json.dumps(body).encode())
        assert not machine_deleted(answer, machine)
        assert not says_deleted(answer, node)


@pytest.mark.parametrize(("answer", "deleted"), MACHINE_ANSWERS.values(), ids=MACHINE_ANSWERS)
def test_only_the_machines_own_404_takes_a_node_away(answer: Reply, deleted: bool) -> None:
    """Contradictions 1 and 2."""
    assert machine_deleted(answer, MACHINE) is deleted
    assert verdict(SEEN, Evidence(answer, OTHERS), NOW) is (Verdict.MISSING if deleted else Verdict.STAYS)
    assert verdict(AGAIN, Evidence(answer, OTHERS), NOW) is (Verdict.LEAVES if deleted else Verdict.STAYS)


def test_the_machine_is_not_its_pool() -> None:
    """Contradiction 2, in short."""
    assert missing(error_of(aks.MACHINE_OF_MISSING_POOL), MACHINE) is Missing.ABOVE


def test_the_gateways_404_of_this_machine_counts_and_of_another_one_does_not() -> None:
    """As long as the machine was known to the gateway only, it answered so."""
    own = MACHINE.partition("/providers/")[2]
    for name, deleted in (
        (own, True),
        (own.upper(), True),
        (f"{own}0", False),
        (own.replace("edge/", "e/"), False),
    ):
        body = aks.CLUSTER_MISSING_AT_GATEWAY.at().content.replace(
            b"Microsoft.ContainerService/managedClusters/plant", name.encode()
        )
        assert machine_deleted(Reply(404, body), MACHINE) is deleted


EMPTY = (reply(aks.NO_MACHINES),)
# What the pool answers meanwhile, and whether the node may leave.
POOL_ANSWERS = {
    "others on two pages": (Evidence(GONE, OTHERS), True),
    "no machine, and the pool": (Evidence(GONE, EMPTY, THERE), True),
    "no machine, and a pool that may not be read": (
        Evidence(GONE, EMPTY, Reply(403, b'{"error": {"code": "AuthorizationFailed"}}')),
        True,
    ),
    "no machine, and no pool": (Evidence(GONE, EMPTY, reply(aks.POOL_MISSING)), False),
    "no machine, and another pool": (Evidence(GONE, EMPTY, reply(aks.POOL_THERE, pool="other")), False),
    "no machine, and a proxy that forbids": (Evidence(GONE, EMPTY, Reply(403, b"<html>")), False),
    "no machine, and nothing of the pool": (Evidence(GONE, EMPTY), False),
    "the first of two pages": (Evidence(GONE, OTHERS[:1]), False),
    "a second page that fails": (Evidence(GONE, (OTHERS[0], reply(aks.GATEWAY_TIMEOUT))), False),
    "this machine on the second page": (
        Evidence(GONE, (OTHERS[0], reply(aks.MACHINES_FIRST_PAGE), reply(aks.MACHINES_LAST_PAGE))),
        False,
    ),
    "this machine by its Node": (
        Evidence(
            GONE,
            (
                Reply(
                    200, b'{"value": [{"name": "m1", "properties": {"kubernetes": {"nodeName": "EDGE-1"}}}]}'
                ),
            ),
        ),
        False,
    ),
    "no list": (Evidence(GONE), False),
    "no list of a missing cluster": (Evidence(GONE, (reply(aks.CLUSTER_MISSING_AT_GATEWAY),)), False),
    "no list of a missing pool": (Evidence(GONE, (reply(aks.POOL_MISSING),)), False),
}


@pytest.mark.parametrize(("evidence", "leaves"), POOL_ANSWERS.values(), ids=POOL_ANSWERS)
def test_a_node_leaves_only_while_its_pool_answers(evidence: Evidence, leaves: bool) -> None:
    """Contradiction 12, and an empty list, which a pool that is gone might have, too."""
    assert verdict(AGAIN, evidence, NOW) is (Verdict.LEAVES if leaves else Verdict.STAYS)
    assert verdict(replace(AGAIN, deleting=False), evidence, NOW) is Verdict.STAYS
    assert verdict(replace(AGAIN, found=False), evidence, NOW) is Verdict.STAYS


# What says nothing of a resource: it is neither that one nor above it.
ELSEWHERE = {
    "an operation": ArmError(404, "NotFound", subcode="GetOperation_NotFound_HCPServerError"),
    "an operation's code": ArmError(404, "OperationNotFound", "The operation was not found."),
    "an address": ArmError(
        404, "ResourceNotFound", "The Resource 'Microsoft.Network/publicIPAddresses/x' was not found."
    ),
    "a subnet": ArmError(404, "NotFound", details=(("", "desc = Subnet not found"),)),
    "another group": ArmError(404, "ResourceGroupNotFound", "Resource group 'another' could not be found."),
    "another parent": ArmError(
        404, "ParentResourceNotFound", "Parent resource '/subscriptions/1/x/y' not found."
    ),
    "anything": ArmError(404, "NotFound", "The entity was not found."),
    "two things": ArmError(
        404, "NotFound", subcode="GetAgentPool_NotFound", details=(("", "desc = Managed Cluster not found"),)
    ),
}


@pytest.mark.parametrize("error", ELSEWHERE.values(), ids=ELSEWHERE)
@pytest.mark.parametrize(
    "resource",
    [POOL, MACHINE, NODE, network.GATEWAY, arm.ASSIGNMENT_GONE.at().path, arm.ARC_MISSING.at().path],
)
def test_a_404_of_something_else_deletes_nothing(error: ArmError, resource: str) -> None:
    """Above is only what a resource is in: an operation or an address that is missing says nothing of it."""
    assert missing(error, resource) is Missing.UNKNOWN
    assert not gone(error, resource)


def test_every_page_of_the_list_is_needed() -> None:
    """Contradiction 12."""
    assert lists_others(OTHERS, MACHINE)
    assert not lists_others(OTHERS[:1], MACHINE)
    assert not lists_others((), MACHINE)


@pytest.mark.parametrize(
    ("answer", "resource", "expected", "kind"),
    [
        (aks.MACHINE_MISSING, MACHINE, Missing.ITSELF, "machines"),
        (aks.MACHINE_OF_MISSING_POOL, MACHINE, Missing.ABOVE, "agentpools"),
        (aks.POOL_MISSING, POOL, Missing.ITSELF, "agentpools"),
        (aks.POOL_MISSING, f"{POOL}/listBootstrapData", Missing.ABOVE, "agentpools"),
        (aks.POOL_MISSING, f"{POOL}/machines", Missing.ABOVE, "agentpools"),
        (aks.CLUSTER_MISSING, CLUSTER.upper(), Missing.ITSELF, "managedclusters"),
        (aks.CLUSTER_MISSING_2023, CLUSTER, Missing.ITSELF, "managedclusters"),
        (aks.CLUSTER_MISSING_AT_GATEWAY, CLUSTER, Missing.ITSELF, "managedclusters"),
        (aks.CLUSTER_MISSING, POOL, Missing.ABOVE, "managedclusters"),
        (aks.CLUSTER_MISSING_AT_GATEWAY, POOL, Missing.ABOVE, "managedclusters"),
        (aks.CLUSTER_MISSING_AT_GATEWAY, NODE, Missing.ABOVE, "managedclusters"),
        (aks.GROUP_MISSING, POOL, Missing.ABOVE, ""),
        (aks.PARENT_MISSING, MACHINE, Missing.ABOVE, "managedclusters"),
        (aks.NAMED_WITHOUT_ID, aks.NAMED_WITHOUT_ID.at().path, Missing.ITSELF, ""),
        (aks.NAMED_WITHOUT_ID, f"{CLUSTER}/flexNodeConfig/other", Missing.UNKNOWN, ""),
        (arm.ARC_MISSING, arm.ARC_MISSING.at().path, Missing.ITSELF, "machines"),
        (
            arm.ASSIGNMENT_OF_GONE_RESOURCE,
            arm.ASSIGNMENT_OF_GONE_RESOURCE.at().path,
            Missing.ABOVE,
            "virtualnetworks",
        ),
        (aks.POLICY, CLUSTER, Missing.UNKNOWN, ""),
    ],
)
def test_what_a_404_says(answer: Recorded, resource: str, expected: Missing, kind: str) -> None:
    """Contradiction 2: the same code for a machine, a pool and a cluster."""
    error = error_of(answer)
    assert missing(error, resource) is expected
    assert answer is aks.POLICY or named_kind(error) == kind


@pytest.mark.parametrize(
    ("body", "deleted"),
    [
        (b'{"error": {"code": "ResourceNotFound", "message": "gone"}}', True),
        (b'{"code": "NotFound", "subcode": "GetFlexNodeConfig_NotFound_HCPServerError"}', True),
        (b'{"code": "NotFound", "message": "The entity was not found."}', False),
        (aks.CLUSTER_MISSING.at().content, False),
        (aks.CLUSTER_MISSING_AT_GATEWAY.at().content, False),
        (aks.GROUP_MISSING.at().content, False),
    ],
)
def test_the_resource_that_nobody_recorded(body: bytes, deleted: bool) -> None:
    """Of flexNodeConfig no answer is public: what AKS would say of it counts, of its cluster it does not."""
    assert says_deleted(Reply(404, body), NODE) is deleted


def test_another_operation_passes_and_a_policy_does_not() -> None:
    """Contradiction 4."""
    assert another_operation(error_of(aks.ANOTHER_OPERATION))
    assert not another_operation(error_of(aks.POLICY))
    assert another_operation(
        ArmError(409, "OperationNotAllowed", "Another operation (upgrade) is in progress")
    )
    assert not another_operation(ArmError(409, "OperationNotAllowed", "The cluster is stopped."))
    assert not another_operation(ArmError(400, "EtagMismatch", "Another operation is in progress."))


def test_a_failure_that_asks_to_try_again() -> None:
    """Contradiction 10."""
    failed = ArmError.of(200, network.DELETION_FAILED.body)
    assert (failed.code, asks_again(failed)) == ("VmssGatewayDeploymentFailed", True)
    assert not asks_again(error_of(aks.POLICY))
