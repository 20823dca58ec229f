# SPDX-License-Identifier: GPL-3.0-or-later
"""The mutation tester: the same sample for the same code, over all files, and what counts as noticed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.mutation import __main__ as mutation
from scripts.mutation.__main__ import KILLED, NODE, SURVIVED, TESTS, Copies, Mutant, Tried, sample
from scripts.mutation.contained import mounted


def some(package: str, file: str, places: int, kinds: int = 3) -> list[Mutant]:
    name = f"{NODE}/{package}/{file}.py"
    return [
        Mutant(name, line, 0, f"core/ReplaceComparisonOperator_{kind}", line)
        for line in range(places)
        for kind in range(kinds)
    ]


EVERYTHING = [*some("engine", "plan", 40), *some("engine", "lease", 20), *some("config", "parse", 5)]


def test_the_sample_is_the_same_for_the_same_code() -> None:
    first = sample(EVERYTHING, {"engine": 12, "config": 3}, 1)
    assert first == sample(list(reversed(EVERYTHING)), {"engine": 12, "config": 3}, 1)
    assert first != sample(EVERYTHING, {"engine": 12, "config": 3}, 2)
    assert len(first) == 15


def test_the_sample_is_spread_over_files_and_places() -> None:
    found = sample(EVERYTHING, {"engine": 12}, 1)
    assert {one.package for one in found} == {"engine"}
    assert sum(one.file.endswith("/plan.py") for one in found) == 8
    assert len({one.place for one in found}) == 12


def test_a_larger_sample_has_the_smaller_one() -> None:
    assert set(sample(EVERYTHING, {"engine": 6}, 1)) < set(sample(EVERYTHING, {"engine": 20}, 1))


def test_a_sample_is_no_larger_than_the_code() -> None:
    assert len(sample(EVERYTHING, {"config": 100}, 1)) == 5


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(0, SURVIVED), (1, KILLED), (2, KILLED), (None, KILLED), (-9, KILLED), (5, SURVIVED)],
)
def test_what_counts_as_noticed(status: int | None, outcome: str) -> None:
    assert mutation.verdict(status) == outcome


def test_packages_and_samples_have_tests() -> None:
    root = Path(mutation.ROOT)
    for package in mutation.SAMPLE:
        assert (root / NODE / package).is_dir()
        assert list((root / TESTS / package).glob("test_*.py"))


def test_a_mutant_is_tried_in_a_copy_that_is_as_before_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutation, "copy", lambda _files, root: (root / "code").mkdir(parents=True))
    copies = Copies(tmp_path)
    for root in list(copies.free.queue):
        (root / "code/a.py").write_text("answer = 42\n")
        (root / "code/test_a.py").write_text(
            "from a import answer\n\ndef test_it():\n    assert answer == 42\n"
        )
        (root / "conftest.py").write_text("import sys\nsys.path.insert(0, 'code')\n")
    mutant = Mutant("code/a.py", 1, 0, "core/NumberReplacer", 0)
    assert copies.try_out(None, "", ["code/test_a.py"], 60).outcome == SURVIVED
    found = copies.try_out(mutant, "answer = 43\n", ["code/test_a.py"], 60)
    assert found.outcome == KILLED
    assert found.cpu_seconds > 0
    loops = copies.try_out(mutant, "while True: pass\n", ["code/test_a.py"], 1)
    assert loops.outcome == KILLED
    assert {(root / "code/a.py").read_text() for root in copies.free.queue} == {"answer = 42\n"}


def test_the_score_and_the_survivors_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutation, "ROOT", tmp_path)
    monkeypatch.setattr(mutation, "SURVIVORS", tmp_path / "survivors.txt")
    first, second, third = EVERYTHING[:3]
    outcomes = {one: Tried(KILLED, 2.0, 3.0) for one in (first, second)} | {third: Tried(SURVIVED, 8.0, 9.0)}
    assert mutation.close(outcomes, 900) == 0
    said = capsys.readouterr().out
    assert "mutation: score 2/3 killed (66 %), of 900 possible" in said
    assert "CPU 4.0 s for each" in said
    assert (tmp_path / "survivors.txt").read_text() == f"{third}\n"
    outcomes[second] = outcomes[third]
    assert mutation.close(outcomes, 900) == 1, "below the floor"
    assert mutation.close({}, 900) == 1, "nothing was tried"


def test_a_sample_that_is_not_there_is_no_score(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mutation, "all_possible", lambda _sizes: some("config", "parse", 5))
    assert mutation.main(["config", "--sample", "6"]) == 1
    assert "there is no score: config 5 of 6" in capsys.readouterr().out
    assert mutation.main(["engine"]) == 1


def test_what_was_tried_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation, "TRIED", tmp_path / "mutation.json")
    assert mutation.load() == {}
    mutation.save({"a": Tried(KILLED, 1.0, 2.0)})
    assert mutation.load() == {"a": Tried(KILLED, 1.0, 2.0)}
    mutation.TRIED.write_text(json.dumps({"a": {"other": 1}}))
    assert mutation.load() == {}


def test_every_place_where_something_is_mounted_is_made_read_only() -> None:
    table = (
        "22 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n"
        "28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "40 28 0:33 / /mnt/with\\040space rw - tmpfs tmpfs rw\n"
        "41 28 0:34 / / rw - overlay overlay rw\n"
    )
    assert mounted(table) == ["/proc", "/", "/mnt/with space"]
