# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen on virtual machines, noted and shown while they run: build/vm.json.

`python -m scripts.tried` puts it into the pages.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from scripts.checkout import ROOT
from scripts.tried import FAILED, PASSED, SEEN, UNFINISHED, Record, dump, load
from testbed.basics import files
from testbed.machine.vm import VirtualMachine
from tests.vm.acts import AGAIN, JOIN, LIFE, LINE, POD, REBOOT, UNINSTALL, UPDATE

FACTS = "import platform, os; print(platform.release(), os.path.exists('/sys/fs/cgroup/cgroup.controllers'))"
COLUMNS = {
    JOIN: "join",
    POD: "pod",
    AGAIN: "again",
    REBOOT: "reboot",
    UPDATE: "update",
    UNINSTALL: "uninstall",
}


def commit() -> str:
    """What is checked out; with a plus if files differ from it, or nobody can say."""
    try:
        head, changes = (
            subprocess.run(
                ["git", "-C", str(ROOT), *asked], capture_output=True, text=True, check=True
            ).stdout
            for asked in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain"))
        )
    except (OSError, subprocess.CalledProcessError):  # no git, no checkout, or somebody else's
        return "unknown+"
    return head.strip() + ("+" if changes else "")


class Seen:
    """Acts and how long each took; written down when an act begins and when it is over.

    Tests that run side by side share the file.
    """

    def __init__(
        self,
        started_with: str,
        file: Path = SEEN,
        say: Callable[[str], None] = lambda line: None,
        now: Callable[[], str] = commit,
        program: str = "",
    ) -> None:
        self._commit = started_with
        self._file = file
        self._say = say
        self._now = now
        self._program = program

    @contextmanager
    def act(self, machine: VirtualMachine, kubelet: str, act: str, part: str) -> Iterator[None]:
        """Note an act; one that is interrupted is neither passed nor failed."""
        kernel, v2 = machine.run(["python3", "-c", FACTS]).stdout.split()
        begun = Record(
            part=part,
            act=act,
            platform=machine.platform,
            arch=machine.hardware.arch,
            kernel=kernel,
            cgroup="v2" if v2 == "True" else "v1",
            kubelet=kubelet,
            outcome=UNFINISHED,
            seconds=0.0,
            commit=self._commit,
            program=self._program,
        )
        self._note(begun)
        start, outcome = time.monotonic(), FAILED
        try:
            yield
            outcome = PASSED
        except (KeyboardInterrupt, SystemExit):
            outcome = UNFINISHED
            raise
        finally:
            # Playbooks and plugins are read at each run: an edit meanwhile means that no commit was tried.
            same = self._now() == self._commit
            done = replace(
                begun,
                outcome=outcome,
                seconds=round(time.monotonic() - start, 1),
                commit=self._commit if same else f"{self._commit.rstrip('+')}+",
            )
            self._note(done)
            self._say(_line(done))

    def _note(self, record: Record) -> None:
        with files.lock(self._file.with_suffix(".lock")):
            others = [
                other
                for other in load(self._file)
                if other.row != record.row or (other.act != record.act and other.commit == record.commit)
            ]
            files.write(self._file, dump([*others, record]))

    def table(self) -> list[str]:
        """For people, with times: what this commit did."""
        records = [one for one in load(self._file) if one.commit.rstrip("+") == self._commit.rstrip("+")]
        lives = [one for one in records if one.part in (LIFE, LINE)]
        others = [one for one in records if one.part not in (LIFE, LINE)]
        return [*_matrix(lives), *([""] if lives and others else []), *map(_line, others)]


def _matrix(records: Sequence[Record]) -> list[str]:
    if not records:
        return []
    rows = [("machine", "kernel", "kubelet", *COLUMNS.values())]
    for row in dict.fromkeys(record.row for record in records):
        acts = {record.act: record for record in records if record.row == row}
        first, last = next(iter(acts.values())), list(acts.values())[-1]
        kubelets = " ".join(dict.fromkeys((first.kubelet, last.kubelet)))
        took = (_took(acts[act]) if act in acts else "-" for act in COLUMNS)
        rows.append((first.machine, first.kernel, kubelets, *took))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [str.ljust] * 3 + [str.rjust] * len(COLUMNS)
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(aligned, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _line(record: Record) -> str:
    what = f"{record.machine}: " + (record.act if record.part == "case" else f"{record.part}: {record.act}")
    if record.program:
        what += f" (program of {record.program})"
    return f"{what:90} {_took(record)}"


def _took(record: Record) -> str:
    return f"{record.seconds:.0f} s" if record.outcome == PASSED else record.outcome.upper()
