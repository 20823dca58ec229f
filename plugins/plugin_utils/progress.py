# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shows what a module on the controller tells while it waits, line by line as it comes.

Ansible shows nothing of a module until it has ended, and a VPN gateway takes 30 to 45 minutes.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

INTERVAL = 1.0


@contextmanager
def shown_progress(show: Callable[[str], None], interval: float = INTERVAL) -> Iterator[str]:
    """A file for lines of a module; each is shown soon after it was written."""
    descriptor, path = tempfile.mkstemp(prefix="flexnode-progress-")
    os.close(descriptor)
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(path, show, ended, interval), daemon=True)
    thread.start()
    try:
        yield path
    finally:
        ended.set()
        thread.join(10)
        with suppress(FileNotFoundError):
            os.unlink(path)


def _follow(path: str, show: Callable[[str], None], ended: threading.Event, interval: float) -> None:
    with open(path, encoding="utf-8") as file:
        rest = ""
        while True:
            last = ended.wait(interval)
            rest += file.read()
            *lines, rest = rest.split("\n")
            for line in lines:
                show(line)
            if last:
                return
