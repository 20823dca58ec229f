# SPDX-License-Identifier: GPL-3.0-or-later
"""What all tests have in common; pytest reads it before it imports any of them."""

from __future__ import annotations

from hypothesis import settings

# How long an example takes says more about who else uses the machine than about the code.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
