# SPDX-License-Identifier: GPL-3.0-or-later
"""The artifact mirror: a TLS file server in upstream's layout."""

from __future__ import annotations

from testbed.mirror.mirror import Mirror

__all__ = ["Mirror"]
