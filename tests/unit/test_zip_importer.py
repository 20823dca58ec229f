# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The command as one file: what it costs to start it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from scripts.build_agent import build

# Python tells of every compilation: of the file itself, by its name.
START = """
import collections, json, runpy, sys

compiled = collections.Counter()
sys.addaudithook(lambda event, about: compiled.update([str(about[1])]) if event == "compile" else None)
archive, sys.argv = sys.argv[1], sys.argv[1:]
try:
    runpy.run_path(archive, run_name="__main__")
finally:
    ours = {name: times for name, times in compiled.items() if name.startswith(archive)}
    sys.stderr.write(json.dumps(ours))
"""


def test_each_file_of_the_command_is_compiled_once(tmp_path: Path) -> None:
    """Python's own importer compiles each file twice, which takes longer than the rest of the start."""
    archive = build(tmp_path)
    argv = [sys.executable, "-I", "-c", START, str(archive), "join", "--config", "/nowhere.json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    compiled = json.loads(done.stderr.splitlines()[-1])
    ours = {name: times for name, times in compiled.items() if "/flexnode/" in name}
    assert len(ours) > 50, done.stderr
    assert set(ours.values()) == {1}
