# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Other processes of a machine: a kernel's lock needs a real one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def another_process(act: Callable[[], object]) -> Iterator[int]:
    """Another process that did something and stays; it is killed, the hard way, when the block ends."""
    ready, done = os.pipe()
    pid = os.fork()
    if pid == 0:  # the child
        try:
            act()
            os.write(done, b".")
            signal.pause()
        finally:
            os._exit(1)
    os.close(done)
    try:
        assert os.read(ready, 1) == b"."
        yield pid
    finally:
        os.close(ready)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
