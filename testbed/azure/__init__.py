# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulated Azure that the real Azure SDK accepts: Entra ID, Resource Manager, and AKS behind them."""

from __future__ import annotations

from testbed.azure.azure import Azure
from testbed.azure.behaviour.faults import Fault
from testbed.azure.behaviour.record import Request
from testbed.azure.sign_in.directory import Principal

__all__ = ["Azure", "Fault", "Principal", "Request"]
