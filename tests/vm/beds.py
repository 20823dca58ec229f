# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbeds of these tests: their names, and that no two runs use the same one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from testbed import Testbed
from testbed.basics import files, paths
from testbed.basics.errors import TestbedError
from testbed.layout import site

NAMED = "TESTBED_NAME"


def bed_name() -> str:
    """One for each lane."""
    return os.environ.get(NAMED, "vm") + os.environ.get("PYTEST_XDIST_WORKER", "")


@contextmanager
def alone(bed: Testbed) -> Iterator[None]:
    """A second run would remove the machines of the first."""
    with files.try_lock(paths.state(bed.name).with_suffix(".vm-lock")) as free:
        if not free:
            raise TestbedError(
                f"testbed {bed.name} is used by another `make vm`: wait until it has ended, or set {NAMED}"
            )
        if NAMED not in os.environ and site.load(bed.name):
            for left in bed.nodes():  # of a run that was killed
                left.remove()
        yield
