# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of all machines of a play as a table and a report, on the controller."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.fleet_status import (
    Row,
    columns_of,
    row_of,
    summary_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.table import table
from ansible_collections.aks.flexnode.plugins.plugin_utils.status_page import page

ARGUMENTS: dict[str, dict[str, Any]] = {
    "results": {"type": "str", "required": True},
    "path": {"type": "path"},
}


class ActionModule(ActionBase):  # type: ignore[misc]
    """Rows from registered results. No text of a machine is templated: it could contain an expression."""

    _supports_check_mode = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the table, and write the report if a path is named."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        _valid, options = self.validate_argument_spec(argument_spec=ARGUMENTS)
        hostvars, name, now = variables["hostvars"], options["results"], time.time()
        rows = [
            row_of(str(host), hostvars[host].get(name) or {}, now)
            for host in variables["ansible_play_hosts_all"]
        ]
        changed = False
        if options["path"]:
            content = report(options["path"], rows, now)
            if not self._task.check_mode:
                write(options["path"], content)
                changed = True
        return {
            **result,
            "changed": changed,
            "lines": table(rows, columns_of(rows)),
            "machines": {row["host"]: row for row in rows},
            "summary": summary_of(rows),
        }


def report(path: str, rows: list[Row], now: float) -> str:
    """The content of a report, by the ending of its name."""
    if path.endswith(".html"):
        return page(rows, now)
    if path.endswith(".json"):
        generated = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
        document = {"generated": generated, "summary": summary_of(rows), "machines": rows}
        return json.dumps(document, indent=2, sort_keys=True) + "\n"
    raise AnsibleActionFail(f"flexnode_report is {path}: use a name that ends in .html or .json")


def write(path: str, content: str) -> None:
    """Replace the file at once: the old one may be open in a browser."""
    directory = os.path.dirname(os.path.abspath(path))
    try:
        descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".flexnode-report-")
    except OSError as error:
        raise AnsibleActionFail(f"flexnode_report is {path}: {error.strerror}") from error
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise AnsibleActionFail(f"flexnode_report is {path}: {error.strerror}") from error
