# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Which machines of Azure Arc are deleted, and what becomes of the others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.arc_machines import (
    ArcResource,
    delete_machines,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.errors import PermissionMissing

EDGE = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.HybridCompute/machines/edge"


@dataclass
class FakeResources:
    """Machines by id, and who may not be deleted."""

    machines: dict[str, dict[str, Any]]
    refused: set[str] = field(default_factory=set)

    def get(self, path: str) -> dict[str, Any] | None:
        return self.machines.get(path)

    def change(self, method: str, path: str) -> None:
        if path in self.refused:
            raise PermissionMissing("the identity may not delete machines", where=path)
        assert method == "DELETE"
        del self.machines[path]


def machine(number: int, vm_id: str = "") -> ArcResource:
    return ArcResource(f"edge-{number}", f"{EDGE}-{number}", vm_id or f"v{number}")


def azure(*numbers: int, refused: int = 0) -> FakeResources:
    found = {f"{EDGE}-{number}": {"properties": {"vmId": f"V{number}"}} for number in numbers}
    return FakeResources(found, {f"{EDGE}-{refused}"})


def test_machines_are_deleted_and_those_that_are_gone_are_no_error() -> None:
    cloud = azure(1)
    found = delete_machines(cloud, [machine(1), machine(2)], check=False)
    assert [one.action for one in found] == ["deleted", "absent"]
    assert cloud.machines == {}


def test_check_mode_deletes_nothing() -> None:
    cloud = azure(1)
    assert [one.action for one in delete_machines(cloud, [machine(1)], check=True)] == ["deleted"]
    assert len(cloud.machines) == 1


@pytest.mark.parametrize("vm_id", ["another", ""])
def test_a_machine_that_registered_under_the_same_name_since_stays(vm_id: str) -> None:
    cloud = azure(1)
    (found,) = delete_machines(cloud, [ArcResource("edge-1", f"{EDGE}-1", vm_id)], check=False)
    assert found.action == "kept"
    assert "V1" in found.reason
    assert len(cloud.machines) == 1


def test_one_that_can_not_be_deleted_stops_no_other() -> None:
    cloud = azure(1, 2, 3, refused=2)
    found = delete_machines(cloud, [machine(1), machine(2), machine(3)], check=False)
    assert [one.action for one in found] == ["deleted", "failed", "deleted"]
    assert (found[1].code, list(cloud.machines)) == ("FLEX-1702", [f"{EDGE}-2"])
