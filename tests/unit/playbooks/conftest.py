# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the tests that run playbooks and roles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.playbooks.stage import ROOT, Fleet, Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    (made.collection / "plugins/modules").mkdir(parents=True)
    for part in (
        "galaxy.yml",
        "meta",
        "roles",
        "playbooks",
        "plugins/action",
        "plugins/filter",
        "plugins/module_utils",
        "plugins/plugin_utils",
    ):
        (made.collection / part).symlink_to(ROOT / part)
    made.answer(**{module.stem: {} for module in (ROOT / "plugins/modules").glob("*.py")})
    made.answer(arc_register={"installed": False}, flexnode_preflight_info={"ok": True, "table": []})
    return made


@pytest.fixture
def fleet(stage: Stage) -> Fleet:
    return Fleet(stage, "a", "b", "c", "d", "e")
