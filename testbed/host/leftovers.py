# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that podman no longer knows because it was killed while it started a container."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from testbed.basics.process import run


@dataclass(frozen=True)
class Monitor:
    """A container's monitor as its command line tells."""

    pid: int
    container: str
    name: str


def parse(pid: int, cmdline: bytes) -> Monitor | None:
    """A monitor from a process's command line; None if it is another program."""
    words = cmdline.decode(errors="replace").split("\0")
    if Path(words[0]).name != "conmon" or "-c" not in words or "-n" not in words:
        return None
    return Monitor(pid, words[words.index("-c") + 1], words[words.index("-n") + 1])


def monitors(prefix: str) -> list[Monitor]:
    """The monitors of containers whose names begin so."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended while we looked
            monitor = parse(int(process.name), (process / "cmdline").read_bytes())
            if monitor and monitor.name.startswith(prefix):
                found.append(monitor)
    return found


def end(prefix: str) -> None:
    """End containers of that prefix behind podman's back; call it when podman says that there are none."""
    for monitor in monitors(prefix):
        run(["runc", "delete", "--force", monitor.container], check=False)
        with contextlib.suppress(ProcessLookupError):
            os.kill(monitor.pid, signal.SIGKILL)
