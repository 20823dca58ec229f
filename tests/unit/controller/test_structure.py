# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The Azure SDK is imported in one place, behind a guard; decisions are apart from it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[3] / "plugins"
AZURE = PLUGINS / "module_utils/controller/azure"
PURE = ("roles/assignments", "blob/bundle", "clouds", "errors", "flexnode_config/plan", "transport")


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports from outside."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) and node.level == 0 else []


def sdk_imports(path: Path) -> list[str]:
    found = [name for node in ast.walk(ast.parse(path.read_text())) for name in imported(node)]
    return [name for name in found if name.split(".")[0] in ("azure", "msal")]


def test_the_sdk_is_imported_in_one_place() -> None:
    strangers = [path for path in PLUGINS.rglob("*.py") if AZURE not in path.parents and sdk_imports(path)]
    assert strangers == []


@pytest.mark.parametrize("name", PURE)
def test_decisions_need_no_sdk(name: str) -> None:
    path = AZURE / f"{name}.py"
    beside = [
        f"{'' if node.level == 2 else f'{Path(name).parent}/'}{node.module}".removeprefix("./")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level in (1, len(Path(name).parts))
    ]
    assert sdk_imports(path) == []
    assert set(beside) <= set(PURE)


@pytest.mark.parametrize("path", sorted(AZURE.rglob("*.py")), ids=lambda path: path.stem)
def test_every_import_of_the_sdk_is_guarded(path: Path) -> None:
    top = [name for node in ast.parse(path.read_text()).body for name in imported(node)]
    assert [name for name in top if name.split(".")[0] in ("azure", "yaml")] == []
