# SPDX-License-Identifier: GPL-3.0-or-later
"""How many machines of a pool an upgrade may take at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


def at_once(max_unavailable: str, size: int) -> int:
    """maxUnavailable of a pool of that size: a number, or a percentage that is rounded up; at least 1."""
    if max_unavailable.endswith("%"):
        return max(1, math.ceil(size * int(max_unavailable[:-1]) / 100))
    return max(1, int(max_unavailable))


def one_by_one(items: Sequence[T], size: int, work: Callable[[T], None]) -> None:
    """Work on at most so many items at a time; after an error no other is begun, and it is raised.

    Items that are being worked on when another one fails are finished.
    """
    waiting, running = list(items), set[Future[None]]()
    errors: list[BaseException] = []
    with ThreadPoolExecutor(max_workers=size) as pool:
        while running or (waiting and not errors):
            while waiting and not errors and len(running) < size:
                running.add(pool.submit(work, waiting.pop(0)))
            done, running = wait(running, return_when=FIRST_COMPLETED)
            errors += [error for one in done if (error := one.exception())]
    if errors:
        raise errors[0]
