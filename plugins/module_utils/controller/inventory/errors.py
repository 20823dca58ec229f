# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with an inventory."""

from __future__ import annotations

from ...node.errors import FlexNodeError


class InventoryInvalid(FlexNodeError):
    code, title = "FLEX-1106", "The inventory can't be used as it is"
    remedy = "correct them in the inventory or on the command line, then run this again. Nothing was changed"


class NoTargets(FlexNodeError):
    code, title = "FLEX-1107", "No machine of this run has a source that this playbook writes to"


class MachinesNotNamed(FlexNodeError):
    code, title = "FLEX-1108", "A playbook that removes machines needs their names on the command line"
