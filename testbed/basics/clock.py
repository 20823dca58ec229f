# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that waits."""

from __future__ import annotations

import time
from collections.abc import Callable

from testbed.basics.errors import TookTooLong


def wait_for(what: str, check: Callable[[], bool], seconds: float, interval: float = 0.1) -> None:
    """Call check until it is true; TookTooLong names what did not come.

    Waits at least as long as it looks.
    """
    began = asked = time.monotonic()
    while not check():
        now = time.monotonic()
        if now > began + seconds:
            raise TookTooLong(f"{what} did not come within {seconds:.0f} s")
        time.sleep(max(interval, min(now - asked, 1)))
        asked = time.monotonic()
