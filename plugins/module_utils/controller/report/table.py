# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows as lines of a table, for people to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

COLUMNS = (
    ("NODE", "name"),
    ("STATE", "provisioning_state"),
    ("READY", "ready"),
    ("VERSION", "config_version"),
    ("APPLIED", "applied_config_version"),
    ("LAST SEEN", "last_seen"),
    ("LEFTOVERS", "leftovers"),
    ("REASON", "reason"),
    ("MESSAGE", "message"),
)


def table(rows: Iterable[Mapping[str, Any]], columns: Sequence[Sequence[str]] = COLUMNS) -> list[str]:
    """Lines with equal columns; the first line holds the titles.

    A column is a title, a key (with dots for what lies deeper), and perhaps a text for rows without it.
    """
    lines = [[column[0] for column in columns]]
    lines += [[_cell(row, *column[1:]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def _cell(row: Any, key: str, unknown: str = "-") -> str:
    value = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(one) for one in value) or unknown
    return unknown if value is None or value == "" else str(value)
