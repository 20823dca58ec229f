# SPDX-License-Identifier: GPL-3.0-or-later
"""make test sees every subject of the end-to-end tests: each file has at least one smoke test."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parents[1] / "e2e").glob("test_*.py"))
TESTS = (ast.FunctionDef, ast.ClassDef)


def is_smoke(node: ast.AST) -> bool:
    """Whether some part of this is `pytest.mark.smoke`."""
    return any(isinstance(part, ast.Attribute) and part.attr == "smoke" for part in ast.walk(node))


def marked(text: str) -> list[str]:
    """Names of the tests and classes that are marked, alone or by one of their parameters."""
    tree = ast.parse(text)
    if any(
        isinstance(part, ast.Assign) and "pytestmark" in ast.unparse(part) and is_smoke(part)
        for part in tree.body
    ):
        return [part.name for part in tree.body if isinstance(part, TESTS) and is_test(part)]
    return [
        part.name
        for part in ast.walk(tree)
        if isinstance(part, TESTS) and is_test(part) and any(map(is_smoke, part.decorator_list))
    ]


def is_test(part: ast.FunctionDef | ast.ClassDef) -> bool:
    return part.name.startswith(("test_", "Test"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_file_has_a_smoke_test(file: Path) -> None:
    assert marked(file.read_text(encoding="utf-8")) != []


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
        ("@pytest.mark.smoke\n@pytest.fixture\ndef bed(): ...\ndef test_a(): ...", []),
        ("# pytest.mark.smoke\n@pytest.mark.slow\ndef test_a(): ...", []),
    ],
)
def test_marks_are_found_where_they_count(text: str, names: list[str]) -> None:
    assert marked(text) == names
