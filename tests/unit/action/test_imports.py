# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What every run of a playbook imports on the controller."""

from __future__ import annotations

import os
import subprocess
import sys

COLLECTION = "ansible_collections.aks.flexnode.plugins"


def test_the_source_action_does_not_import_the_azure_sdk() -> None:
    """It takes a quarter of a second, and most runs never ask Azure; the modules that do import it."""
    code = (
        f"import {COLLECTION}.action.flexnode_source, sys; "
        "print(*{'azure', 'kubernetes', 'msal', 'requests'} & {name.split('.')[0] for name in sys.modules})"
    )
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=path)
    assert done.stdout.split() == []
