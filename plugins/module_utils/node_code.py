# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the code of a module that came to the machine as one archive (plugin_utils/on_machine.py).

This file and what it imports must be readable for every Python 3, so that an old one is told apart: without
`from __future__ import annotations`, which Python 3.6 lacks, and with types as texts.
"""

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
NODE_CODE: "Mapping[str, Mapping[str, Any]]" = {"node_code": {"type": "str", "no_log": True}}
PACKAGE = "aks_flexnode"  # in the archive; holds node/ and on_machine/
MISSING = (
    "aks.flexnode.{name} was started without its code, which the collection's action plugin sends in "
    "option node_code: run it as a task, or with `ansible HOST -m aks.flexnode.{name}`"
)
PYTHON = (3, 10)  # the oldest that can read the node's code
# The error UnsupportedPlatform, which is part of that code.
CODE = "FLEX-1301"
TOO_OLD = (
    "{code}: Python {found} is too old ({executable}): this machine needs Python {needed} or newer"
    "\nfix: upgrade the operating system to Ubuntu 22.04 or 24.04, Debian 12 or 13, whose own Python is new "
    "enough. On one of these, set ansible_python_interpreter of this machine to /usr/bin/python3"
)


def run_node_code(module: "AnsibleModule", name: str) -> None:
    """Run on_machine/NAME.py of the archive; it ends the module."""
    code = module.params.pop("node_code")  # not in `invocation` of the result
    complaint = too_old(sys.version_info[:3], sys.executable)
    if complaint:  # its import would end with an error that says nothing of Python
        module.fail_json(msg=complaint, error={"code": CODE})
    if not code:
        module.fail_json(msg=MISSING.format(name=name))
    # A file without a name: nothing stays on the machine, also if the module is killed.
    with TemporaryFile() as archive:
        archive.write(zlib.decompress(b64decode(code)))
        archive.flush()
        use_zip_importer()
        sys.path.insert(0, f"/proc/self/fd/{archive.fileno()}")
        import_module(f"{PACKAGE}.on_machine.{name}").run(module)


def too_old(version: "tuple[int, ...]", executable: str) -> str:
    """Why this Python can't run the node's code; empty: it can."""
    if version >= PYTHON:
        return ""
    found, needed = (".".join(map(str, numbers)) for numbers in (version, PYTHON))
    return TOO_OLD.format(code=CODE, executable=executable, found=found, needed=needed)
