# SPDX-License-Identifier: GPL-3.0-or-later
"""What is proven, what must run again, and how long that takes: decisions only, nothing is run here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from scripts.proof.parts import Part
from scripts.proof.record import Row
from scripts.proof.results import FAILED, NOT_RUN, PASSED
from scripts.proof.tree import covers


class State(Enum):
    """What the record says of a part, for the files of today."""

    PROVEN = "proven"
    OLDER = "older"
    FAILED = FAILED
    NOT_RUN = NOT_RUN
    NEVER = "never run"


def state_of(row: Row | None, content: str) -> State:
    """Compare the files with which a part last ran with those of today."""
    if row is None:
        return State.NEVER
    if row.outcome == FAILED:
        return State.FAILED
    if row.outcome == NOT_RUN:
        return State.NOT_RUN
    return State.PROVEN if row.content == content else State.OLDER


class Unknown(Exception):
    """A name that no part has."""


def chosen(parts: Sequence[Part], names: Sequence[str]) -> list[Part]:
    """The parts of these names, in the order of the list; `faults` is all of faults/..."""
    if not names:
        return list(parts)
    groups = {name: [part for part in parts if is_in(part.name, name)] for name in names}
    if strange := [name for name, found in groups.items() if not found]:
        raise Unknown(f"there is no part {', '.join(strange)}: {', '.join(part.name for part in parts)}")
    wanted = {part.name for found in groups.values() for part in found}
    return [part for part in parts if part.name in wanted]


def is_in(part: str, name: str) -> bool:
    """Whether a part has this name, or is of this group."""
    return part == name or part.startswith(f"{name.rstrip('/')}/")


def due(
    parts: Iterable[Part], rows: Mapping[str, Row], contents: Mapping[str, str], *, again: bool
) -> list[Part]:
    """What is to be run: all that has not passed with the files of today."""
    return [
        part
        for part in parts
        if again or state_of(rows.get(part.name), contents[part.name]) is not State.PROVEN
    ]


def touched(parts: Iterable[Part], paths: Sequence[str]) -> dict[str, list[str]]:
    """The parts that cover any of these files, each with the files that it covers."""
    found = {part.name: [path for path in paths if covers(part.covers, path)] for part in parts}
    return {name: covered for name, covered in found.items() if covered}


def estimate(part: Part, row: Row | None) -> float:
    """Seconds: as long as it took when it last passed, else what its author thinks."""
    return row.seconds if row and row.outcome == PASSED else part.minutes * 60


@dataclass(frozen=True)
class Progress:
    """Where a run is."""

    number: int
    of: int
    ran: float
    """Seconds of this part so far."""
    expected: float
    """Seconds that this part takes."""
    then: float
    """Seconds that all parts after it take."""

    @property
    def left(self) -> float:
        """Seconds until all is done: a part that is late is about to end."""
        return max(self.expected - self.ran, 0) + self.then


def succeeded(
    parts: Iterable[Part], rows: Mapping[str, Row], contents: Mapping[str, str], *, allow: bool
) -> bool:
    """Whether all of these parts are proven; with `allow`, also those that can't run here are enough."""
    good = {State.PROVEN, State.NOT_RUN} if allow else {State.PROVEN}
    return all(state_of(rows.get(part.name), contents[part.name]) in good for part in parts)
