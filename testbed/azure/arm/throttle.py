# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource Manager's throttling: a bucket of tokens for each principal and kind of request."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from testbed.azure.settings import Settings

KINDS = {"GET": "read", "HEAD": "read", "DELETE": "delete"}


class Throttle:
    """Buckets that fill up again with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str], tuple[float, float]] = {}

    def take(self, object_id: str, method: str, settings: Settings) -> tuple[str, int, int]:
        """(kind, how many are left, seconds to wait): a wait of 0 means that the request may pass."""
        kind = KINDS.get(method, "write")
        burst = float(getattr(settings, f"{kind}_burst"))
        rate = float(getattr(settings, f"{kind}_rate"))
        now = self._clock()
        with self._lock:
            filled, since = self._buckets.get((object_id, kind), (burst, now))
            filled = min(burst, filled + (now - since) * rate)
            if filled < 1:
                self._buckets[object_id, kind] = (filled, now)
                return kind, 0, max(1, math.ceil((1 - filled) / rate))
            self._buckets[object_id, kind] = (filled - 1, now)
            return kind, int(filled - 1), 0
