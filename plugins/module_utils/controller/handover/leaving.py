# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines that leave: which nodes they must be. Pure."""

from __future__ import annotations

from typing import Any

from ..inventory.machines import POOLS, Machine

def leaving(machine: Machine) -> dict[str, Any]:
    """What role node needs to remove a machine, beside what all roles need."""
    return {"expected": expected_of(machine)}


def expected_of(machine: Machine) -> dict[str, str]:
    """The node that a machine must be, as far as the inventory names it; its names are used in Azure."""
    return {
        "node_name": machine.node,
        "cluster_id": machine.cluster_id,
        "pool": machine.pool if machine.source == POOLS else "",
    }
