# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests have in common; pytest reads it before it imports any of them."""

from __future__ import annotations

import os
import sys

from hypothesis import settings

# How long an example takes says more about who else uses the machine than about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")

# Where Python may not keep what it compiled, each worker, and each program that a test starts, compiles all
# of it again: most of what the collection of the tests costs, and of what a short program does.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
