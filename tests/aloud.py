# SPDX-License-Identifier: GPL-3.0-or-later
"""What pytest would keep to itself, and a person who waits wants to read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def aloud(config: pytest.Config) -> Iterator[None]:
    """What is said meanwhile is shown: what a testbed makes for the first time, and how long that takes."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    with capture.global_and_fixture_disabled():
        yield
