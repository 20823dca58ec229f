# SPDX-License-Identifier: GPL-3.0-or-later
"""make bench: all cases in turn, several rounds, in one run; exit status 1 if a limit is missed."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

from testbed import Testbed
from testbed.basics.errors import TestbedError
from testbed.basics.progress import say
from tests.bench import cases, report
from tests.bench.cases import Sample
from tests.bench.lab import Lab, set_up, torn_down

ROOT = Path(__file__).resolve().parent.parent.parent
RESULT = ROOT / "build" / "bench.json"
ROUNDS = 5


def rounds(lab: Lab, count: int, skipped: Collection[str]) -> list[Sample]:
    """Every case once a round: what disturbs the machine for a while disturbs all of them."""
    taken: list[Sample] = []
    for number in range(1, count + 1):
        say(f"round {number} of {count}  (load {os.getloadavg()[0]:.1f})")
        for case in (case for case in cases.ALL if case.__name__ not in skipped):
            for sample in case(lab):
                taken.append(sample)
                parts = "".join(f"  {name} {value:.2f}" for name, value in sample.parts.items())
                unit = "" if sample.case in report.OTHER_UNITS else " s"
                say(f"  {sample.case:18} {sample.seconds:6.2f}{unit}{parts}")
    return taken


def grouped(taken: list[Sample]) -> dict[str, list[float]]:
    """Seconds by case, in the order of the table."""
    found = {case: [s.seconds for s in taken if s.case == case] for case in report.ABOUT}
    return {case: seconds for case, seconds in found.items() if seconds}


def main() -> int:
    """Measure, show, write build/bench.json."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each case runs ({ROUNDS})")
    parser.add_argument(
        "--skip",
        nargs="+",
        default=[],
        choices=[case.__name__ for case in cases.ALL[1:]],
        help="cases to leave out while working on others; nothing is written to build/ then",
    )
    parser.add_argument("--keep", action="store_true", help="leave the testbed running")
    options = parser.parse_args()
    bed = Testbed(os.environ.get("TESTBED_NAME", "bench"))
    before = os.getloadavg()[0]
    try:
        with torn_down(bed, options.keep), tempfile.TemporaryDirectory(prefix="bench-") as directory:
            taken = rounds(set_up(bed, Path(directory)), options.rounds, options.skip)
    except TestbedError as error:
        say(f"bench: {error}")
        return 1
    samples = grouped(taken)
    if options.skip:
        say(f"\n{report.times_table(samples)}")
        return 0
    found = report.figures(samples, max(sample.modules for sample in taken))
    after = os.getloadavg()[0]
    RESULT.parent.mkdir(exist_ok=True)
    details = {"rounds": options.rounds, "cores": os.cpu_count(), "load": [before, after], "samples": samples}
    RESULT.write_text(json.dumps({**found, "details": details}, indent=1) + "\n", encoding="utf-8")
    say(f"\n{report.times_table(samples)}\n\n{report.aims_table(found)}\n")
    say(f"modules a join runs on a machine: {found['modules_per_join']:g}; {options.rounds} rounds, ")
    say(f"{os.cpu_count()} cores, load {before:.1f} before, {after:.1f} after; {RESULT.relative_to(ROOT)}")
    for line in report.missed(found):
        say(f"bench: {line}")
    return 1 if report.missed(found) else 0


if __name__ == "__main__":
    sys.exit(main())
