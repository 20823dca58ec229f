# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Processes that end while they are looked at."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import ABSENT, Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.running import (
    main_process,
    runs_installed,
)
from tests.unit.node.fakes import PIDS, Machine


@pytest.fixture
def ended() -> Iterator[int]:
    """A process that has ended, and that nobody has waited for: it is still listed."""
    with subprocess.Popen(["true"]) as process:
        while " Z " not in Path(f"/proc/{process.pid}/stat").read_text():
            time.sleep(0.01)
        yield process.pid


def test_a_process_that_has_ended_has_no_program(ended: int) -> None:
    """Its link is there and leads nowhere; a status asked for at that moment ended in a traceback."""
    assert Path(f"/proc/{ended}/exe").is_symlink()
    assert Host().stat(f"/proc/{ended}/exe") is ABSENT


def test_it_is_no_other_program_either(ended: int) -> None:
    """A restart decides by what runs then, not by a process that is on its way out."""
    assert runs_installed(Host(), ended, "/usr/bin/true")


def test_the_kernel_keeps_fifteen_characters_of_a_name(machine: Machine) -> None:
    unit, name = "node-problem-detector.service", "node-problem-detector"
    machine.commands.processes = True
    machine.commands.begins(unit, exe=f"/usr/local/bin/{name}")
    assert machine.text(f"/proc/{PIDS[unit]}/comm") == "node-problem-de\n"
    assert main_process(machine.host, unit, name) == PIDS[unit]
    assert main_process(machine.host, unit, "node-problem-xx") == 0
