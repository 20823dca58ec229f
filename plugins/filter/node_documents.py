# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: node_documents
short_description: What the inventory says about nodes, as one list
version_added: 0.1.0
description:
  - Collects what the inventory says of each host, so that one module call on the controller serves them all.
positional: hostvars, sources
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
  sources:
    description: Only hosts whose C(flexnode_config_source) is one of these count. Without it, all do.
    type: list
    elements: str
    default: []
  documents:
    description: Whether each item carries the merged settings of its host.
    type: bool
    default: true
  tokens:
    description:
      - Whether each item says, as C(token), if its host joins with a bootstrap token. Those that bring an
        Azure identity do not, unless their C(kubernetesAuth.method) says so.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Have the flexNodeConfig of every machine
  aks.flexnode.flexnode_config:
    nodes: "{{ ansible_play_hosts | aks.flexnode.node_documents(hostvars, ['rp']) }}"
"""

RETURN = r"""
_value:
  description:
    - One item a host, with the name of its Node, the resource id of its cluster, and C(flexnode_config) with
      C(flexnode_host_config) merged over it.
  type: list
  elements: dict
  sample: [{name: edge-1, cluster_id: /subscriptions/..., document: {node: {maxPods: 50}}}]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.fleet import node_documents


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"node_documents": node_documents}
