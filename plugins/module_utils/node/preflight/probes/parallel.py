# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run several probes in parallel, with one time limit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def together(probes: Mapping[str, Callable[[], T]], seconds: float) -> tuple[dict[str, T], tuple[str, ...]]:
    """Run every probe in its own thread; returns the answers, and the names of those that were too late.

    Not an executor: that waits for its threads at exit, and a name server that never answers
    would block it. These are daemon threads. An exception of a probe is raised here.
    """
    answers: dict[str, T] = {}
    failures: dict[str, Exception] = {}
    done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(name: str, probe: Callable[[], T]) -> None:
        try:
            answers[name] = probe()
        except Exception as error:  # noqa: BLE001 - raised again below, in the calling thread
            failures[name] = error
        done.put(name)

    for name, probe in probes.items():
        threading.Thread(target=run, args=(name, probe), name=f"preflight-{name}", daemon=True).start()
    waiting = set(probes)
    # Real time, not the host's clock: the threads are real.
    deadline = time.monotonic() + seconds
    while waiting:
        try:
            name = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        waiting.discard(name)
        if name in failures:
            raise failures[name]
    return {name: answers[name] for name in probes if name not in waiting}, tuple(
        name for name in probes if name in waiting
    )
