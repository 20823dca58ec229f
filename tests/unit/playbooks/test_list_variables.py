# SPDX-License-Identifier: GPL-3.0-or-later
"""Variables that are lists, typed as a text with commas: -e NAME=ONE,TWO, or an answer of a survey."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import listed
from tests.unit.playbooks.stage import IN_ARC, Stage, arc_hosts

ROLES = ["reader", "AKS Flex Node", "cluster-admin"]


def given(stage: Stage, module: str, option: str) -> list[Any]:
    """An option of each call of a module, as the module reads it."""
    return [listed(one[option]) for name, one in stage.calls if name == module]


@pytest.mark.parametrize(
    ("playbook", "module", "option"),
    [("bootstrap", "flexnode_reconcile", "preflight_skip"), ("preflight", "flexnode_preflight_info", "skip")],
)
def test_checks_are_left_out_as_the_remedy_says(
    stage: Stage, playbook: str, module: str, option: str
) -> None:
    stage.answer(flexnode_preflight_info={"ok": True, "table": []}, flexnode_reconcile={"changed": False})
    stage.play(f"aks.flexnode.{playbook}", {"a": {}}, "-e", "flexnode_preflight_skip=swap,mtu")
    assert "FLEX-1106" not in stage.output
    found = given(stage, module, option)
    assert found, stage.output
    assert all(one == ["swap", "mtu"] for one in found)


def test_roles_are_the_same_as_a_list_and_as_a_text(stage: Stage) -> None:
    """Of a text that was taken as a list, a machine got one role per letter."""
    stage.answer(arc_register=IN_ARC, flexnode_role_assignment={"assignments": []})
    stage.answer(flexnode_reconcile={"changed": False})
    fleet = arc_hosts("list", "text", autoRoleAssignment=True)
    fleet["list"]["flexnode_arc_roles"] = ROLES
    fleet["text"]["flexnode_arc_roles"] = ", ".join(ROLES)
    stage.play("aks.flexnode.bootstrap", fleet)
    waits = [sorted(one["roles"]) for name, one in stage.calls if name == "arc_register"]
    assert waits == [["cluster-admin", "reader"]] * len(waits), stage.output
    assert len(waits) >= 2
    asked = next(one["nodes"] for name, one in stage.calls if name == "flexnode_role_assignment")
    assert [one["roles"] for one in asked] == [ROLES, ROLES]
