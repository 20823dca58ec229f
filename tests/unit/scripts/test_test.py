# SPDX-License-Identifier: GPL-3.0-or-later
"""make test: what runs beside what, what is shown meanwhile, and how it ends."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path

import pytest

from scripts import test as runner

# Writes when it ran, and ends as its target's name says. MEET: two targets that wait until both have begun,
# so that a busy machine does not decide whether they overlap. LONG: one that takes seconds.
FAKE_MAKE = """#!/usr/bin/env python3
import json, os, pathlib, sys, time
target = sys.argv[-1]
start = time.time()
print("tests/unit/test_x.py ....  [ 50%]", flush=True)
begun = pathlib.Path(os.environ["RAN"]).parent
(begun / target).touch()
meet = os.environ.get("MEET", "").split()
while target in meet and time.time() < start + 30 and not all((begun / one).exists() for one in meet):
    time.sleep(0.05)
time.sleep(4 if target == os.environ.get("LONG") else 0.4)
print("===== 4 passed in 0.30s =====", flush=True)
with open(os.environ["RAN"], "a") as file:
    file.write(json.dumps([target, start, time.time(), os.nice(0)]) + "\\n")
sys.exit(2 if target == "lint" and os.environ.get("LINT") == "bad" else 0)
"""


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fake = tmp_path / "make"
    fake.write_text(FAKE_MAKE)
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("MAKE", str(fake))
    monkeypatch.setenv("RAN", str(tmp_path / "ran"))
    monkeypatch.delenv("TESTBED_NAME", raising=False)
    monkeypatch.setattr(runner, "BUILD", tmp_path)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr(runner, "PROGRESS_SECONDS", 0.1)
    return tmp_path / "ran"


def spans(ran: Path) -> dict[str, tuple[float, float, int]]:
    return {
        name: (start, end, nice) for name, start, end, nice in map(json.loads, ran.read_text().splitlines())
    }


def test_targets_on_one_testbed_never_overlap(
    ran: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEET", "lint contract smoke")
    assert runner.main(["lint", "unit", "faults", "contract", "smoke", "demo"]) == 0
    seen = spans(ran)
    assert seen["smoke"][1] <= seen["demo"][0]
    assert seen["contract"][0] < seen["smoke"][1], "each has a testbed of its own"
    assert seen["lint"][1] <= seen["unit"][0]
    assert seen["unit"][1] <= seen["faults"][0]
    assert seen["lint"][0] < seen["contract"][1], "the lanes run at the same time"
    here = os.nice(0)
    assert seen["contract"][2] == here, "the testbed goes first"
    assert seen["unit"][2] == min(here + runner.NICE, 19)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("OK in ")
    assert re.search(r"contract ok \(4 passed, \d+ s, CPU \d+ s\)", last)
    assert last.index("lint ok (4 passed") < last.index("contract ok (4 passed") < last.index("smoke ok")


def test_targets_never_overlap_on_a_testbed_that_is_named(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESTBED_NAME", "mine")
    assert runner.main(["lint", "smoke", "contract"]) == 0
    seen = spans(ran)
    assert seen["smoke"][1] <= seen["contract"][0], "in their order, on the same testbed"


def test_a_failure_is_shown_at_the_end_and_stops_nothing(
    ran: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINT", "bad")
    assert runner.main(["lint", "unit"]) == 1
    assert set(spans(ran)) == {"lint", "unit"}
    printed = capsys.readouterr().out
    assert "lint     | ===== 4 passed in 0.30s =====" in printed
    assert "===== the end of test-lint.log =====" in printed
    assert printed.splitlines()[-1].startswith("FAILED in ")
    assert "lint FAILED" in printed.splitlines()[-1]


def test_progress_says_which_part_and_how_long(
    ran: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LONG", "unit")
    runner.main(["unit", "faults"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("----- after ")]
    assert any("unit (" in line and "50 %" in line and "then faults" in line for line in lines), lines


def test_one_lane_keeps_its_priority(ran: Path) -> None:
    runner.main(["unit"])
    assert spans(ran)["unit"][2] == os.nice(0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.6, "4 s"), (59.7, "1 min 00 s"), (185, "3 min 05 s"), (7199, "119 min 59 s"), (26400, "7 h 20 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert runner.spelled(seconds) == text


def test_what_make_test_runs() -> None:
    """All parts, the faults too; with the end-to-end tests by their most telling ones."""
    makefile = (Path(__file__).resolve().parents[3] / "Makefile").read_text()
    (line,) = [line for line in makefile.splitlines() if "scripts.test " in line]
    assert line.split("scripts.test ")[1].split() == ["lint", "unit", "faults", "contract", "smoke"]
