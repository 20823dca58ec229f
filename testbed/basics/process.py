# SPDX-License-Identifier: GPL-3.0-or-later
"""Running other programs: always a list, a fixed locale and a time limit."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.basics.errors import CommandFailed, TestbedError

# Where Debian puts administration tools; a user's PATH often lacks it.
ADMIN_PATH = "/usr/local/sbin:/usr/sbin:/sbin"

Completed = subprocess.CompletedProcess[str]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for child processes: this one, C locale, administration tools in PATH."""
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
    finishes: bool = False,
) -> Completed:
    """Run a program to its end with its output captured; raise CommandFailed unless check is off.

    One that finishes is not ended by a Ctrl-C or a signal to our group: cut short, it would leave a mess.
    """
    words = [str(word) for word in argv]
    data = input.encode() if isinstance(input, str) else input or b""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=environment(env),
            cwd=cwd,
            start_new_session=finishes,
        )
    except FileNotFoundError as error:
        raise TestbedError(f"program {words[0]} is missing: run 'python -m testbed doctor'") from error
    try:
        output, errors = process.communicate(data, timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.communicate()
        raise CommandFailed(words, -1, f"still running after {timeout:.0f} s") from error
    except BaseException:
        if not finishes:
            process.kill()
            process.wait()
        raise
    done = Completed(
        words, process.returncode, output.decode(errors="replace"), errors.decode(errors="replace")
    )
    if check and done.returncode != 0:
        raise CommandFailed(words, done.returncode, done.stderr or done.stdout)
    return done
