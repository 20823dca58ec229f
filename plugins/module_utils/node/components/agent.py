# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The aks-flex-node command on the machine."""

from __future__ import annotations

from ..config.model import NodeConfig
from ..facts import Facts
from ..layout import BIN_DIR, PROGRAM_DIR
from ..program import COMMAND, sources
from ..resources.base import Resource
from ..resources.paths import Directory, Link
from ..resources.program import Program


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """The command, from the very files that run now."""
    program = Program(f"{PROGRAM_DIR}/agent", sources(), COMMAND)
    return [
        Directory(PROGRAM_DIR, 0o755, ours=True),
        program,
        Link(f"{BIN_DIR}/{COMMAND}", f"{program.path}/{COMMAND}"),
    ]
