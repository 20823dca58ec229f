# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: table
short_description: Show rows as lines of a table
version_added: 0.1.0
description:
  - Turns a list of dictionaries into lines of equal columns, for people to read.
positional: columns
options:
  _input:
    description: The rows.
    type: list
    elements: dict
    required: true
  columns:
    description:
      - Each column is a list of a title, a key (with dots for what lies deeper) and, if needed, a text for
        rows without that key.
      - Without it, the columns for the result of M(aks.flexnode.flexnode_config_info).
    type: list
    elements: list
"""

EXAMPLES = r"""
- name: Show all nodes of a cluster
  ansible.builtin.debug:
    msg: "{{ found.nodes | aks.flexnode.table | aks.flexnode.message }}"
"""

RETURN = r"""
_value:
  description: The lines, the first of which holds the titles.
  type: list
  elements: str
  sample: ["NODE    STATE", "edge-1  Succeeded"]
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.table import table


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"table": table}
