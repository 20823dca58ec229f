# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every static check, all of them even when one fails, and say at the end which failed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from scripts.checkout import ROOT

COLLECTION = "ansible_collections.aks.flexnode"
# Python packages checked with mypy --strict, by the name under which they are imported.
PACKAGES = {
    f"{COLLECTION}.plugins": Path("plugins"),
    "scripts": Path("scripts"),
    "testbed": Path("testbed"),
    "tests.bench": Path("tests/bench"),
    "tests.contract": Path("tests/contract"),
    "tests.e2e": Path("tests/e2e"),
    "tests.faults": Path("tests/faults"),
}


def checks() -> dict[str, list[str]]:
    packages = [name for name, path in PACKAGES.items() if any((ROOT / path).rglob("*.py"))]
    return {
        "ruff check": ["ruff", "check", "--quiet"],
        "ruff format": ["ruff", "format", "--check", "--quiet"],
        "mypy": ["mypy", "--no-error-summary", *(f"--package={name}" for name in packages)],
        "yamllint": ["yamllint", "--strict", "."],
        "ansible-lint": ["ansible-lint", "-q"],
        "ansible-test sanity": [sys.executable, "-m", "scripts.sanity"],
    }


def main() -> int:
    failed = []
    for name, command in checks().items():
        print(f"lint: {name}", flush=True)
        started = time.monotonic()
        status = subprocess.run(command, cwd=ROOT).returncode
        if status:
            failed.append(name)
        print(f"lint: {name} {'FAILED' if status else 'ok'} ({time.monotonic() - started:.1f} s)", flush=True)
    print(f"lint: {len(failed)} failed: {', '.join(failed)}" if failed else "lint: all ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
