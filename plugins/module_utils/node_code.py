# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the code of a module that came to the machine as one archive (plugin_utils/on_machine.py)."""

from __future__ import annotations

import sys
import zlib
from base64 import b64decode
from collections.abc import Mapping
from importlib import import_module
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from .zip_importer import use_zip_importer

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# The options of the doc fragment aks.flexnode.node_code.
NODE_CODE: Mapping[str, Mapping[str, Any]] = {"node_code": {"type": "str", "no_log": True}}
PACKAGE = "aks_flexnode"  # in the archive; holds node/ and on_machine/
MISSING = (
    "aks.flexnode.{name} was started without its code, which the collection's action plugin sends in "
    "option node_code: run it as a task, or with `ansible HOST -m aks.flexnode.{name}`"
)


def run_node_code(module: AnsibleModule, name: str) -> None:
    """Run on_machine/NAME.py of the archive; it ends the module."""
    code = module.params.pop("node_code")  # not in `invocation` of the result
    if not code:
        module.fail_json(msg=MISSING.format(name=name))
    # A file without a name: nothing stays on the machine, also if the module is killed.
    with TemporaryFile() as archive:
        archive.write(zlib.decompress(b64decode(code)))
        archive.flush()
        use_zip_importer()
        sys.path.insert(0, f"/proc/self/fd/{archive.fileno()}")
        import_module(f"{PACKAGE}.on_machine.{name}").run(module)
