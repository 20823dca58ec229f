# SPDX-License-Identifier: GPL-3.0-or-later
"""Resource Manager's throttling: a bucket of tokens for each principal and kind of request."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from testbed.azure.behaviour.settings import Settings

KINDS = {"GET": "read", "HEAD": "read", "DELETE": "delete"}


class Throttle:
    """Buckets that fill up again with time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str], tuple[float, float, float]] = {}

    def take(self, object_id: str, method: str, settings: Settings) -> tuple[str, int, int]:
        """(kind, how many are left, seconds to wait): a wait of 0 means that the request may pass."""
        kind = KINDS.get(method, "write")
        return kind, *self.take_kind(object_id, kind, settings)

    def take_kind(self, owner: str, kind: str, settings: Settings) -> tuple[int, int]:
        """(how many are left, seconds to wait) in the bucket of the settings KIND_burst and KIND_rate.

        A bucket whose size was changed is full again: a test of throttling must not slow down the next one.
        """
        burst = float(getattr(settings, f"{kind}_burst"))
        rate = float(getattr(settings, f"{kind}_rate"))
        now = self._clock()
        with self._lock:
            filled, since, size = self._buckets.get((owner, kind), (burst, now, burst))
            filled = burst if size != burst else min(burst, filled + (now - since) * rate)
            if filled < 1:
                self._buckets[owner, kind] = (filled, now, burst)
                return 0, max(1, math.ceil((1 - filled) / rate))
            self._buckets[owner, kind] = (filled - 1, now, burst)
            return int(filled - 1), 0
