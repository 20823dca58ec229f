# SPDX-License-Identifier: GPL-3.0-or-later
"""A mistake that was made once: how to make it again, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

NODE = "plugins/module_utils/node"
UNIT = "tests/unit/node"
DID_NOT_RAISE = "Failed: DID NOT RAISE"
ASSERTION = "AssertionError|assert "


class Outdated(Exception):
    """The code has changed: an edit does not fit any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Exact text of one file, and what it was before it was corrected."""

    file: str
    now: str
    was: str = ""

    def apply(self, root: Path) -> str:
        """Put the old text back; returns the present content of the file."""
        content = (root / self.file).read_text()
        if (found := content.count(self.now)) != 1:
            raise Outdated(f"{self.file} has this text {found} times, not once:\n{self.now}")
        (root / self.file).write_text(content.replace(self.now, self.was))
        return content


@dataclass(frozen=True, slots=True)
class Case:
    """One point of the list. With these edits, every one of these tests must fail, and say so."""

    point: str
    mistake: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]
    fails: str = ASSERTION  # how each failure begins, as a pattern: the right reason
