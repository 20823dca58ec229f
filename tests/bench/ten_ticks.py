# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs on the node: ticks as the timer starts them, each in a process of its own; prints what each cost.

`ten_ticks.py COUNT quick|whole`. One JSON object per line: CPU milliseconds and MB at the peak of the command
itself; the CPU milliseconds of a Python that does nothing, right after it; bytes received and sent by TCP,
with TLS and headers, of a second tick that counts them. Python's standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import struct
import subprocess
import sys
from typing import Any

COMMAND = "/usr/local/bin/aks-flex-node"
# In the timer's sandbox the program is read-only: no tick may gain from byte code that an earlier one stored.
PYTHON = ("/usr/bin/python3", "-I", "-B")
CHECKED = "/run/aks-flex-node/drift-checked"  # without it the whole check is due
RECEIVED, SENT = 128, 200  # of struct tcp_info (linux/tcp.h): bytes of both directions


def tick() -> int:
    """One tick, which writes to standard output how many bytes its connections took."""
    total = 0
    close = socket.socket._real_close  # type: ignore[attr-defined]

    def counted(self: socket.socket, *arguments: Any) -> None:
        nonlocal total
        with contextlib.suppress(OSError, struct.error):  # not of TCP
            info = self.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
            total += sum(struct.unpack_from("=Q", info, place)[0] for place in (RECEIVED, SENT))
        close(self, *arguments)

    socket.socket._real_close = counted  # type: ignore[attr-defined]
    sys.path.insert(0, os.path.dirname(os.path.realpath(COMMAND)))
    from flexnode.follow.tick import main  # type: ignore[import-not-found]

    status: int = main()
    sys.stdout.write(f"{total}\n")
    return status


def measured(*, whole: bool) -> dict[str, float]:
    """What one tick cost. The bytes are those of another one: counting them takes CPU time."""
    spent, _said = spent_by([*PYTHON, COMMAND, "poll", "--hand-over"], whole=whole)
    bare, _nothing = spent_by([*PYTHON, "-c", "pass"], whole=False)
    _counting, said = spent_by([*PYTHON, __file__, "one"], whole=whole)
    return {
        "cpu_ms": cpu_of(spent),
        "bare_ms": cpu_of(bare),
        "rss_mb": spent.ru_maxrss / 1024,
        "bytes": float(said.split()[-1]),
    }


def cpu_of(spent: resource.struct_rusage) -> float:
    """CPU time in milliseconds."""
    return (spent.ru_utime + spent.ru_stime) * 1000


def spent_by(argv: list[str], *, whole: bool) -> tuple[resource.struct_rusage, str]:
    """What a process that succeeds used, and what it printed."""
    with contextlib.suppress(FileNotFoundError):
        if whole:
            os.remove(CHECKED)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        said = process.stdout.read() if process.stdout else ""
        _pid, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"a tick failed with status {process.returncode}: {said}")
    return spent, said


if __name__ == "__main__":
    if sys.argv[1] == "one":
        sys.exit(tick())
    for _number in range(int(sys.argv[1])):
        print(json.dumps(measured(whole=sys.argv[2] == "whole")))
