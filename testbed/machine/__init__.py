# SPDX-License-Identifier: GPL-3.0-or-later
"""Node machines: containers that share this machine's kernel, and virtual machines with their own."""

from __future__ import annotations

from testbed.machine.machine import Machine

__all__ = ["Machine"]
