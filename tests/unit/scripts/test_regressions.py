# SPDX-License-Identifier: GPL-3.0-or-later
"""make regressions: its table fits the code of today, and only a failure for the right reason counts."""

from __future__ import annotations

import queue
import shutil
from collections import Counter
from pathlib import Path

import pytest

from scripts import regressions
from scripts.checkout import ROOT
from tests.regressions.case import Case, Edit, Outdated

CODE = "answer = 42\n"
TEST = """import pytest

from product import answer


@pytest.fixture
def broken():
    raise OSError("no disk")


def test_answer():
    assert answer == 42


@pytest.mark.parametrize("value", [41, 43])
def test_not(value):
    assert answer != value


def test_broken(broken):
    pass
"""


@pytest.mark.parametrize("case", regressions.CASES, ids=lambda case: case.point)
def test_the_table_fits(case: Case, tmp_path: Path) -> None:
    for edit in case.edits:
        (tmp_path / edit.file).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / edit.file).exists():
            shutil.copyfile(ROOT / edit.file, tmp_path / edit.file)
        edit.apply(tmp_path)
        if edit.file.endswith(".py"):
            compile((tmp_path / edit.file).read_text(), edit.file, "exec")
    for test in case.tests:
        file, _colons, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()


def test_every_point_has_its_own_name() -> None:
    points = Counter(case.point for case in regressions.CASES)
    assert [point for point, times in points.items() if times > 1] == []


@pytest.fixture
def copies(tmp_path: Path) -> queue.Queue[Path]:
    """One copy of a product with tests."""
    (tmp_path / "product.py").write_text(CODE)
    (tmp_path / "test_product.py").write_text(TEST)
    found: queue.Queue[Path] = queue.Queue()
    found.put(tmp_path)
    return found


def faults(copies: queue.Queue[Path], was: str, *tests: str, fails: str = "assert ") -> list[str]:
    named = tuple(f"test_product.py::{test}" for test in tests)
    case = Case("1", "x", (Edit("product.py", "42", was),), named, fails)
    return regressions.tried(case, copies)[0]


def test_a_mistake_that_is_noticed_is_no_fault(copies: queue.Queue[Path]) -> None:
    assert faults(copies, "41", "test_answer") == []
    assert (copies.queue[0] / "product.py").read_text() == CODE


@pytest.mark.parametrize(
    ("was", "test", "why"),
    [
        ("42", "test_answer", "passes"),
        ("41", "test_not", "passes"),  # with one of its values
        ("[][0]", "test_answer", "did not run"),
        ("41", "test_broken", "did not run"),
        ("41", "test_nothing", "did not run"),
    ],
)
def test_what_does_not_count(copies: queue.Queue[Path], was: str, test: str, why: str) -> None:
    (fault,) = faults(copies, was, test)
    assert why in fault


def test_another_reason_does_not_count(copies: queue.Queue[Path]) -> None:
    (fault,) = faults(copies, "41", "test_answer", fails="Failed: DID NOT RAISE")
    assert "fails for another reason: assert 41 == 42" in fault


def test_text_that_is_not_there_any_more_is_said(copies: queue.Queue[Path]) -> None:
    with pytest.raises(Outdated, match="has this text 0 times"):
        Edit("product.py", "gone").apply(copies.queue[0])
    outdated = Case("1", "x", (Edit("product.py", "gone"),), ())
    assert "has this text 0 times" in regressions.tried(outdated, copies)[0][0]
