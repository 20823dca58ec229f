# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs that meet each other on one machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass


@dataclass(frozen=True)
class Said:
    """How one run ended."""

    who: str
    status: int
    output: str


Job = Callable[[], Said]


def together(longest: Job, *others: Job) -> list[Said]:
    """Start all at one moment; the others start again until the longest has ended, so that they meet it.

    A playbook needs seconds before it reaches the machine, a poll is over by then. Each runs at least once,
    and one that raises makes the test fail: a thread of its own would only print it.
    """
    start = threading.Barrier(1 + len(others))
    ended = threading.Event()

    def once() -> list[Said]:
        start.wait(60)
        try:
            return [longest()]
        finally:
            ended.set()

    def again(job: Job) -> list[Said]:
        start.wait(60)
        said = [job()]
        while not ended.is_set():
            said.append(job())
        return said

    with ThreadPoolExecutor(1 + len(others)) as pool:
        running = [pool.submit(once), *(pool.submit(again, job) for job in others)]
        return [one for job in running for one in job.result()]
