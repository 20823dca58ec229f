# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Modules that run on machines repeat names of the node's tables, which they may not import."""

from __future__ import annotations

from ansible_collections.aks.flexnode.plugins.module_utils.arc_options import OPTIONS
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.sections.azure import CLOUDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.reconcile import EVERYTHING
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.roles import PROFILES, ROLES
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.install import PULL
from tests.unit.controller.test_groups import spec


def test_the_components_of_a_node() -> None:
    components = (spec("flexnode_reconcile") or {})["components"]
    assert components["choices"] == [*EVERYTHING, *PULL]
    assert components["default"] == list(EVERYTHING)


def test_clouds_profiles_and_roles() -> None:
    assert OPTIONS["cloud"]["choices"] == list(CLOUDS)
    assert OPTIONS["profile"]["choices"] == list(PROFILES)
    assert OPTIONS["roles"]["choices"] == list(ROLES)
