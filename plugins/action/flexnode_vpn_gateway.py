# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the module on the controller, and shows the progress of Azure's long operations."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display

from ansible_collections.aks.flexnode.plugins.plugin_utils.on_controller import (
    ControllerAction,
    Result,
    hidden,
)
from ansible_collections.aks.flexnode.plugins.plugin_utils.progress import shown_progress

NAME = "aks.flexnode.flexnode_vpn_gateway"


class ActionModule(ControllerAction):
    """The module's result holds private keys: it is hidden, unless it says why the task failed."""

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Run it."""
        super(ControllerAction, self).run(tmp, task_vars)
        with shown_progress(Display().display) as path:
            args = {**self._task.args, "progress_file": self._task.args.get("progress_file") or path}
            result = self.on_controller(NAME, args, task_vars or {})
        for note in result.get("notes") or ():
            Display().warning(note)
        return hidden(result)
