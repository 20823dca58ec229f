# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen on which kind of machine: docs/tried.json, from which the README's table is written."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.basics import files
from testbed.machine.vm import VirtualMachine

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs" / "tried.json"
FACTS = "import platform, os; print(platform.release(), os.path.exists('/sys/fs/cgroup/cgroup.controllers'))"


class Seen:
    """Acts and how long each took, per kind of machine; written down as soon as an act is over.

    Tests that run side by side share the file.
    """

    def __init__(
        self, commit: str, file: Path = FILE, say: Callable[[str], None] = lambda line: None
    ) -> None:
        self._commit = commit
        self._file = file
        self._say = say

    @property
    def rows(self) -> dict[str, Any]:
        """All that was seen so far."""
        return json.loads(self._file.read_text(encoding="utf-8")) if self._file.is_file() else {}

    @contextmanager
    def act(self, machine: VirtualMachine, kubernetes: str, name: str) -> Iterator[None]:
        """Note an act; one that fails is noted as such, in place of what an earlier run saw."""
        kernel, v2 = machine.run(["python3", "-c", FACTS]).stdout.split()
        row = {
            "platform": machine.platform,
            "arch": machine.hardware.arch,
            "kubernetes": kubernetes,
            "kernel": kernel,
            "cgroup": "v2" if v2 == "True" else "v1",
        }
        self._note(row, name, None)
        start, seconds = time.monotonic(), None
        try:
            yield
            seconds = round(time.monotonic() - start, 1)
            self._note(row, name, seconds)
        finally:
            self._say(_line(name, seconds))

    def _note(self, row: dict[str, Any], act: str, seconds: float | None) -> None:
        with files.lock(ROOT / "build" / f"{self._file.name}.lock"):
            rows = self.rows
            key = f"{row['platform']} {row['arch']} {row['kubernetes']}"
            acts = rows.get(key, {}).get("acts", {})
            rows[key] = {**row, "acts": {**acts, act: {"seconds": seconds, "commit": self._commit}}}
            files.write(self._file, json.dumps(rows, indent=1) + "\n")

    def table(self) -> list[str]:
        """For people, with times: what this commit did, and how much is known of others only."""
        lines: list[str] = []
        others: list[float | None] = []
        for key, row in sorted(self.rows.items()):
            acts = {act: done for act, done in row["acts"].items() if done["commit"] == self._commit}
            others += [done["seconds"] for act, done in row["acts"].items() if act not in acts]
            if acts:
                lines.append(f"{key}  (kernel {row['kernel']}, cgroup {row['cgroup']})")
                lines += [_line(act, done["seconds"]) for act, done in acts.items()]
        if others:
            failed = f", {others.count(None)} of them FAILED" if None in others else ""
            where = self._file.relative_to(ROOT)
            lines.append(f"{len(others)} more ran with other commits only{failed}: {where}")
        return lines


def _line(act: str, seconds: float | None) -> str:
    return f"    {act:60} " + ("FAILED" if seconds is None else f"{seconds:8.1f} s")


def commit() -> str:
    """What is checked out; with a plus if more was changed than what is written here."""
    git = ["git", "-C", str(ROOT)]
    found = [
        subprocess.run([*git, *asked], capture_output=True, text=True, check=False).stdout.strip()
        for asked in (
            ("rev-parse", "--short", "HEAD"),
            ("status", "--porcelain", "--", ".", ":!docs/tried.json"),
        )
    ]
    return found[0] + ("+" if found[1] else "")
