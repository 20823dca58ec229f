# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: batches
short_description: Check how many machines a play works on at once
version_added: 0.1.0
description:
  - Turns the value of C(flexnode_serial) into the value of the keyword C(serial) of a play.
  - Ansible itself takes 0 and less as all machines at once, does not read a list that was set with C(-e) as a
    text, and ends with a traceback at what is no number.
positional: default
options:
  _input:
    description:
      - A number of machines (at least 1), a percentage of them (1% to 100%), or a list of these for one batch
        after the other. A list may be a text with commas. Anything else is an error.
    type: raw
    required: true
  default:
    description: What to use for a value that is blank.
    type: raw
    default: 10%
"""

EXAMPLES = r"""
- name: Update nodes, in batches
  hosts: all
  serial: "{{ flexnode_serial | default('') | aks.flexnode.batches('10%') }}"
"""

RETURN = r"""
_value:
  description: The sizes of the batches, one after the other. The last one counts for all further batches.
  type: list
  elements: raw
  sample: [1, 10%]
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.batches import (
    FIX,
    NO_BATCHES,
    Batch,
    batches_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.errors import InventoryInvalid

NAME = "flexnode_serial"


def batches(value: Any, default: Any = "10%") -> list[Batch]:
    """The batches of a play; an error names the variable, because a play has no other place to check it."""
    is_blank = value is None or (isinstance(value, str) and not value.strip())
    if found := batches_of(default if is_blank else value):
        return found
    error = InventoryInvalid(f"{NAME}: {value!r} {NO_BATCHES}", fix=FIX.format(name=NAME))
    error.unchanged = ""  # plays before this one may have changed something
    raise AnsibleFilterError(str(error))


class FilterModule:
    """The entry point that Ansible looks for."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """All filters of this file."""
        return {"batches": batches}
