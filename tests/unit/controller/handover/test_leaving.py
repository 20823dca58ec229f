# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of machines that leave, and of those that do not answer."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.leaving import (
    expected_of,
    if_lost,
    leaving,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine

GROUP = "/subscriptions/12345678-1234-1234-1234-123456789abc/resourceGroups/rg"
PLANT = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"
IN_ARC = "--subscription 12345678-1234-1234-1234-123456789abc --resource-group rg --name"
DELETE = "ansible-playbook -i INVENTORY aks.flexnode.config_delete --limit host-1"


def lines(source: str, node: str = "edge-1", **document: Any) -> list[str]:
    return list(if_lost(Machine("host-1", source, node, PLANT, document, pool="edge")))


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("rp", f"delete its flexNodeConfig: {DELETE}"),
        ("blob", f"delete its configuration in the blob: {DELETE}"),
        ("machines", f"delete its machine in the FlexNodes pool: {DELETE}"),
        ("cluster", None),
        ("inline", None),
    ],
)
def test_what_a_source_may_have_of_a_lost_machine_is_named(source: str, line: str | None) -> None:
    node = "delete its Node: kubectl delete node edge-1"
    assert lines(source) == [node, *([line] if line else [])]


def test_a_node_whose_name_only_the_machine_knew_has_a_placeholder() -> None:
    assert lines("inline", "") == ["delete its Node: kubectl delete node NAME"]
    assert leaving(Machine("host-1"))["if_lost"] == [
        "if it is lost, delete its Node: kubectl delete node NAME"
    ]


def test_roles_go_before_the_registration_they_are_found_by() -> None:
    arc = {"enabled": True, "machineName": "edge-1-arc", "autoRoleAssignment": True}
    roles, registration = lines("cluster", azure={"arc": arc})[1:]
    assert roles == (
        f"delete its roles: az role assignment delete --assignee ID --scope {PLANT} "
        f"(ID: az connectedmachine show {IN_ARC} edge-1-arc --query identity.principalId)"
    )
    assert registration == (
        f"delete its registration with Azure Arc: az connectedmachine delete {IN_ARC} edge-1-arc"
    )


def test_roles_of_a_pool_are_at_the_pool_and_roles_of_others_are_not_named() -> None:
    azure = {"arc": {"enabled": True, "autoRoleAssignment": True}, "targetAgentPoolName": "edge"}
    assert f"--scope {PLANT}/agentPools/edge " in lines("machines", azure=azure)[2]
    (registration,) = lines("cluster", azure={"arc": {"enabled": True}})[1:]
    assert registration.endswith(f"{IN_ARC} HOSTNAME"), "by default the machine's own name"


def test_its_place_in_rollouts_and_its_certificate_are_named() -> None:
    document = {"upgrade": {"maxUnavailable": 1}, "azure": {"vpn": {"enabled": True}}}
    rollout, vpn = lines("inline", "", **document)[1:]
    assert "ansible localhost -m aks.flexnode.flexnode_rollout -a 'forget=NAME " in rollout
    assert vpn.endswith("aks.flexnode.vpn_gateway -e flexnode_vpn_revoke=host-1 --limit host-1")


def test_a_pool_is_compared_only_where_it_is_the_source() -> None:
    known = {"node_name": "edge-1", "cluster_id": PLANT}
    for source, pool in (("machines", "edge"), ("cluster", "")):
        machine = Machine("host-1", source, "edge-1", PLANT, pool="edge")
        assert expected_of(machine) == {**known, "pool": pool}
