# SPDX-License-Identifier: GPL-3.0-or-later
"""Run every static check, all of them even when one fails, and say at the end which failed."""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from scripts.checkout import CACHE, ROOT

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
    "tests.vm": Path("tests/vm"),
}
# Most of them use one core; ansible-test takes as long as all others together, so it starts first.
AT_ONCE = 2
MYPY = CACHE / "mypy"
"""What mypy knows of the packages that we use outlasts a checkout: it compares contents, not times."""


def checks() -> dict[str, list[str]]:
    packages = [name for name, path in PACKAGES.items() if any((ROOT / path).rglob("*.py"))]
    return {
        "ansible-test sanity": [sys.executable, "-m", "scripts.sanity", "--quick"],
        "ruff check": ["ruff", "check", "--quiet"],
        "ruff format": ["ruff", "format", "--check", "--quiet"],
        "mypy": ["mypy", f"--cache-dir={MYPY}", "--no-error-summary", *(f"--package={p}" for p in packages)],
        "yamllint": ["yamllint", "--strict", "."],
        "ansible-lint": ["ansible-lint", "-q"],
    }


def run(command: list[str]) -> tuple[int, str, float]:
    """Status, output and duration of one check."""
    started = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout, time.monotonic() - started


def main() -> int:
    failed = []
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        running = {pool.submit(run, command): name for name, command in checks().items()}
        for check in as_completed(running):
            status, output, seconds = check.result()
            if status:
                failed.append(running[check])
            print(output, end="")
            print(f"lint: {running[check]} {'FAILED' if status else 'ok'} ({seconds:.1f} s)", flush=True)
    print(f"lint: {len(failed)} failed: {', '.join(failed)}" if failed else "lint: all ok")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
