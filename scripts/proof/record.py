# SPDX-License-Identifier: GPL-3.0-or-later
"""What was proven: docs/proof.json, one row for each part, written after each of them.

A row is replaced by the next run of its part. One that failed stays until a later run passes or fails:
that the part could not run since then repairs nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.checkout import ROOT
from scripts.proof.results import FAILED, NOT_RUN

RECORD = ROOT / "docs" / "proof.json"


@dataclass(frozen=True)
class Row:
    """The last run of one part."""

    part: str
    outcome: str
    said: str
    commit: str
    content: str
    """The digest of what the part covers: while it is the same, the row holds."""
    date: str
    seconds: float
    cpu_seconds: float
    """Of the part's own processes; what runs in the containers of the testbed is not in it."""


def load(file: Path = RECORD) -> dict[str, Row]:
    """The rows by part; none if there is no such file."""
    if not file.is_file():
        return {}
    return {found["part"]: Row(**found) for found in json.loads(file.read_text(encoding="utf-8"))}


def dump(rows: Iterable[Row]) -> str:
    """The text of the file."""
    return json.dumps([asdict(row) for row in sorted(rows, key=lambda row: row.part)], indent=1) + "\n"


def with_row(rows: dict[str, Row], new: Row) -> dict[str, Row]:
    """The rows after a run."""
    old = rows.get(new.part)
    if old and old.outcome == FAILED and new.outcome == NOT_RUN:
        return rows
    return {**rows, new.part: new}


def save(rows: Iterable[Row], file: Path = RECORD) -> None:
    """Write all of them, or nothing: a run may be killed here, too."""
    temporary = file.with_name(f".{file.name}.new")
    temporary.write_text(dump(rows), encoding="utf-8")
    os.replace(temporary, file)
