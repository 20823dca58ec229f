# SPDX-License-Identifier: GPL-3.0-or-later
"""What `make proof` showed."""

from __future__ import annotations

from scripts.docs.tables import code, rows
from scripts.proof.record import Row, load
from scripts.proof.results import PASSED
from scripts.test import spelled


def proof() -> str:
    """A row for each part that was run."""
    found = sorted(load().values(), key=lambda row: row.part)
    if not found:
        return "Nothing was run yet.\n"
    return rows(
        ((row.part, _result(row), *_times(row), code(row.commit), row.date) for row in found),
        head=("part", "result", "took", "CPU", "commit", "begun (UTC)"),
    )


def _result(row: Row) -> str:
    return row.said if row.outcome == PASSED else f"**{row.outcome}**: {row.said}"


def _times(row: Row) -> tuple[str, str]:
    return spelled(row.seconds), spelled(row.cpu_seconds)
