# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Several things at once, none for longer than it may take."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def together(probes: Mapping[str, Callable[[], T]], seconds: float) -> tuple[dict[str, T], tuple[str, ...]]:
    """Run every probe in a thread of its own; returns the answers, and the names of those that came too late.

    Not an executor: that waits for its threads when the program ends, and a name server that never answers
    would hold it up. These threads die with the process. A probe that raises, raises here.
    """
    answers: dict[str, T] = {}
    troubles: dict[str, Exception] = {}
    done: queue.SimpleQueue[str] = queue.SimpleQueue()

    def run(name: str, probe: Callable[[], T]) -> None:
        try:
            answers[name] = probe()
        except Exception as error:  # noqa: BLE001 - raised again below, in the thread that asked
            troubles[name] = error
        done.put(name)

    for name, probe in probes.items():
        threading.Thread(target=run, args=(name, probe), name=f"preflight-{name}", daemon=True).start()
    waiting = set(probes)
    # Real time, whatever the host's clock is: it is real threads that are waited for.
    deadline = time.monotonic() + seconds
    while waiting:
        try:
            name = done.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        waiting.discard(name)
        if name in troubles:
            raise troubles[name]
    return {name: answers[name] for name in probes if name not in waiting}, tuple(
        name for name in probes if name in waiting
    )
