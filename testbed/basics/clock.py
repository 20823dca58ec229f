# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from testbed.basics.errors import TookTooLong


def wait_for(what: str, check: Callable[[], bool], seconds: float, interval: float = 0.1) -> None:
    """Call check until it is true; TookTooLong names what did not come."""
    deadline = time.monotonic() + seconds
    while not check():
        if time.monotonic() > deadline:
            raise TookTooLong(f"{what} did not come within {seconds:.0f} s")
        time.sleep(interval)
