# SPDX-License-Identifier: GPL-3.0-or-later
"""Run make targets, all of them even when one fails; show how far they are, and close with one summary line.

Targets that use one testbed run one after the other. Contract tests have a testbed of their own, without
machines, and run beside those: both mostly wait; unless TESTBED_NAME names one testbed for all of them. The
other targets need no testbed, so they run beside them, also one after the other and at a lower priority.
Each line of output starts with its target; the whole output of a target is in build/test-TARGET.log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from scripts.checkout import BUILD, ROOT

WITHOUT_MACHINES = frozenset({"contract"})
WITH_MACHINES = frozenset({"smoke", "e2e", "molecule", "bench", "demo"})
NICE = 5  # enough for machines to keep their pace, little enough for time limits in unit tests
PROGRESS_SECONDS = 30
TAIL = 60
LONG_MINUTES = 120  # from here on, seconds say nothing
# pytest's closing line, e.g. "== 12 passed, 1 skipped in 0.31s ==", with or without colours.
PYTEST_SUMMARY = re.compile(r"=+ (.*\d+ (?:passed|failed|error|skipped|deselected).*) in [\d.]+s.*=+")
PYTEST_PERCENT = re.compile(r"\[ *(\d+)%\]")
LINT_STEP = re.compile(r"^lint: (.+)")
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def spelled(seconds: float) -> str:
    """A duration for people: 42 s, 3 min 05 s, 7 h 20 min."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= LONG_MINUTES:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def reaped(process: subprocess.Popen[str]) -> float:
    """Wait for a process; the processor time of it and of all that it waited for, so not of machines."""
    try:
        _pid, status, usage = os.wait4(process.pid, 0)
    except ChildProcessError:  # the thread that stops targets was faster
        process.wait()
        return 0
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


@dataclass
class Target:
    """A make target, and how far it is."""

    name: str
    started: float = 0
    seconds: float = 0
    cpu_seconds: float = 0
    status: int | None = None
    summary: str = ""
    position: str = ""
    process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        """Its whole output."""
        return BUILD / f"test-{self.name}.log"

    @property
    def is_running(self) -> bool:
        return bool(self.started) and self.status is None

    def read(self, line: str) -> None:
        """Learn from a line of its output how far it is."""
        plain = COLOUR.sub("", line)
        if found := PYTEST_SUMMARY.search(plain):
            self.summary = found[1].strip()
        if found := PYTEST_PERCENT.search(plain) or LINT_STEP.match(plain):
            self.position = f"{found[1]} %" if found[1].isdigit() else found[1]

    def progress(self, now: float) -> str:
        """For how long it has been running, and what it did last."""
        last = f", {self.position}" if self.position else ""
        return f"{self.name} ({spelled(now - self.started)}{last})"

    def verdict(self) -> str:
        """How it ended."""
        took = f"{spelled(self.seconds)}, CPU {spelled(self.cpu_seconds)}"
        detail = f"{self.summary}, {took}" if self.summary else took
        return f"{self.name} {'FAILED' if self.status else 'ok'} ({detail})"


class Run:
    """All targets of one call."""

    def __init__(self, names: Sequence[str]) -> None:
        self.targets = [Target(name) for name in names]
        kinds: tuple[frozenset[str], ...] = (WITHOUT_MACHINES, WITH_MACHINES)
        if os.environ.get("TESTBED_NAME"):  # all of them use that one
            kinds = (WITHOUT_MACHINES | WITH_MACHINES,)
        on_testbeds = [[target for target in self.targets if target.name in kind] for kind in kinds]
        known = frozenset().union(*kinds)
        self.beside = [target for target in self.targets if target.name not in known]
        self.lanes = [lane for lane in (*on_testbeds, self.beside) if lane]
        self._print = threading.Lock()
        self._stopped = threading.Event()

    def say(self, text: str) -> None:
        """Print a line whole, although several lanes print."""
        with self._print:
            print(text, flush=True)

    def carry_out(self) -> int:
        """Run all of them; 1 if one failed."""
        BUILD.mkdir(exist_ok=True)
        start = time.monotonic()
        with ThreadPoolExecutor(max_workers=len(self.lanes) or 1) as pool:
            lanes = [pool.submit(self._lane, lane) for lane in self.lanes]
            try:
                while wait(lanes, timeout=PROGRESS_SECONDS).not_done:
                    self._show_progress(start)
            except KeyboardInterrupt:
                self.stop()
                raise
        for lane in lanes:
            lane.result()
        self._repeat_failures()
        failed = any(target.status for target in self.targets)
        verdicts = "; ".join(target.verdict() for target in self.targets)
        total = spelled(time.monotonic() - start)
        self.say(f"\n{'FAILED' if failed else 'OK'} in {total}: {verdicts}")
        return 1 if failed else 0

    def stop(self) -> None:
        """End what runs, as Ctrl-C in a terminal would."""
        self._stopped.set()
        for target in self.targets:
            if target.process and target.is_running:
                target.process.send_signal(signal.SIGINT)

    def _lane(self, lane: Sequence[Target]) -> None:
        for target in lane:
            if self._stopped.is_set():
                return
            self._run(target, nice=lane is self.beside and len(self.lanes) > 1)

    def _run(self, target: Target, *, nice: bool) -> None:
        """Run one target, and pass its output on as it comes."""
        self.say(f"===== {target.name} starts =====")
        target.started = time.monotonic()
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        if sys.stdout.isatty():
            environment["FORCE_COLOR"] = "1"
        command = [os.environ.get("MAKE", "make"), "--no-print-directory", target.name]
        if nice:
            command = ["nice", "-n", str(NICE), *command]
        with (
            target.log.open("w", encoding="utf-8") as log,
            subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process,
        ):
            target.process = process
            for line in process.stdout or ():
                log.write(COLOUR.sub("", line))
                target.read(line)
                self.say(f"{target.name:8} | {line.rstrip()}")
            target.cpu_seconds = reaped(process)
        target.seconds = time.monotonic() - target.started
        target.status = process.returncode
        self.say(f"===== {target.verdict()} =====")

    def _show_progress(self, start: float) -> None:
        now = time.monotonic()
        running = [target.progress(now) for target in self.targets if target.is_running]
        waiting = [target.name for target in self.targets if not target.started]
        then = f"; then {', '.join(waiting)}" if waiting else ""
        self.say(f"----- after {spelled(now - start)}: {', '.join(running)}{then}")

    def _repeat_failures(self) -> None:
        """Show the end of each failed target's output once more, in one piece."""
        for target in self.targets:
            if target.status:
                lines = target.log.read_text(encoding="utf-8").splitlines()[-TAIL:]
                where = target.log.relative_to(ROOT)
                self.say("\n".join(["", f"===== the end of {where} =====", *lines]))


def main(names: list[str]) -> int:
    try:
        return Run(names).carry_out()
    except KeyboardInterrupt:
        print("\ninterrupted", flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
