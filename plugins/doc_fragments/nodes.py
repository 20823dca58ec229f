# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The list of nodes that modules of the controller work on in one call."""

from __future__ import annotations


class ModuleDocFragment:
    """Options for nodes of one or several AKS clusters."""

    DOCUMENTATION = r"""
options:
  nodes:
    description:
      - The nodes.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the Node.
        type: str
        required: true
      cluster_id:
        description: Resource id of its AKS cluster, instead of O(cluster_id).
        type: str
  cluster_id:
    description:
      - Resource id of the AKS cluster of all nodes that do not name one.
    type: str
"""
