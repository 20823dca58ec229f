# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults the mirror shows on request: rules in a control file, read again whenever it changes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Fault:
    """What to do with matching requests."""

    match: str
    """A glob over the request path."""
    times: int | None = None
    """How many requests it hits; None for all."""
    delay: float = 0
    """Seconds before the answer."""
    status: int | None = None
    """Answer with this status and nothing else."""
    truncate: int | None = None
    """Close the connection after this many bytes of the body."""
    corrupt: bool = False
    """Flip the first byte of the body."""

    def as_dict(self) -> dict[str, Any]:
        """The rule as the control file holds it."""
        return dict(self.__dict__)


class FaultBook:
    """The rules of a control file with the number of times each was used."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None
        self._rules: list[Fault] = []
        self._used: list[int] = []

    def pick(self, path: str) -> Fault | None:
        """The first rule that applies to a request, counted as used."""
        self._reload()
        for index, rule in enumerate(self._rules):
            if fnmatchcase(path, rule.match) and (rule.times is None or self._used[index] < rule.times):
                self._used[index] += 1
                return rule
        return None

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            self._seen, self._rules, self._used = None, [], []
            return
        seen = (stat.st_mtime_ns, stat.st_ino)
        if seen != self._seen:
            self._rules = [Fault(**rule) for rule in json.loads(self._path.read_text(encoding="utf-8"))]
            self._used = [0] * len(self._rules)
            self._seen = seen
