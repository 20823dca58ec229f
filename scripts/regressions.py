# SPDX-License-Identifier: GPL-3.0-or-later
"""Put mistakes of the past back, one at a time, and demand that the tests notice each of them.

Works on copies of the checkout. Arguments: points of tests/regressions, such as 1 or 14k; none: all.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from scripts.checkout import copy, own_files
from tests.regressions import (
    arc,
    clusters,
    drift,
    evidence,
    inconclusive,
    machines,
    records,
    requests,
    shared,
    smaller,
    updates,
)
from tests.regressions.case import Case, Outdated

CASES = (
    *updates.CASES,
    *machines.CASES,
    *smaller.CASES,
    *requests.CASES,
    *clusters.CASES,
    *drift.CASES,
    *inconclusive.CASES,
    *records.CASES,
    *evidence.CASES,
    *arc.CASES,
    *shared.CASES,
)
AT_ONCE = 2
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider")
SHOWN = 80  # characters of a failure
LINK = ".collections/ansible_collections/aks/flexnode"
_seconds = count(int(time.time()) - 10**6)


def main() -> int:
    named = sys.argv[1:] or [case.point for case in CASES]
    chosen = [case for case in CASES if case.point in named]
    if unknown := set(named) - {case.point for case in chosen}:
        print(f"regressions: no such point: {', '.join(sorted(unknown))}")
        return 2
    with tempfile.TemporaryDirectory(prefix="regressions-") as directory:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(AT_ONCE):
            copies.put(copied(Path(directory) / str(number)))
        every = sorted({test for case in chosen for test in case.tests})
        wrong = [f"{test} {why}" for test, why in run(copies.queue[0], every, AT_ONCE).items() if why]
        for line in wrong:
            print(f"regressions: without any mistake, {line}")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            results = pool.map(lambda case: tried(case, copies), chosen)
            for case, (faults, line) in zip(chosen, results, strict=True):
                wrong += faults
                verdict = f"WRONG    {'; '.join(faults)}" if faults else f"noticed  {case.mistake} | {line}"
                print(f"{case.point:<4} {verdict}", flush=True)
    print(f"regressions: {len(wrong)} wrong" if wrong else f"regressions: all {len(chosen)} were noticed")
    return 1 if wrong else 0


def copied(place: Path) -> Path:
    """A copy of the checkout, importable as the collection."""
    copy(own_files(), place)
    (place / LINK).parent.mkdir(parents=True)
    (place / LINK).symlink_to("../../..")
    return place


def tried(case: Case, copies: queue.Queue[Path]) -> tuple[list[str], str]:
    """What is wrong with a case, and the first line of a failure; nothing wrong: all tests noticed it."""
    root = copies.get()
    before: dict[str, str] = {}
    try:
        for edit in case.edits:
            before.setdefault(edit.file, edit.apply(root))
            renew(root / edit.file)
        found = run(root, case.tests)
    except Outdated as outdated:
        return [str(outdated)], ""
    finally:
        for name, content in before.items():
            (root / name).write_text(content)
            renew(root / name)
        copies.put(root)
    faults = [f"{test} passes" for test, failure in found.items() if not failure]
    faults += [
        f"{test} fails for another reason: {first_line(failure)}"
        for test, failure in found.items()
        if failure and not re.match(case.fails, failure)
    ]
    return faults, next((first_line(failure) for failure in found.values() if failure), "")


def renew(file: Path) -> None:
    """Give a file a time that it never had: Python compiles it again, also within the same second."""
    moment = next(_seconds)
    os.utime(file, (moment, moment))


def run(root: Path, tests: Sequence[str], at_once: int = 0) -> dict[str, str]:
    """Each test with its failure, or an empty text. A test with several sets of values fails with each."""
    report = root / "build/regressions.xml"
    report.unlink(missing_ok=True)
    spread = ["-n", str(at_once)] if at_once else []
    done = subprocess.run(
        [sys.executable, "-m", *PYTEST, f"--junitxml={report}", *spread, *tests],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1) or not report.exists():
        return dict.fromkeys(tests, f"the tests did not run:\n{done.stdout}{done.stderr}")
    cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - pytest wrote it
    return {test: outcome([case for case in cases if is_of(case, test)]) for test in tests}


def is_of(case: ET.Element, test: str) -> bool:
    """Whether a result is of this test, or of one of its sets of values."""
    file, _colons, name = test.partition("::")
    same = case.get("classname") == file.removesuffix(".py").replace("/", ".")
    return same and (case.get("name") == name or str(case.get("name")).startswith(f"{name}["))


def outcome(results: Sequence[ET.Element]) -> str:
    """The failures of a test; empty if one of its sets of values passes."""
    failures = [failure for result in results if (failure := result.find("failure")) is not None]
    broken = [error for result in results for error in result.findall("error")]
    if setup := [error for error in broken if "teardown" not in str(error.get("message"))]:
        return f"the test did not run: {setup[0].get('message')}\n{setup[0].text}"
    if not results or len(failures) < sum(result.find("error") is None for result in results):
        return "" if results else "there is no such test"
    return str(failures[0].get("message"))


def first_line(failure: str) -> str:
    """A failure in one line."""
    line = re.sub(r"^ansible_collections\.[\w.]*\.", "", " ".join(failure.splitlines()[0].split()))
    return line if len(line) <= SHOWN else f"{line[:SHOWN]}..."


if __name__ == "__main__":
    sys.exit(main())
