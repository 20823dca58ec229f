# SPDX-License-Identifier: GPL-3.0-or-later
"""Create .venv from the hash-pinned requirements; do nothing when it is up to date.

Runs on the machine's own Python before anything is installed: standard library only.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".stamp"
LOCK = ROOT / "requirements" / "test.txt"
OLDEST = (3, 10)

# A shim (pyenv) or another venv names the interpreter behind it, so .venv never depends on either.
PROBE = """
import json, sys
print(json.dumps([getattr(sys, "_base_executable", sys.executable), sys.version_info[:3]]))
"""


class Interpreter:
    def __init__(self, path: str, version: tuple[int, ...]) -> None:
        self.path = path
        self.version = version
        self.dotted = ".".join(map(str, version))


def probe(command: str) -> Interpreter | None:
    """The interpreter behind a command, or None when it does not run."""
    try:
        done = subprocess.run([command, "-c", PROBE], capture_output=True, text=True, timeout=30, check=True)
        path, version = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(path, tuple(version))


def choose(explicit: str | None) -> Interpreter:
    """The interpreter asked for, else the newest `python3` of PATH, else any `python3.N` that will do."""
    if explicit:
        found = probe(explicit)
        if found is None or found.version < OLDEST:
            sys.exit(f"PYTHON={explicit} is not a Python >= 3.10: set it to the path of one")
        return found
    directories = os.environ.get("PATH", os.defpath).split(os.pathsep)
    for names in (["python3"], [f"python3.{minor}" for minor in range(13, 9, -1)]):
        commands = [str(Path(directory, name)) for name in names for directory in directories]
        known = [found for command in commands if Path(command).exists() and (found := probe(command))]
        suitable = [found for found in known if found.version >= OLDEST]
        if suitable:
            return max(suitable, key=lambda found: found.version)
    sys.exit("no Python >= 3.10 on PATH: install one, or name it with `make setup PYTHON=/path/of/python3`")


def install_system_packages(python: Interpreter) -> None:
    """A minimal Debian or Ubuntu has neither ensurepip nor git, nor openssl, which unit tests sign with."""
    missing = []
    if subprocess.run([python.path, "-c", "import ensurepip, venv"], capture_output=True).returncode:
        missing.append(f"python3.{python.version[1]}-venv")
    missing += [command for command in ("git", "openssl") if not shutil.which(command)]
    if not missing:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *missing]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"missing: {', '.join(missing)}. As root: {' '.join(command)}")
    print(f"setup: installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "--quiet=2"], check=True, env=environment)
    subprocess.run([*command, "--quiet=2"], check=True, env=environment)


def is_current(stamp: dict[str, str]) -> bool:
    """Whether .venv was created for this lock, in this place (its scripts contain their path), and runs."""
    try:
        recorded = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return False
    return (
        all(recorded.get(key) == value for key, value in stamp.items())
        and probe(str(VENV / "bin" / "python")) is not None
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", help="interpreter for .venv (default: the newest python3 of PATH)")
    arguments = parser.parse_args()
    if VENV.is_symlink():
        sys.exit(f"{VENV.name} is a link: remove it; its target would be cleared and installed again")

    stamp = {"lock": hashlib.sha256(LOCK.read_bytes()).hexdigest(), "place": str(VENV)}
    if arguments.python:
        stamp["python"] = choose(arguments.python).dotted
    if is_current(stamp):
        STAMP.touch()
        print(f"setup: {VENV.name} is up to date")
        return

    python = choose(arguments.python)
    install_system_packages(python)
    print(f"setup: creating {VENV.name} with Python {python.dotted} (about a minute)", flush=True)
    started = time.monotonic()
    subprocess.run([python.path, "-m", "venv", "--clear", str(VENV)], check=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "--no-input", "--disable-pip-version-check"]
    subprocess.run(
        # Half of the time would go into byte code of modules that nobody imports: Python makes what it needs.
        [
            *pip,
            "install",
            "--no-compile",
            "--progress-bar=off",
            "--require-hashes",
            "--requirement",
            str(LOCK),
        ],
        check=True,
    )
    STAMP.write_text(json.dumps({**stamp, "python": python.dotted}) + "\n")
    print(f"setup: done in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failed:
        sys.exit(f"setup: `{' '.join(failed.cmd)}` failed with status {failed.returncode}")
