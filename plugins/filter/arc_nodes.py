# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: arc_nodes
short_description: The machines whose Azure roles are ours to give, or to take back
version_added: 0.1.0
description:
  - Collects what role C(arc) has found out about each host, for one call of
    M(aks.flexnode.flexnode_role_assignment).
positional: hostvars, state
options:
  _input:
    description: Names of hosts.
    type: list
    elements: str
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
  state:
    description:
      - V(present) for machines whose configuration wants it (C(azure.arc.autoRoleAssignment)). V(absent) for
        these and for those that were registered by us.
      - V(surplus) names, for the machines of V(present), the roles that they do not need, to be taken back.
    type: str
    choices: [present, absent, surplus]
    default: present
"""

EXAMPLES = r"""
- name: Give all machines their roles
  aks.flexnode.flexnode_role_assignment:
    nodes: "{{ ansible_play_hosts | aks.flexnode.arc_nodes(hostvars) }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: One item a machine, as M(aks.flexnode.flexnode_role_assignment) takes them.
  type: list
  elements: dict
  sample: [{name: edge-1, principal_id: 99999999-8888-7777-6666-555555555555, cluster_id: /subscriptions/...}]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.arc import arc_nodes


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"arc_nodes": arc_nodes}
