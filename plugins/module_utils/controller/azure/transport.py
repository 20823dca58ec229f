# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of every SDK client: retries, time limits and trusted CAs."""

from __future__ import annotations

from typing import Any

# A fleet must not fail because one answer was lost. Retry-After is obeyed.
RETRIES = {
    "retry_total": 10,
    "retry_status": 6,
    "retry_connect": 3,
    "retry_read": 4,
    "retry_backoff_max": 30,
    "connection_timeout": 10,
    "read_timeout": 60,
}


def transport_options(ca_bundle: str) -> dict[str, Any]:
    """Retries, time limits and trusted CAs."""
    return {**RETRIES, **({"connection_verify": ca_bundle} if ca_bundle else {})}
