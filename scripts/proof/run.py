# SPDX-License-Identifier: GPL-3.0-or-later
"""Run parts one after the other, and write down each of them when it has ended."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from scripts.checkout import BUILD, ROOT
from scripts.proof import record, tree
from scripts.proof.child import Ended, Stopped, run
from scripts.proof.parts import Part
from scripts.proof.plan import Progress, estimate
from scripts.proof.record import Row
from scripts.proof.results import FAILED, NOT_RUN, PASSED, Result, published, read
from scripts.test import COLOUR, PYTEST_PERCENT, spelled

PROGRESS_SECONDS = 60
LEAST_LIMIT = 1800.0
TAIL_BYTES = 4000
TAIL_LINES = 40


def say(text: str) -> None:
    """Print at once: people read this at night."""
    print(text, flush=True)


def contents(parts: Sequence[Part], checkout: Path = ROOT) -> dict[str, str]:
    """What each part covers, as it is in the commit that is checked out."""
    listing = tree.files(checkout)
    return {part.name: content_of(part, listing) for part in parts}


def content_of(part: Part, listing: Mapping[str, str]) -> str:
    """What a part covers in one commit."""
    return tree.content(part.covers, listing, part.command)


def changes(part: Part, checkout: Path = ROOT) -> list[str]:
    """Files that a part covers and that are not as in the commit: what it shows then is of no commit."""
    return [path for path in tree.uncommitted(checkout) if tree.covers(part.covers, path)]


def write_pages() -> None:
    """docs/proof.md is generated from the record."""
    done = subprocess.run(
        [sys.executable, "-m", "scripts.docs"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        say(f"proof: the pages are not written: {done.stdout}{done.stderr}")


@dataclass
class Proof:
    """One call of `make proof`."""

    due: Sequence[Part]
    rows: dict[str, Row]
    allow: bool
    file: Path = record.RECORD
    checkout: Path = ROOT
    execute: Callable[..., Ended] = run
    publish: Callable[[], None] = write_pages
    """Writes the pages that show the record."""
    started: float = field(default_factory=time.monotonic)
    unrecorded: dict[str, str] = field(default_factory=dict)
    """Parts that ran with uncommitted files, with their result."""

    def carry_out(self) -> None:
        """Run all that is due. `Stopped` and Ctrl-C leave at once: what has ended is written already."""
        BUILD.mkdir(exist_ok=True)
        for number, part in enumerate(self.due, 1):
            self._part(number, part)

    def _part(self, number: int, part: Part) -> None:
        expected = estimate(part, self.rows.get(part.name))
        then = sum(estimate(one, self.rows.get(one.name)) for one in self.due[number:])
        log = BUILD / part.log_name
        self._show(part, Progress(number, len(self.due), 0, expected, then), log)

        def tell(ran: float) -> None:
            self._show(part, Progress(number, len(self.due), ran, expected, then), log)

        changed = changes(part, self.checkout)
        commit, content = tree.head(self.checkout), self._content(part)
        date = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M")
        limit = max(3 * expected, LEAST_LIMIT)
        ended = self.execute(part.command, log, limit=limit, tell=tell, every=PROGRESS_SECONDS)
        output = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
        if ended.too_long:
            result = Result(
                FAILED, f"stopped after {spelled(ended.seconds)}: it takes about {spelled(expected)}"
            )
        else:
            result = read(ended.status, output, part.reads)
        changed = changed or changes(part, self.checkout)
        if not changed and self._content(part) != content:
            changed = ["another commit was checked out meanwhile"]
        self._show_end(part, result, ended, log, output)
        if changed:
            shown = ", ".join(changed[:3])
            say(f"proof: {part.name} is not recorded, what it covers is uncommitted: {shown}")
            self.unrecorded[part.name] = f"{result.outcome}, not recorded: {result.said}"
            return
        row = Row(
            part.name,
            result.outcome,
            published(result.said),
            commit,
            content,
            date,
            round(ended.seconds, 1),
            round(ended.cpu_seconds, 1),
        )
        self.rows = record.with_row(self.rows, row)
        record.save(self.rows.values(), self.file)
        self.publish()  # at once: a page that is older than the record fails the unit tests, the next part

    def _content(self, part: Part) -> str:
        return content_of(part, tree.files(self.checkout))

    def _show(self, part: Part, at: Progress, log: Path) -> None:
        done = spelled(time.monotonic() - self.started)
        name = f"proof: {at.number} of {at.of}, {part.name}"
        if not at.ran:
            say(f"{name} starts, about {spelled(at.expected)}; after {done}, about {spelled(at.left)} left")
            return
        percent = position(log)
        say(
            f"{name}{f' {percent} %' if percent else ''}: {spelled(at.ran)} of about {spelled(at.expected)}; "
            f"after {done}, about {spelled(at.left)} left"
        )

    def _show_end(self, part: Part, result: Result, ended: Ended, log: Path, output: str) -> None:
        if result.outcome == FAILED or (result.outcome == NOT_RUN and not self.allow):
            lines = COLOUR.sub("", output).splitlines()[-TAIL_LINES:]
            say("\n".join(["", f"----- the end of build/{log.name} -----", *lines, ""]))
        cpu = f", CPU {spelled(ended.cpu_seconds)}" if ended.cpu_seconds else ""
        say(f"proof: {part.name} {result.outcome}: {result.said} ({spelled(ended.seconds)}{cpu})")


def position(log: Path) -> str:
    """The last percentage that pytest wrote."""
    try:
        with log.open("rb") as file:
            file.seek(max(log.stat().st_size - TAIL_BYTES, 0))
            found = PYTEST_PERCENT.findall(file.read().decode(errors="replace"))
    except OSError:
        return ""
    return found[-1] if found else ""


__all__ = ["NOT_RUN", "PASSED", "Proof", "Stopped", "changes", "contents", "say", "write_pages"]
