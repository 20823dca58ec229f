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
    sys.stdout.write(printable(f"{text}\n", sys.stdout.encoding))
    sys.stdout.flush()


def printable(text: str, encoding: str | None) -> str:
    """What a terminal can't show is escaped: a file name that is no UTF-8 must not stop the command."""
    name = encoding or "utf-8"
    return text.encode(name, "backslashreplace").decode(name)


def complain(text: object) -> None:
    """Write to standard error."""
    sys.stderr.write(printable(f"{text}\n", sys.stderr.encoding))


def progress(host: Host) -> Say:
    """Progress lines with the seconds since the start."""
    start = host.clock.monotonic()

    def say(sentence: str) -> None:
        show(f"{host.clock.monotonic() - start:6.1f} s  {sentence}")

    return say
