# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command prints: results, errors, progress."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..machine.host import Host

Say = Callable[[str], None]


def show(text: object) -> None:
    """Write to standard output and flush, so that progress appears at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def complain(text: object) -> None:
    """Write to standard error."""
    sys.stderr.write(f"{text}\n")


def progress(host: Host) -> Say:
    """Progress lines with the seconds since the start."""
    start = host.clock.monotonic()

    def say(sentence: str) -> None:
        show(f"{host.clock.monotonic() - start:6.1f} s  {sentence}")

    return say
