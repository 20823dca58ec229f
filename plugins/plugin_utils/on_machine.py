# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module on the machine of the task, and sends the node's code with it as one archive.

Ansible packs what a module imports: it parses every file and searches for every imported name. For the node's
code that takes one to two seconds of every run of a playbook; to read and compress the same files takes less
than a tenth of a second. meta/runtime.yml routes the modules that need the node's code through an action
plugin of this class.
"""

from __future__ import annotations

import fcntl
import io
import os
import zipfile
import zlib
from base64 import b64encode
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from ansible import constants
from ansible.plugins.action import ActionBase

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import collect
from ansible_collections.aks.flexnode.plugins.module_utils.node_code import PACKAGE

MODULE_UTILS = Path(__file__).parents[1] / "module_utils"
ROOMS = ("node", "on_machine")

Result = dict[str, Any]


class MachineAction(ActionBase):  # type: ignore[misc]
    """Run the module of the task on its machine."""

    _supports_async = True
    _supports_check_mode = True
    _supports_diff = True

    def run(self, tmp: None = None, task_vars: dict[str, Any] | None = None) -> Result:
        """Run the module as Ansible runs modules without an action plugin, with one option more."""
        super().run(tmp, task_vars)
        result: Result = self._execute_module(
            module_args=with_node_code(self._task.args),
            task_vars=task_vars,
            wrap_async=self._task.async_val and not self._connection.has_native_async,
        )
        result.get("invocation", {}).get("module_args", {}).pop("node_code", None)
        self._drop_facts(result)
        if "module_stdout" in result:
            result["msg"] = without_result(result)
        return result

    def _drop_facts(self, result: Result) -> None:
        """Drop facts: no module here returns any, and Ansible would take them for variables of the host.

        They count more than those of the inventory: root on the machine could set any flexnode_* variable of
        its host, such as its Node's name. The interpreter is Ansible's own finding.
        """
        found = result.pop("ansible_facts", None)
        key = self._discovered_interpreter_key
        if key and isinstance(found, dict) and key in found:
            result["ansible_facts"] = {key: found[key]}


def without_result(result: Result) -> str:
    """What to say of a module that ended without a result: Ansible tells only that it could not read any."""
    said = [result.get(key, "").strip().splitlines() for key in ("module_stderr", "module_stdout")]
    last = next((lines[-1] for lines in said if lines), "it said nothing")
    return (
        f"the module was cut short on this machine (exit status {result.get('rc', 'unknown')}): {last}\n"
        "fix: look at the machine's kernel log (dmesg | tail): a disk that fails and too little memory end "
        "programs like this; then run this again"
    )


class Arguments(dict[str, Any]):
    """Arguments of a module. Ansible writes them to its debug log; the archive would be half a megabyte."""

    def __repr__(self) -> str:
        return repr({**self, "node_code": "..."})


def with_node_code(arguments: dict[str, Any]) -> Arguments:
    """The arguments of a task, and the archive."""
    return Arguments({**arguments, "node_code": node_code()})


def node_code() -> str:
    """The archive as text, packed once per run: all workers of a run share Ansible's temporary directory."""
    path = Path(constants.DEFAULT_LOCAL_TMP, "aks.flexnode.node_code")
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the first worker packs, the others wait for its file
        if not path.exists():
            with NamedTemporaryFile(dir=path.parent, delete=False) as file:  # mode 0600
                file.write(b64encode(packed()))
            os.replace(file.name, path)
    return path.read_text(encoding="ascii")


def packed() -> bytes:
    """Node's code and the modules' own: the same bytes for the same files.

    A zip, because Python imports from one. It is compressed as a whole: a third smaller than file by file.
    """
    files = {f"{PACKAGE}/__init__.py": b""}
    for room in ROOMS:
        collect(MODULE_UTILS / room, f"{PACKAGE}/{room}", files)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in sorted(files):
            zipped.writestr(zipfile.ZipInfo(name), files[name])
    return zlib.compress(archive.getvalue())
