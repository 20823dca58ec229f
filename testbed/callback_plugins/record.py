# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes one line of JSON for every task result, so that tests read data instead of screens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: record
type: notification
short_description: Record every task result
description: Appends one JSON object a line to the file that C(FLEXNODE_RECORD) names.
"""

COLLECTION = Path(__file__).resolve().parents[2]
ROUTED = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text(encoding="utf-8"))["plugin_routing"][
    "modules"
]
ACTIONS = {path.stem for path in (COLLECTION / "plugins/action").glob("*.py")}


ON_MACHINE = "flexnode_reconcile"  # the action that sends the node's code to the machine of the task


def on_controller(task: Any) -> bool:
    """Whether a task of the collection ran on the controller."""
    name = str(task.action).removeprefix("aks.flexnode.")
    if name == "flexnode_node" and not task.args.get("kubeconfig"):
        return False
    action = str(ROUTED.get(name, {}).get("action_plugin", name)).removeprefix("aks.flexnode.")
    return action in ACTIONS and action != ON_MACHINE


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """An observer; changes nothing of what a user sees."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "record"
    CALLBACK_NEEDS_ENABLED = True

    def _record(self, outcome: str, result: Any) -> None:
        data, host = result._result, result._host.get_name()
        line = {
            "outcome": outcome,
            # Where it ran: what ran on the controller did nothing to the machine.
            "host": result._task.delegate_to or ("localhost" if on_controller(result._task) else host),
            "task": result._task.get_name(),
            "action": result._task.action,
            "changed": bool(data.get("changed")),
            # Only what ran as a module (here or on the machine) reports how it was invoked.
            "module": "invocation" in data,
            "result": data,
        }
        with open(os.environ["FLEXNODE_RECORD"], "a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task succeeded."""
        self._record("ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed."""
        self._record("failed", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """A machine could not be reached."""
        self._record("unreachable", result)
