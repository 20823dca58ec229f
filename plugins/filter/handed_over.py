# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: handed_over
short_description: How each machine gets the configuration that was resolved on the controller
version_added: 0.1.0
description:
  - Turns what the sources answered into the few arguments that M(aks.flexnode.flexnode_config_fetch) takes on
    each machine. The result holds secrets.
positional: cluster, blob, tokens
options:
  _input:
    description: What M(aks.flexnode.flexnode_config) returned for each node.
    type: list
    elements: dict
    required: true
  cluster:
    description: What P(aks.flexnode.with_clusters#filter) returned.
    type: list
    elements: dict
    required: true
  blob:
    description: What M(aks.flexnode.flexnode_config_blob) returned for each node.
    type: list
    elements: dict
    required: true
  tokens:
    description:
      - What M(aks.flexnode.flexnode_bootstrap_token) returned for each node. It tells in check mode which of
        them have joined.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Keep what each machine is handed
  ansible.builtin.set_fact:
    handed: "{{ created.nodes | aks.flexnode.handed_over([], []) }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: By the name of its Node, C(source) with C(url), C(durable) or C(document).
  type: dict
  sample: {edge-1: {source: stored}}
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.fleet import handed_over


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"handed_over": handed_over}
