# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a long-running operation that the service itself decides about."""

from __future__ import annotations

import time

from testbed.azure.database import Database


def end(database: Database, operation: str, error: tuple[str, str, str] | None = None) -> None:
    """End an operation well, or with (status, code, message); status is Failed or Canceled."""
    with database.together():
        if error:
            database.change("REPLACE INTO operation_errors VALUES (?, ?, ?, ?)", operation, *error)
        database.change("UPDATE operations SET ends = ? WHERE id = ?", time.time(), operation)
