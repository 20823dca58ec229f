# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen on which kind of machine: docs/tried.json, from which the README's table is written."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
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

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self._commit = commit()  # now: a later one is not what these tests run

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
        start = time.monotonic()
        yield
        self._note(row, name, {"seconds": round(time.monotonic() - start, 1), "commit": self._commit})

    def _note(self, row: dict[str, Any], act: str, done: dict[str, Any] | None) -> None:
        with files.lock(ROOT / "build" / f"{self._file.name}.lock"):
            rows = self.rows
            key = f"{row['platform']} {row['arch']} {row['kubernetes']}"
            acts = rows.get(key, {}).get("acts", {})
            rows[key] = {**row, "acts": {**acts, act: done}}
            files.write(self._file, json.dumps(rows, indent=1) + "\n")

    def table(self) -> list[str]:
        """For people, with times."""
        lines = []
        for key, row in sorted(self.rows.items()):
            lines.append(f"{key}  (kernel {row['kernel']}, cgroup {row['cgroup']})")
            for act, done in row["acts"].items():
                result = f"{done['seconds']:8.1f} s  {done['commit']}" if done else "FAILED"
                lines.append(f"    {act:60} {result}")
        return lines


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
