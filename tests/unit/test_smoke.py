# SPDX-License-Identifier: GPL-3.0-or-later
"""make test runs the journeys that users make and that must never break; make proof runs all tests.

A journey uses what `make demo` makes: one platform, one version of each program, nothing built for it alone.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

E2E = Path(__file__).resolve().parents[1] / "e2e"
FILES = sorted(E2E.glob("test_*.py"))
TESTS = (ast.FunctionDef, ast.ClassDef)
JOURNEYS = {
    "test_drift": "changes by hand are found and repaired",
    "test_edge_join": "a machine joins by itself with one command, and leaves",
    "test_follow": "a node follows its configuration in Azure and at a URL, refuses a bad one, and leaves",
    "test_join": "machines join by a playbook and run pods; a second run changes nothing; no secret is shown",
    "test_machines": "a machine joins a FlexNodes pool with its Azure identity",
    "test_preflight": "everything that is wrong with a machine is told at once",
    "test_rollback": "a version whose kubelet crashes is rolled back, however Ready the Node looks",
    "test_sources": "a cluster's id is enough: the token is minted, and gone afterwards",
    "test_undo": "a machine with a past is what it was when the node is removed",
    "test_updates": "a patch version is updated while pods keep running",
}


def is_smoke(node: ast.AST) -> bool:
    """Whether some part of this is `pytest.mark.smoke`."""
    return any(isinstance(part, ast.Attribute) and part.attr == "smoke" for part in ast.walk(node))


def marked(text: str) -> list[str]:
    """Names of the tests, classes and fixtures that are marked, alone or by one of their parameters."""
    tree = ast.parse(text)
    if any(
        isinstance(part, ast.Assign) and "pytestmark" in ast.unparse(part) and is_smoke(part)
        for part in tree.body
    ):
        return [part.name for part in tree.body if isinstance(part, TESTS) and is_test(part)]
    return [
        part.name
        for part in ast.walk(tree)
        if isinstance(part, TESTS) and counts(part) and any(map(is_smoke, part.decorator_list))
    ]


def is_test(part: ast.FunctionDef | ast.ClassDef) -> bool:
    return part.name.startswith(("test_", "Test"))


def counts(part: ast.FunctionDef | ast.ClassDef) -> bool:
    """A test, or a fixture whose parameters mark the tests that use it."""
    return is_test(part) or any("params=" in ast.unparse(one) for one in part.decorator_list)


def test_the_journeys_are_those_that_are_marked() -> None:
    assert {file.stem for file in FILES if marked(file.read_text(encoding="utf-8"))} == set(JOURNEYS)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("@pytest.mark.smoke\ndef test_a(): ...\ndef test_b(): ...", ["test_a"]),
        ("class TestA:\n    @pytest.mark.smoke\n    def test_a(self): ...", ["test_a"]),
        ("@pytest.mark.smoke\nclass TestA: ...", ["TestA"]),
        (
            "@pytest.mark.parametrize('a', [pytest.param(1, marks=pytest.mark.smoke)])\ndef test_a(a): ...",
            ["test_a"],
        ),
        ("pytestmark = pytest.mark.smoke\ndef helper(): ...\ndef test_a(): ...", ["test_a"]),
        (
            "@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.smoke), 2])\ndef bed(): ...",
            ["bed"],
        ),
        ("@pytest.mark.smoke\n@pytest.fixture\ndef bed(): ...\ndef test_a(): ...", []),
        ("# pytest.mark.smoke\n@pytest.mark.slow\ndef test_a(): ...", []),
    ],
)
def test_marks_are_found_where_they_count(text: str, names: list[str]) -> None:
    assert marked(text) == names
