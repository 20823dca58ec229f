# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module flexnode_node, where it changes the Node of this machine with the kubelet's own credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..node.errors import FlexNodeError
from ..node.machine.host import Host
from ..node.operations.obtain import stored_config
from .node_changes import apply_nodes

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


def run(module: AnsibleModule) -> None:
    """Change the Node of this machine, or those that the options name."""
    params, host = module.params, Host()
    try:
        node = stored_config(host, pollable=True).node
        names = params["names"] or [one["name"] for one in params["nodes"]] or [node.name]
        result = apply_nodes(node.api(), names, params, host.clock, check=module.check_mode)
    except FlexNodeError as error:
        module.fail_json(msg=str(error), error=error.as_result())
    else:
        module.exit_json(**result)
