# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: arc_bindings
short_description: The machines that are let ask for their kubelets' certificates
version_added: 0.1.0
description:
  - Collects what role C(arc) has found out about each host, for one call of
    M(aks.flexnode.flexnode_identity_binding).
  - Only machines count whose kubelets are to obtain certificates with the identity of Azure Arc, and whose
    configuration has C(azure.arc.autoRoleAssignment).
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
      - V(present) for machines that said that they lack the right. V(settled) for these and for those whose
        join changed something, after it. V(absent) for all that may have been given it.
      - With V(present), a machine that says it is another one than the inventory names is an error.
    type: str
    choices: [present, settled, absent]
    default: present
"""

EXAMPLES = r"""
- name: Let all machines ask for their kubelets' certificates
  aks.flexnode.flexnode_identity_binding:
    nodes: "{{ ansible_play_hosts | aks.flexnode.arc_bindings(hostvars) }}"
  run_once: true
  delegate_to: localhost
"""

RETURN = r"""
_value:
  description: One item a machine, as M(aks.flexnode.flexnode_identity_binding) takes them.
  type: list
  elements: dict
  sample: [{name: edge-1, machine_id: /subscriptions/..., cluster_id: /subscriptions/...}]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.arc import arc_bindings


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"arc_bindings": arc_bindings}
