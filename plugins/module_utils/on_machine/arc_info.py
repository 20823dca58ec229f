# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module arc_info."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..node.errors import FlexNodeError
from ..node.machine.host import Host, require_root
from .arc_machine import inspect_machine

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Return the registration of this machine."""
    try:
        require_root()
        result = inspect_machine(Host(), module.params)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(**result)
