# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: arc_by_hand
short_description: What a machine lacks and nobody gives it in this run
version_added: 0.1.0
description:
  - Picks from the C(missing_roles) of M(aks.flexnode.arc_register) those that role C(arc) does not give, by
    what the inventory says.
positional: hostvars
options:
  _input:
    description: Name of a host.
    type: str
    required: true
  hostvars:
    description: The variables of all hosts, C(hostvars).
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Say which roles are missing, and what grants them
  ansible.builtin.debug:
    msg: "{{ inventory_hostname | aks.flexnode.arc_by_hand(hostvars) | map(attribute='command') }}"
"""

RETURN = r"""
_value:
  description: Items of C(missing_roles).
  type: list
  elements: dict
  sample: [{kind: kubernetes, role: "system:node", command: kubectl create clusterrolebinding ...}]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.arc import arc_by_hand


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"arc_by_hand": arc_by_hand}
