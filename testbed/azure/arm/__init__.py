# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Resource Manager: its habits, and the resource providers behind it."""

from __future__ import annotations
