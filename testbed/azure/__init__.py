# SPDX-License-Identifier: GPL-3.0-or-later
"""An emulated Azure that the real Azure SDK accepts: Entra ID, Resource Manager, and AKS behind them."""

from __future__ import annotations

from testbed.azure.azure import Azure
from testbed.azure.directory import Principal
from testbed.azure.faults import Fault
from testbed.azure.record import Request

__all__ = ["Azure", "Fault", "Principal", "Request"]
