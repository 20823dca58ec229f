# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log of a run: each step with its outcome and duration, in the log file and in the system's journal."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence

from ..dataclass import dataclass, field
from ..errors import FlexNodeError
from ..machine.clock import stamp
from ..machine.host import Host
from ..machine.program import COMMAND, VERSION
from ..resources.log_file import LogFile, is_ours, rotate
from .journald import LEVELS, to_journal
from .lease import holder
from .records.journal import Journal
from .restarts import Progress, silent
from .transaction import CHECK_FAILED, Timings

SHORT = 0.05  # seconds: the duration of a shorter change says nothing
SECRET = "<secret>"  # noqa: S105 - what is shown instead of one


@dataclass()
class RunLog:
    """Receives the progress of a run. A step ends where the next one begins.

    The file is written once, at the end of the run, and only if it exists: it is an item of the node, so
    that unbootstrap and a rollback find nothing that they do not know. The journal gets each line at once.
    """

    host: Host
    path: str
    level: str = "info"
    secrets: Sequence[str] = ()
    also: Progress = silent
    lines: list[tuple[str, str, str]] = field(default_factory=list)  # time, level, text
    owner: str = ""
    began: float = 0.0
    result: str = "completed"
    quiet: bool = True  # nothing was done yet: a run that ends so is only logged at the level debug
    _step: str = ""
    _since: float = 0.0
    _why: str = ""
    _sent: int = 0

    def begin(self) -> None:
        """Who runs, with which version."""
        self.owner = holder(self.host) or COMMAND
        self.began = self.host.clock.monotonic()
        self.line("info", f"begins (version {VERSION}, process {os.getpid()})")

    def wake(self) -> None:
        """Something is to be done."""
        self.quiet = False
        self.send()

    def send(self) -> None:
        """Send what the journal does not have yet."""
        if self.quiet and self.level != "debug":
            return
        for _time, level, text in self.lines[self._sent :]:
            to_journal(self.host, level, f"{self.owner}: {text}")
        self._sent = len(self.lines)

    def __call__(self, sentence: str) -> None:
        """The next step begins; that a check failed is said of the one before it."""
        self.end_step("see the end of this run" if sentence.startswith(CHECK_FAILED) else "")
        self._step, self._since = sentence, self.host.clock.monotonic()
        self.also(sentence)

    def failed(self, why: str) -> None:
        """The present step has failed."""
        self._why = why

    def end_step(self, failure: str = "") -> None:
        """Write the outcome of the present step."""
        why = failure or self._why
        if self._step:
            spent = f"{self.host.clock.monotonic() - self._since:.1f} s"
            if why:
                self.line("error", f"failed   {self._step} ({spent}): {why}")
            else:
                self.line("info", f"done     {self._step} ({spent})")
        self._step, self._why = "", ""

    def changes(self, planned: Sequence[str], timings: Timings, *, complete: bool) -> None:
        """The changes of a plan: what was done, what failed, and what was not reached because of that."""
        for sentence, seconds in timings.changes:
            self.line("info", f"done     {sentence}" + (f" ({seconds:.1f} s)" if seconds >= SHORT else ""))
        for sentence in () if complete else planned[len(timings.changes) :]:
            failed = sentence == timings.attempt
            self.line("error" if failed else "info", f"{'failed' if failed else 'skipped':<8} {sentence}")

    def more(self, actions: Sequence[str]) -> None:
        """What was done beside the plan."""
        if actions:
            self.wake()
        for sentence in actions:
            self.line("info", f"done     {sentence}")

    def line(self, level: str, text: str) -> None:
        """Add a line, unless agent.logLevel excludes it."""
        if LEVELS[level] > LEVELS[self.level]:
            return
        flat = " / ".join(part.strip() for part in text.splitlines() if part.strip())
        for secret in self.secrets:
            flat = flat.replace(secret, SECRET)
        self.lines.append((stamp(self.host.clock), level, flat))
        self.send()

    def end(self, level: str, result: str) -> None:
        """The result of the run; everything is written to the file now."""
        self.line(level, f"{result} (after {self.host.clock.monotonic() - self.began:.1f} s)")
        if not self.lines or not is_ours(self.host, self.path):
            return
        rotate(self.host, self.path)
        text = "".join(f"{time} {level:<7} {self.owner}: {text}\n" for time, level, text in self.lines)
        # A file name that is no UTF-8 must not keep the run from being logged.
        self.host.append(self.path, text.encode(errors="backslashreplace"), durable=False)


@contextlib.contextmanager
def recorded(log: RunLog) -> Iterator[RunLog]:
    """Record a run with its end, however it ends; a kill ends it in the journal alone.

    A run within a run is part of the outer one.
    """
    if log.owner:
        yield log
        return
    log.begin()
    try:
        yield log
    except FlexNodeError as error:
        if not (error.waits and log.quiet):  # a node that waits asks often, and says so once
            log.wake()
        log.end_step(f"{error.code}: {error.what}" if error.last_step is None else error.last_step)
        error.recorded = True
        _end(log, "info" if error.waits else "error", f"{'waits' if error.waits else 'failed'}: {error}")
        raise
    except KeyboardInterrupt:
        log.wake()
        log.end_step("interrupted")
        _end(log, "error", "interrupted")
        raise
    log.end_step()
    _end(log, "debug" if log.quiet else "info", "nothing to do" if log.quiet else log.result)


def log_of(journal: Journal) -> str:
    """The log file of this node; empty: it has none."""
    return next((entry.name for entry in journal.entries() if entry.kind == LogFile.kind), "")


def note_failure(host: Host, journal: Journal, error: FlexNodeError, owner: str) -> None:
    """Log a run that failed before its first step: a document that was refused, for example."""
    if error.recorded or not (path := log_of(journal)):
        return
    log = RunLog(host, path, owner=owner, began=host.clock.monotonic(), quiet=False)
    error.recorded = True
    _end(log, "error", f"failed: {error}")


def _end(log: RunLog, level: str, result: str) -> None:
    """A full disk must not hide how the run ended."""
    if log.quiet and log.level != "debug":
        return
    with contextlib.suppress(FlexNodeError):
        log.end(level, result)
