# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command. Imported by Host when it runs its first one: most polls run none."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from ..dataclass import dataclass


@dataclass(frozen=True)
class Completed:
    """The result of a command."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str


Runner = Callable[[Sequence[str], "bytes | None", float], Completed]


ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "SYSTEMD_PAGER": "",
}
KEPT = 2000  # lines of a command whose output is shown while it runs
TIMED_OUT = 124


def run_command(argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
    """Run a command without a shell, in the C locale, for at most `timeout` seconds."""
    try:
        done = subprocess.run(
            list(argv),
            input=data or b"",
            capture_output=True,
            timeout=timeout,
            check=False,
            env=ENVIRONMENT,
        )
    except FileNotFoundError:
        return Completed(tuple(argv), 127, "", f"{argv[0]}: not found")
    except subprocess.TimeoutExpired:
        return Completed(tuple(argv), TIMED_OUT, "", f"no answer within {timeout:g} s")
    stdout, stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    return Completed(tuple(argv), done.returncode, stdout, stderr)


class Stop:
    """A request to end what runs, such as SIGTERM; safe at any moment, also while a command starts."""

    def __init__(self) -> None:
        self.asked = False
        self.busy = False  # a command is being started or runs: it is ended, and its caller sees `asked`
        self._end: Callable[[], None] | None = None

    def ask(self) -> None:
        """End the command that runs, if any, in a thread: a signal handler must not wait."""
        self.asked = True
        if self._end:
            threading.Thread(target=self._end, daemon=True).start()

    def watch(self, end: Callable[[], None] | None) -> None:
        """How to end the command that runs now; None: it has ended."""
        self._end = end
        if self.asked and end:
            end()


def run_shown(
    argv: Sequence[str],
    environment: Mapping[str, str],
    say: Callable[[str], None],
    timeout: float,
    *,
    cwd: str,
    stop: Stop,
) -> Completed:
    """Run a command in a directory and pass on each line as it comes; the last lines are also returned.

    After `timeout` seconds, or when `stop` is asked for, it ends, with everything that it started.
    """
    stop.busy = True
    try:
        return _shown(argv, {**ENVIRONMENT, **environment}, say, timeout, cwd, stop)
    finally:
        stop.busy = False
        stop.watch(None)


def _shown(
    argv: Sequence[str],
    environment: Mapping[str, str],
    say: Callable[[str], None],
    timeout: float,
    cwd: str,
    stop: Stop,
) -> Completed:
    lines: deque[str] = deque(maxlen=KEPT)
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=cwd,
            start_new_session=True,
        )
    except FileNotFoundError:
        return Completed(tuple(argv), 127, "", f"{argv[0]}: not found")
    late = threading.Event()

    def end() -> None:
        _kill(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        _kill(process, signal.SIGKILL)

    def too_late() -> None:
        late.set()
        end()

    timer = threading.Timer(timeout, too_late)
    timer.daemon = True  # it must not keep this process, whatever happens here
    timer.start()
    try:
        with process:
            try:
                stop.watch(end)
                for line in process.stdout or ():
                    lines.append(line.decode(errors="replace").rstrip("\n"))
                    say(lines[-1])
            except BaseException:
                end()  # here: the end of `with` waits for it
                raise
    finally:
        timer.cancel()
    status = TIMED_OUT if late.is_set() else process.returncode
    return Completed(tuple(argv), status, "\n".join(lines), "")


def _kill(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    """End a command and everything that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)
