# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command. Imported by Host when it runs its first one: most polls run none."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from ..dataclass import dataclass


@dataclass(frozen=True)
class Completed:
    """The result of a command."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


Runner = Callable[[Sequence[str], "bytes | None", float], Completed]


def run_command(argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
    """Run a command without a shell, in the C locale, for at most `timeout` seconds."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "SYSTEMD_PAGER": "",
    }
    try:
        done = subprocess.run(
            list(argv),
            input=data or b"",
            capture_output=True,
            timeout=timeout,
            check=False,
            env=environment,
        )
    except FileNotFoundError:
        return Completed(tuple(argv), 127, "", f"{argv[0]}: not found")
    except subprocess.TimeoutExpired:
        return Completed(tuple(argv), 124, "", f"no answer within {timeout:g} s")
    stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    return Completed(tuple(argv), done.returncode, stdout, stderr)
