# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: arc_proxy
short_description: The proxy that a configuration wants the Azure Arc agent to use
version_added: 0.1.0
description:
  - Kept apart from P(aks.flexnode.arc_order#filter), as a proxy may have a password.
options:
  _input:
    description: A configuration document, or a part of it.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Tell the agent its proxy
  aks.flexnode.arc_register:
    proxy: "{{ flexnode_config | aks.flexnode.arc_proxy | default(omit, true) }}"
"""

RETURN = r"""
_value:
  description: The proxy. Empty where there is none, or where only a mark stands for one with a password.
  type: str
  sample: http://proxy.example.com:3128
"""

from collections.abc import Callable
from typing import Any

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.arc import arc_proxy


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"arc_proxy": arc_proxy}
