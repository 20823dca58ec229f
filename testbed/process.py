# SPDX-License-Identifier: GPL-3.0-or-later
"""Running other programs: always a list, a fixed locale and a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import CommandFailed, TestbedError

# Where Debian puts administration tools; a user's PATH often lacks it.
ADMIN_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

Completed = subprocess.CompletedProcess[str]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for child programs: ours, C locale, administration tools reachable."""
    env = {**os.environ, "LC_ALL": "C"}
    env["PATH"] = f"{env.get('PATH', '/usr/bin:/bin')}:{ADMIN_PATH}"
    env.update(extra or {})
    return env


def run(
    argv: Sequence[str | Path],
    *,
    check: bool = True,
    input: str | bytes | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 120,
) -> Completed:
    """Run a program to its end with its output captured; raise CommandFailed unless check is off."""
    words = [str(word) for word in argv]
    data = input.encode() if isinstance(input, str) else input or b""
    try:
        done = subprocess.run(
            words,
            input=data,
            capture_output=True,
            env=environment(env),
            cwd=cwd,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        raise TestbedError(f"program {words[0]} is missing: run 'python -m testbed doctor'") from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(words, -1, f"still running after {timeout:.0f} s") from error
    text = Completed(
        words, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    if check and text.returncode != 0:
        raise CommandFailed(words, text.returncode, text.stderr or text.stdout)
    return text
