# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `molecule test` for every scenario, or for those named, and close with a table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMIT_SECONDS = 1800
NOT_HERE = re.compile(r"cannot run here: (?:testbed: )?([^\"\n]+)")


@dataclass(frozen=True)
class Outcome:
    """How a scenario ended."""

    scenario: str
    result: str
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether the whole run fails."""
        return self.result == "FAILED"


def scenarios() -> list[str]:
    """All scenarios of this directory."""
    return sorted(file.parent.name for file in HERE.glob("*/molecule.yml"))


def run(scenario: str) -> Outcome:
    """Create, test and destroy one scenario; its output goes to build/, and to the screen if it fails."""
    log = ROOT / "build" / f"molecule-{scenario}.log"
    log.parent.mkdir(exist_ok=True)
    start = time.monotonic()
    say(f"molecule: {scenario} ...")
    plain = {**os.environ, "NO_COLOR": "1", "ANSIBLE_NOCOLOR": "1"}
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(
            ["molecule", "test", "--scenario-name", scenario, "--no-command-borders"],
            cwd=ROOT,
            env=plain,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            check=False,
        ).returncode
    text = log.read_text(encoding="utf-8")
    if status != 0:
        say(text)
    return Outcome(scenario, verdict(status, text), time.monotonic() - start)


def verdict(status: int, output: str) -> str:
    """The result in a few words."""
    if status != 0:
        return "FAILED"
    found = NOT_HERE.search(output)
    return f"not run: {found[1].strip()}" if found else "ok"


def table(outcomes: list[Outcome]) -> str:
    """One line per scenario."""
    rows = [
        ("scenario", "seconds", "result"),
        *((o.scenario, f"{o.seconds:.0f}", o.result) for o in outcomes),
    ]
    return "\n".join(f"{name:12} {seconds:>7}  {result}" for name, seconds, result in rows)


def say(text: str) -> None:
    """Print and flush, because a scenario takes a minute."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(names: list[str]) -> int:
    """Run all named scenarios, even when one fails."""
    known = scenarios()
    if unknown := sorted(set(names) - set(known)):
        say(f"molecule: no scenario {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    outcomes = [run(name) for name in names or known]
    say(table(outcomes))
    return 1 if any(outcome.failed for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
