# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve requirements/*.in into one hash-pinned lock for every supported Python."""

from __future__ import annotations

import os
import subprocess
import sys

from scripts.checkout import ROOT

# Nothing of this machine may end up in a lock: no index, no wheel directory, no path, no command line.
QUIET = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
COMPILE = ["uv", "pip", "compile", "--universal", "--generate-hashes", "--upgrade"]


def main() -> int:
    environment = {name: value for name, value in os.environ.items() if name != "PIP_FIND_LINKS"}
    # The controller's packages are the same versions that the tests ran with.
    # The emulated Azure runs on Debian 12's Python, the execution environment on Debian 13's.
    for name, python, *more in (
        ["test", "3.10"],
        ["collections", "3.11", "--no-deps"],
        ["runtime", "3.10", "--constraints=test.txt"],
        ["azure", "3.11", "--constraints=test.txt"],
        # For one Python, so that no marker is left: pip would evaluate it for the Python that downloads.
        ["ee", "3.13", "--no-universal", "--constraints=test.txt"],
        ["preview", "3.10", "--no-deps"],  # what it needs is in .venv already
        ["core", "3.11", "--no-deps"],  # the same
        ["mutation", "3.10", "--constraints=test.txt"],
    ):
        options = [f"--python-version={python}", *more, f"--output-file={name}.txt"]
        command = [*COMPILE, *QUIET, *options, f"{name}.in"]
        done = subprocess.run(command, cwd=ROOT / "requirements", env=environment)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
