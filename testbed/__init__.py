# SPDX-License-Identifier: GPL-3.0-or-later
"""A real cluster, node machines, a mirror and a registry on one machine."""

from __future__ import annotations

from testbed.basics.errors import CommandFailed, TestbedError
from testbed.bed import Testbed
from testbed.machine import Machine
from testbed.mirror.faults import Fault

__all__ = ["CommandFailed", "Fault", "Machine", "Testbed", "TestbedError"]
