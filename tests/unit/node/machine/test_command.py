# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Commands: environment, time limit, missing ones."""

from __future__ import annotations

import sys

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import run_command


@pytest.mark.parametrize(
    ("code", "status", "stdout"),
    [
        ("print('hello')", 0, "hello\n"),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", 0, "\ufffd"),
        ("import os; print(os.environ['LC_ALL'], 'HOME' in os.environ)", 0, "C False\n"),
        ("import sys; print(sys.stdin.read())", 0, "\n"),
    ],
)
def test_a_command_runs_in_the_c_locale_with_an_environment_of_its_own(
    code: str, status: int, stdout: str
) -> None:
    done = run_command([sys.executable, "-c", code], None, 30)
    assert (done.status, done.stdout) == (status, stdout)


def test_a_missing_or_slow_command_is_an_answer() -> None:
    assert run_command(["/no/such/program"], None, 5).status == 127
    slow = run_command([sys.executable, "-c", "import time; time.sleep(60)"], None, 0.2)
    assert (slow.status, slow.stderr) == (124, "no answer within 0.2 s")
