# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Time as a value that tests can replace."""

from __future__ import annotations

import time
from typing import Protocol

DOUBLINGS = 40  # of any pause that makes sense; a number has room for 1,023, which a node reached in 43 days


class Clock(Protocol):
    """What code that waits needs from a clock."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


def stamp(clock: Clock) -> str:
    """The present time in UTC, as ISO 8601."""
    return iso(clock.now())


def iso(seconds: float) -> str:
    """A time in UTC, as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(seconds))


def moment(stamped: str) -> float:
    """The time of a stamp, in seconds since the epoch; 0: it is not a stamp."""
    import calendar  # a tick that finds nothing does not need it

    try:
        return float(calendar.timegm(time.strptime(stamped, "%Y-%m-%dT%H:%M:%S+00:00")))
    except ValueError:
        return 0.0


def back_off(first: float, attempts: int, longest: float) -> float:
    """Seconds before something that failed so often is tried again: doubled each time, up to the longest."""
    doublings = min(max(attempts - 1, 0), DOUBLINGS)
    return min(first * 2.0**doublings, longest)


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
