# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for each step that takes time; nothing when nothing is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """Print one plain line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show a step while it runs and its elapsed time when it ends."""
    began = time.monotonic()
    if sys.stdout.isatty():
        from rich.console import Console  # only a terminal needs it

        console = Console(highlight=False)
        with console.status(text):
            yield
        console.print(f"[green]done[/green] {text} [dim]{time.monotonic() - began:.1f} s[/dim]")
        return
    say(f"... {text}")
    yield
    say(f"ok  {text} ({time.monotonic() - began:.1f} s)")
