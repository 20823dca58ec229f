# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: message
short_description: Show lines as lines
version_added: 0.1.0
description:
  - Turns lines into the value of C(msg) that Ansible prints line by line.
  - With results in YAML (C(callback_result_format=yaml)) that is one text that ends with a line break,
    because anything else would be wrapped after 80 characters. With results in JSON it is a list, because a
    text would show C(\n); a single line stays a text.
options:
  _input:
    description: The lines.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show all nodes of a cluster
  ansible.builtin.debug:
    msg: "{{ found.nodes | aks.flexnode.table | aks.flexnode.message }}"
"""

RETURN = r"""
_value:
  description: One text, or the lines as they were.
  type: raw
  sample: "NODE    STATE\nedge-1  Succeeded\n"
"""

from collections.abc import Callable, Sequence
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError

RESULT_FORMAT = ("result_format", "callback", "default")


def message(lines: Sequence[str]) -> str | list[str]:
    """The lines, as the callback that is in use prints them best."""
    try:
        option, kind, name = RESULT_FORMAT
        shown = constants.config.get_config_value(option, plugin_type=kind, plugin_name=name)
    except AnsibleError:  # another callback prints, and the options of the default one are not known
        shown = "json"
    if shown == "yaml":
        return "\n".join(lines) + "\n"
    return lines[0] if len(lines) == 1 else list(lines)


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"message": message}
