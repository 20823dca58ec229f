# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Modules in processes of their own, without loading Ansible and the Azure SDK again for each of them.

One process has loaded what modules import; each run is a fork of it, with its own variables, directory and
output, and ends as a program does. A new Python needs two seconds of a processor for the same.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).parents[3]
FIRST = "ansible.module_utils.basic"
LIMIT_SECONDS = 300


@dataclass(frozen=True)
class Ended:
    """How a run of a module ended."""

    returncode: int
    stdout: str
    stderr: str


@dataclass
class Loaded:
    """The process that has loaded everything; it starts with the first run, and ends with this one."""

    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    def run(self, module: str, arguments: Path, environment: Mapping[str, str], directory: Path) -> Ended:
        """Run a module as `python -m MODULE ARGUMENTS` would with these variables in that directory."""
        with tempfile.TemporaryDirectory() as private:
            outputs = [Path(private) / name for name in ("stdout", "stderr")]
            status = self._ask(
                {
                    "module": module,
                    "arguments": str(arguments),
                    "environment": dict(environment),
                    "directory": str(directory),
                    "outputs": [str(output) for output in outputs],
                }
            )
            stdout, stderr = (output.read_text(encoding="utf-8") for output in outputs)
        assert status != -signal.SIGALRM, f"{module} took longer than {LIMIT_SECONDS} s"
        return Ended(status, stdout, stderr)

    def _ask(self, request: Mapping[str, Any]) -> int:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / ".collections")},
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def serve() -> None:
    """Carry out one request after the other, and load what each of them has needed for those to come."""
    import_module(FIRST)
    for line in sys.stdin:
        request = json.loads(line)
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            become(request, writing)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as stream:
            needed = stream.read().split()
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)
        load(needed)


def become(request: Mapping[str, Any], report: int) -> NoReturn:
    """Be the module, in a process that is this one's copy; tell at the end what had to be imported."""
    before, status = set(sys.modules), 1
    signal.alarm(LIMIT_SECONDS)
    for number, path in enumerate(request["outputs"], 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    sys.argv = [request["module"], request["arguments"]]
    try:
        runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    finally:
        if sys.exc_info()[0]:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        with os.fdopen(report, "w", encoding="utf-8") as stream:
            stream.write(" ".join(sorted(set(sys.modules) - before)))
        os._exit(status)  # what is registered for the end of the copied process is not this run's


def load(names: list[str]) -> None:
    """Import what is there under these names: some are made up by packages at run time."""
    for name in names:
        with suppress(ImportError):
            import_module(name)


if __name__ == "__main__":
    serve()
