# SPDX-License-Identifier: GPL-3.0-or-later
"""One command of a part: its output, its processor time, and how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scripts.checkout import ROOT

LOOK_SECONDS = 0.2
# A part that is asked to stop removes what it started: machines, a cluster. Asked twice, it has no time.
STOP_SECONDS = 300
KILL_SECONDS = 10


# With these in it, pytest may select other tests, or asserts be left out; with colours nothing is read.
NOT_INHERITED = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTHONOPTIMIZE", "FORCE_COLOR")


class Stopped(Exception):
    """Somebody wants the run to end."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    seconds: float
    cpu_seconds: float
    too_long: bool = False


def run(
    command: Sequence[str], log: Path, *, limit: float, tell: Callable[[float], None], every: float
) -> Ended:
    """Run a command to its end, or stop it after `limit` seconds; `tell` hears now and then how long it ran.

    It is the leader of a group of its own, so that Ctrl-C of a terminal reaches it through us, once.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    environment = {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}
    started = told = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable if word == "python" else word for word in command],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        while (found := _ended(process)) is None:
            time.sleep(LOOK_SECONDS)
            now = time.monotonic()
            if now - started > limit:
                stop(process)
                return Ended(1, now - started, 0, too_long=True)
            if now - told >= every:
                told = now
                tell(now - started)
    except (KeyboardInterrupt, Stopped):
        stop(process)
        raise
    status, cpu = found
    return Ended(status, time.monotonic() - started, cpu)


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, float] | None:
    """Exit status and processor time of a command and of all that it waited for; None while it runs."""
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if not pid:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a command and its children as Ctrl-C does; then, or when asked again, with less patience."""
    for number, patience in (
        (signal.SIGINT, STOP_SECONDS),
        (signal.SIGTERM, KILL_SECONDS),
        (signal.SIGKILL, None),
    ):
        _signal(process, number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        except (KeyboardInterrupt, Stopped):
            continue
        break
    _signal(process, signal.SIGKILL)  # children that outlived it


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # all of them have ended
        os.killpg(process.pid, number)
