# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of machines that leave."""

from __future__ import annotations

from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.leaving import expected_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import Machine

GROUP = "/subscriptions/12345678-1234-1234-1234-123456789abc/resourceGroups/rg"
PLANT = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"


def test_a_pool_is_compared_only_where_it_is_the_source() -> None:
    known = {"node_name": "edge-1", "cluster_id": PLANT}
    for source, pool in (("machines", "edge"), ("cluster", "")):
        machine = Machine("host-1", source, "edge-1", PLANT, pool="edge")
        assert expected_of(machine) == {**known, "pool": pool}
