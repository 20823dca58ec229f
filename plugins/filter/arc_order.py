# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: arc_order
short_description: What a configuration wants of Azure Arc
version_added: 0.1.0
description:
  - Reads from a configuration document what M(aks.flexnode.arc_register) is to be told. What the document
    leaves out is the cluster's.
positional: cluster_id, name
options:
  _input:
    description: A configuration document, or a part of it.
    type: dict
    required: true
  cluster_id:
    description: Resource id of the AKS cluster, where the document does not say.
    type: str
    default: ""
  name:
    description: Name of the Node, where the document does not say.
    type: str
    default: ""
"""

EXAMPLES = r"""
- name: Show where this machine would be registered
  ansible.builtin.debug:
    msg: "{{ flexnode_config | aks.flexnode.arc_order(flexnode_cluster_id, inventory_hostname) }}"
"""

RETURN = r"""
_value:
  description:
    - Whether the machine is to be registered (C(enabled)) and given its roles (C(assign_roles)), and C(node),
      C(cluster_id), C(profile) and the options of M(aks.flexnode.arc_register).
  type: dict
  sample: {enabled: true, assign_roles: false, resource_group: edge, location: westeurope}
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.arc import arc_order


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"arc_order": arc_order}
