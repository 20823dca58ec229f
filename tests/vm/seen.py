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
    """Acts and how long each took, per kind of machine; written down as soon as an act is over."""

    def __init__(self, file: Path = FILE) -> None:
        self._file = file
        self.rows: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @contextmanager
    def act(self, machine: VirtualMachine, kubernetes: str, name: str) -> Iterator[None]:
        """Note an act; one that fails is noted as such, in place of what an earlier run saw."""
        row = self._row(machine, kubernetes)
        row["acts"][name] = None
        self._write()
        start = time.monotonic()
        yield
        row["acts"][name] = {"seconds": round(time.monotonic() - start, 1), "commit": commit()}
        self._write()

    def _row(self, machine: VirtualMachine, kubernetes: str) -> dict[str, Any]:
        key = f"{machine.platform} {machine.hardware.arch} {kubernetes}"
        if key not in self.rows:
            kernel, v2 = machine.run(["python3", "-c", FACTS]).stdout.split()
            self.rows[key] = {
                "platform": machine.platform,
                "arch": machine.hardware.arch,
                "kubernetes": kubernetes,
                "kernel": kernel,
                "cgroup": "v2" if v2 == "True" else "v1",
                "acts": {},
            }
        found: dict[str, Any] = self.rows[key]
        return found

    def _write(self) -> None:
        files.write(self._file, json.dumps(self.rows, indent=1) + "\n")

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
    """What is checked out."""
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
