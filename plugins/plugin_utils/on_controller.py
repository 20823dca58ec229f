# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module on the controller, whatever machine the task is for.

The modules that ask Azure or the cluster need the controller's packages and credentials. meta/runtime.yml
routes them through an action plugin of this class, so that a task needs no delegate_to, no local connection
and no interpreter of its own. `delegate_to` is honoured where a task has it.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase
from ansible.plugins.loader import connection_loader
from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.plugin_utils.on_machine import with_node_code
from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress

Result = dict[str, Any]

# Their results hold tokens or signed URLs. A task-level no_log would hide their errors as well.
RETURN_SECRETS = frozenset(
    f"aks.flexnode.{name}"
    for name in (
        "flexnode_access_token",
        "flexnode_bootstrap_data",
        "flexnode_bootstrap_token",
        "flexnode_config",
        "flexnode_config_blob",
        "flexnode_token",
        "flexnode_vpn_gateway",
    )
)
# They wait for other operations in Azure, and tell it.
TELL_PROGRESS = frozenset(("aks.flexnode.flexnode_machine",))
# Without one of these options flexnode_node works on the machine, with the kubelet's own credential.
REMOTE_CLUSTER = ("kubeconfig", "context", "host", "cluster_id")


class ControllerAction(ActionBase):  # type: ignore[misc]
    """Run the module of the task on the controller."""

    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Run the module; what it returns is hidden where it holds secrets and did not fail."""
        super().run(tmp, task_vars)
        # A task may use the short name. Its resolved name is the action plugin's in ansible-core 2.17.
        module = f"aks.flexnode.{self._task.action.rpartition('.')[2]}"
        on_a_node = module == "aks.flexnode.flexnode_node" and not any(
            map(self._task.args.get, REMOTE_CLUSTER)
        )
        if on_a_node:
            on_machine: Result = self._execute_module(
                module_args=with_node_code(self._task.args), task_vars=task_vars
            )
            return on_machine
        if module in TELL_PROGRESS and not self._task.delegate_to:
            with shown_progress(Display().display) as path:
                args = {**self._task.args, "progress_file": self._task.args.get("progress_file") or path}
                return self.on_controller(module, args, task_vars or {})
        result = self.on_controller(module, self._task.args, task_vars or {})
        return hidden(result) if module in RETURN_SECRETS else result

    def on_controller(self, name: str, args: Mapping[str, Any], task_vars: Mapping[str, Any]) -> Result:
        """Run one module with the controller's own Python and without become."""
        variables = dict(task_vars)
        if not self._task.delegate_to:
            variables["ansible_python_interpreter"] = sys.executable
            if self._connection.transport != "local" or self._connection.become:
                context = copy.copy(self._play_context)
                context.executable, context.shell = constants.DEFAULT_EXECUTABLE, None  # not the machine's
                self._play_context: Any = context
                self._connection: Any = connection_loader.get("ansible.builtin.local", context, None)
        result: Result = self._execute_module(module_name=name, module_args=dict(args), task_vars=variables)
        return result


def hidden(result: Result) -> Result:
    """Hide a result from every output, unless it says why the task failed."""
    return result if result.get("failed") else {**result, "_ansible_no_log": True}


def undefaulted(options: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Options that are only passed on to modules: a default here would hide the environment of the task."""
    return {
        name: {key: value for key, value in option.items() if key not in ("default", "fallback")}
        for name, option in options.items()
    }
