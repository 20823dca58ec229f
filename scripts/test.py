# SPDX-License-Identifier: GPL-3.0-or-later
"""Run make targets one after the other, all of them even when one fails, and close with one summary line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

from scripts.checkout import ROOT

# pytest's closing line, e.g. "== 12 passed, 1 skipped in 0.31s ==", with or without colours.
PYTEST_SUMMARY = re.compile(r"=+ (.*\d+ (?:passed|failed|error|skipped|deselected).*) in [\d.]+s.*=+")
COLOUR = re.compile(r"\x1b\[[\d;]*m")


def run(target: str) -> tuple[int, str]:
    """Run one target, pass its output through as it comes, and return its status and pytest's summary."""
    summary = ""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    if sys.stdout.isatty():
        environment["FORCE_COLOR"] = "1"
    command = [os.environ.get("MAKE", "make"), "--no-print-directory", target]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            if found := PYTEST_SUMMARY.search(COLOUR.sub("", line)):
                summary = found[1].strip()
    return process.returncode, summary


def main(targets: list[str]) -> int:
    verdicts = []
    failed = False
    for target in targets:
        print(f"\n===== {target} =====", flush=True)
        started = time.monotonic()
        status, summary = run(target)
        seconds = time.monotonic() - started
        failed = failed or status != 0
        detail = f"{summary}, {seconds:.0f} s" if summary else f"{seconds:.0f} s"
        verdicts.append(f"{target} {'FAILED' if status else 'ok'} ({detail})")
        print(f"===== {verdicts[-1]} =====", flush=True)
    print(f"\n{'FAILED' if failed else 'OK'}: {'; '.join(verdicts)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
