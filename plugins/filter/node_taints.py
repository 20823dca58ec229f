# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_taints
short_description: Taints that the controller changes after a join
version_added: 0.1.0
description:
  - Of the taints that a machine asks for, those that the controller changes with its own credential. Root on
    the machine could ask for any taint on any Node, so the inventory must agree.
  - Used by role P(aks.flexnode.node#role).
options:
  _input:
    description: The result of M(aks.flexnode.flexnode_reconcile).
    type: dict
    required: true
  handover:
    description: What role P(aks.flexnode.source#role) resolved for the machine.
    type: dict
    required: true
  host:
    description: The machine's name in the inventory.
    type: str
    required: true
positional: handover, host
"""

EXAMPLES = r"""
- name: Show which taints the controller would set
  ansible.builtin.debug:
    msg: "{{ (joined | aks.flexnode.node_taints(mine, inventory_hostname)).commands }}"
  vars:
    mine: "{{ source.machines[inventory_hostname] }}"
"""

RETURN = r"""
_value:
  description:
    - The Node (C(name)), what to C(set) and to C(remove) there, the C(commands) that do the same, and the
      commands for what is C(refused), with the reason (C(why)).
  type: dict
  sample: {name: edge-1, set: [], remove: [], commands: [], refused: [], why: ""}
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.handover.own_node import taint_changes


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"node_taints": taint_changes}
