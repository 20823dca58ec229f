# SPDX-License-Identifier: GPL-3.0-or-later
"""The workflow of GitHub Actions runs what is in this repository, with actions that can't change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text())["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_there_is_one() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit(workflow: Path) -> None:
    used = {step["uses"] for step in steps(workflow) if "uses" in step}
    assert used
    assert [action for action in used if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action)] == []
    # The version stands beside each, for people and for update bots.
    lines = [line for line in workflow.read_text().splitlines() if "uses:" in line]
    assert [line for line in lines if not re.search(r"# v\d+\.\d+\.\d+$", line)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_steps_run_what_exists(workflow: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(step.get("run", "") for step in steps(workflow))
    assert {"setup", "lint", "unit", "faults", "dist"} == set(re.findall(r"\bmake ([a-z]+)", text)) <= targets
    for module in re.findall(r"-m (scripts\.\w+)", text):
        assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


def test_a_workflow_can_only_read_the_repository() -> None:
    for workflow in WORKFLOWS:
        parsed = yaml.safe_load(workflow.read_text())
        assert parsed["permissions"] == {"contents": "read"}
        assert all("permissions" not in job for job in parsed["jobs"].values())
        # What a pull request contains must not decide what a shell runs.
        assert "github.event" not in workflow.read_text()
