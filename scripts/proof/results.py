# SPDX-License-Identifier: GPL-3.0-or-later
"""How a part ended, from its exit status and its output."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from scripts.core_lines import NOT_HERE
from scripts.test import COLOUR, PYTEST_SUMMARY

PASSED, FAILED, NOT_RUN = "passed", "failed", "not run"
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
SCENARIO_NOT_RUN = re.compile(r"^\S+ +\d+ +not run: (.+)$", re.MULTILINE)
SANITY_COUNT = re.compile(r"^sanity: (\d+) ran", re.MULTILINE)
NO_PACKAGES = re.compile(r"^sanity: not run: \S+: (its packages could not be installed)", re.MULTILINE)
# That of some mutants: none killed of none would be good enough.
SCORE = re.compile(r"^mutation: score ([1-9]\d*/[1-9].*)$", re.MULTILINE)
# An environment that can't be made here ends with such a line, and a status of its own: a test that fails may
# have these words in its output, too.
CANNOT = re.compile(r"^core-\S+ cannot run here: (.+)$", re.MULTILINE)
NAMED = 3  # failed tests that the record names
LONGEST = 200
# The record is published: no address of a mirror or of a machine belongs there.
ADDRESS = re.compile(
    r"\b[a-z][a-z0-9+.-]*://\S+|\b\d+(?:\.\d+){3}(?::\d+)?\b|(?<![\w./])/(?:[\w.@-]+/)+[\w.@-]*"
)
HOST = re.compile(
    r"\b(?!tests\b)[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?!py\b|yml\b|yaml\b|json\b|txt\b|log\b)[a-z]{2,}\b(?!\()"
)


@dataclass(frozen=True)
class Result:
    """What a part showed."""

    outcome: str
    said: str
    """The counts, or why there are none."""


Reader = Callable[[int, str], Result]


def read(status: int, output: str, reader: Reader) -> Result:
    """The result of a part that ended; what is the same for all of them is found first."""
    plain = COLOUR.sub("", output)
    if status == NOT_HERE and (found := CANNOT.search(plain)):
        return Result(NOT_RUN, found[1].strip())
    return reader(status, plain)


def of_pytest(status: int, output: str) -> Result:
    """All of the tests have to run: one that was skipped or deselected proves nothing."""
    return _tests(status, output, ("skipped", "deselected"))


def of_selected(status: int, output: str) -> Result:
    """The same of a command that selects tests by name or mark."""
    return _tests(status, output, ("skipped",))


def _tests(status: int, output: str, left_out: tuple[str, ...]) -> Result:
    """Counts of the closing line."""
    closing = PYTEST_SUMMARY.findall(output)
    counts = closing[-1].strip() if closing else ""
    if status == 0 and re.search(r"\d+ passed", counts):
        missing = [word for word in left_out if re.search(rf"\d+ {word}", counts)]
        return Result(FAILED, f"not all of them ran: {counts}") if missing else Result(PASSED, counts)
    if status == 5 or status == 0:
        return Result(FAILED, f"no test ran ({counts or 'none was selected'})")
    broken = list(dict.fromkeys(FAILED_TEST.findall(output)))
    names = ", ".join(broken[:NAMED]) + (" and more" if len(broken) > NAMED else "")
    return Result(FAILED, f"{counts or f'status {status}'}{f': {names}' if names else ''}")


def of_molecule(status: int, output: str) -> Result:
    """A scenario whose machine can't be created here ends well, and says so."""
    if status == 0 and (found := SCENARIO_NOT_RUN.search(output)):
        return Result(NOT_RUN, found[1].strip())
    return (
        Result(FAILED, f"status {status}") if status else Result(PASSED, "create, converge, verify, destroy")
    )


def of_sanity(status: int, output: str) -> Result:
    """Sanity tests without their packages are not all of them."""
    if found := NO_PACKAGES.search(output):
        return Result(FAILED, found[1])
    count = SANITY_COUNT.search(output)
    if status or not count:
        return Result(FAILED, f"status {status}")
    return Result(PASSED, f"{count[1]} sanity tests")


def of_mutation(status: int, output: str) -> Result:
    """The score, whether it is good enough or not."""
    score = SCORE.search(output)
    said = score[1] if score else f"status {status}"
    return Result(PASSED if status == 0 and score else FAILED, said)


def published(said: str) -> str:
    """The same for a page that everybody reads: without addresses, hosts and places of this machine."""
    plain = HOST.sub("(host)", ADDRESS.sub("(address)", said))
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."
