# SPDX-License-Identifier: GPL-3.0-or-later
"""One line for each step that takes time; nothing when nothing is done."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def say(text: str) -> None:
    """Print one plain line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def spelled(seconds: float) -> str:
    """A duration for people: 42 s, 14 min."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class _Line:
    """The terminal's last line: what runs at the moment, in whichever threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: list[str] = []
        self._status: Any = None

    def begin(self, text: str) -> None:
        with self._lock:
            self._running.append(text)
            if self._status is None:
                from rich.console import Console  # only a terminal needs it

                self._status = Console(highlight=False).status("")
                self._status.start()
            self._show()

    def end(self, text: str) -> None:
        with self._lock:
            self._running.remove(text)
            self._show()
            if not self._running:
                self._status.stop()
                self._status = None

    def _show(self) -> None:
        self._status.update(" | ".join(self._running))

    def add(self, text: str) -> None:
        """A line above it."""
        with self._lock:
            (self._status.console.print if self._status else say)(text)


_LINE = _Line()


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show a step while it runs and its elapsed time when it ends; steps may run beside each other."""
    began = time.monotonic()
    if not sys.stdout.isatty():
        say(f"... {text}")
        yield
        say(f"ok  {text} ({time.monotonic() - began:.1f} s)")
        return
    _LINE.begin(text)
    try:
        yield
        _LINE.add(f"[green]done[/green] {text} [dim]{time.monotonic() - began:.1f} s[/dim]")
    finally:
        _LINE.end(text)
