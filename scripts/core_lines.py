# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a command of this checkout with ansible-core of a given line.

`python -m scripts.core_lines 2.18 -m pytest tests/unit`: the environment of a line is made when it is asked
for, in the user's cache, from the same hash-pinned packages as .venv. From test.txt, three Pythons get three
lines of ansible-core; core.txt has the two between them.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from scripts.checkout import CACHE, ROOT
from scripts.sanity import interpreter

# Every supported line, and a Python on which it runs on a controller. meta/runtime.yml has the oldest one.
LINES = {"2.17": "3.10", "2.18": "3.11", "2.19": "3.11", "2.20": "3.12", "2.21": "3.13"}
OF_CORE = ("2.18", "2.20")  # what no Python of LINES gets from test.txt
LOCK, CORE_LOCK = ROOT / "requirements" / "test.txt", ROOT / "requirements" / "core.txt"
NOT_HERE = 3


def cache() -> Path:
    """Where environments are kept, for all checkouts of this user."""
    return CACHE / "venvs"


def locks(line: str) -> list[tuple[Path, list[str]]]:
    """The files that are installed for a line, one after the other, with pip's options for each."""
    found: list[tuple[Path, list[str]]] = [(LOCK, [])]
    if line in OF_CORE:
        found.append((CORE_LOCK, ["--no-deps"]))  # what it needs is there already
    return found


def environment(name: str, python: str, wanted: list[tuple[Path, list[str]]]) -> Path:
    """The Python of an environment with exactly these locks; made anew when one of them has changed."""
    venv = cache() / name
    digest = hashlib.sha256(b"".join(lock.read_bytes() for lock, _options in wanted)).hexdigest()
    stamp = venv / ".stamp"
    ours = venv / "bin" / "python"
    if stamp.is_file() and stamp.read_text() == digest:
        return ours
    found = interpreter(f"python{python}")
    if found is None:
        print(f"{name} cannot run here: there is no python{python}", flush=True)
        sys.exit(NOT_HERE)
    print(f"making the environment {name} with Python {python} (about a minute)", flush=True)
    subprocess.run([found, "-m", "venv", "--clear", str(venv)], check=True)
    pip = [str(ours), "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check", "install"]
    for lock, options in wanted:
        # Most of the Azure SDK is never imported: what is, is compiled then.
        given = [
            "--progress-bar=off",
            "--no-compile",
            "--require-hashes",
            *options,
            "--requirement",
            str(lock),
        ]
        subprocess.run([*pip, *given], check=True)
    stamp.write_text(digest)
    return ours


def check(line: str, python: Path) -> None:
    """The environment has ansible-core of this line: a lock that has moved on would prove another one."""
    ask = "import ansible.release; print(ansible.release.__version__)"
    version = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    if not version.startswith(f"{line}."):
        sys.exit(
            f"this environment has ansible-core {version}, not {line}: see LINES in scripts/core_lines.py"
        )


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in LINES:
        sys.exit(f"name one of {', '.join(LINES)}, then what its Python is to run")
    line, *command = arguments
    python = environment(f"core-{line}", LINES[line], locks(line))
    check(line, python)
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    os.chdir(ROOT)
    # Not a child: who stops this stops what runs, and its processor time is counted.
    os.execve(python, [str(python), *command], {**os.environ, "PATH": path})  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(sys.argv[1:])
