# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: with_clusters
short_description: Complete the settings of nodes with what their clusters say
version_added: 0.1.0
description:
  - Merges each node's own settings over what M(aks.flexnode.flexnode_cluster_info) found, and adds the token
    that M(aks.flexnode.flexnode_bootstrap_token) minted.
positional: clusters, tokens
options:
  _input:
    description: Nodes, as P(aks.flexnode.node_documents#filter) returns them.
    type: list
    elements: dict
    required: true
  clusters:
    description: Clusters, as M(aks.flexnode.flexnode_cluster_info) returns them.
    type: list
    elements: dict
    required: true
  tokens:
    description: Nodes with tokens, as M(aks.flexnode.flexnode_bootstrap_token) returns them.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Show the whole configuration of every machine, without its token
  ansible.builtin.debug:
    msg: "{{ nodes | aks.flexnode.with_clusters(found.clusters, []) }}"
"""

RETURN = r"""
_value:
  description: The nodes with whole documents.
  type: list
  elements: dict
  sample: [{name: edge-1, document: {kubernetes: {version: 1.34.4}}}]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.fleet import with_clusters


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"with_clusters": with_clusters}
