# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests count what happened on a machine: tasks that ran on the controller are not among it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed.callback_plugins.record import on_controller


@pytest.mark.parametrize(
    ("action", "args", "there"),
    [
        ("aks.flexnode.flexnode_source", {}, True),
        ("aks.flexnode.flexnode_cluster_info", {}, True),
        ("aks.flexnode.flexnode_config", {}, True),
        ("aks.flexnode.flexnode_node", {"kubeconfig": "admin.conf"}, True),
        ("aks.flexnode.flexnode_node", {}, False),
        ("aks.flexnode.flexnode_reconcile", {}, False),
        ("aks.flexnode.flexnode_status_info", {}, False),
        ("aks.flexnode.arc_register", {}, False),
        ("ansible.builtin.copy", {}, False),
    ],
)
def test_where_a_task_ran(action: str, args: dict[str, str], there: bool) -> None:
    assert on_controller(SimpleNamespace(action=action, args=args)) is there
