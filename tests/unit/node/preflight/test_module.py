# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The module as Ansible runs it, and how much of the node's code it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.plugin_utils.on_machine import node_code
from tests.unit.node.config.test_samples import TOKEN, joining
from tests.unit.test_imports import GRAPH, MODULES, OURS

ROOT = Path(__file__).parents[4]
PASSWORD = "Pl4nted-pr0xy-passw0rd"
DOCUMENT = json.dumps(joining({"proxy": {"https": f"http://user:{PASSWORD}@proxy.example:3128"}}))


def run(tmp_path: Path, **arguments: Any) -> dict[str, Any]:
    file = tmp_path / "arguments.json"
    sent = {"node_code": node_code(), "_ansible_remote_tmp": str(tmp_path)}
    file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, **sent}}))
    done = subprocess.run(
        [sys.executable, "-m", f"{OURS}.modules.flexnode_preflight_info", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / ".collections"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert TOKEN not in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_findings_are_an_answer_and_no_failure(tmp_path: Path) -> None:
    answer = run(tmp_path, document=DOCUMENT, stage="host", name="edge-1", skip=["swap"])
    assert (answer["changed"], answer.get("failed", False)) == (False, False)
    assert answer["ok"] == (answer["error_count"] == 0)
    assert answer["table"][0].startswith("edge-1  ")
    assert answer["skipped_checks"] == ["swap"]
    assert answer["seconds"] < 2


def test_a_document_that_is_not_valid_is_a_finding(tmp_path: Path) -> None:
    answer = run(tmp_path, document=json.dumps({"kubernetes": {"version": "latest"}}), stage="host")
    assert not answer["ok"]
    assert "configuration" in {finding["id"] for finding in answer["findings"]}


def test_checks_to_leave_out_may_be_a_text_with_commas(tmp_path: Path) -> None:
    answer = run(tmp_path, document=DOCUMENT, stage="host", skip="swap, mtu")
    assert answer["skipped_checks"] == ["mtu", "swap"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"skip": ["swpa"]}, "did you mean swap?"),
        ({"skip": "swap, swpa"}, "did you mean swap?"),
        ({"document": "{"}, "not JSON"),
        ({"token_expires": "tomorrow"}, "2026-11-15T08:00:00Z"),
    ],
)
def test_wrong_arguments_are_failures(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    answer = run(tmp_path, **{"document": DOCUMENT, "stage": "host", **arguments})
    assert answer["failed"]
    assert said in answer["msg"]
    assert answer["error"]["code"].startswith("FLEX-11")


@pytest.mark.parametrize("moment", ["2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", "1577836800"])
def test_when_a_token_ends(tmp_path: Path, moment: str) -> None:
    answer = run(tmp_path, document=DOCUMENT, stage="host", token_expires=moment)
    (finding,) = (finding for finding in answer["findings"] if finding["id"] == "token-expired")
    assert "2020-01-01T00:00:00+00:00" in finding["found"]


def test_the_engine_is_not_imported_by_it() -> None:
    reached: set[str] = set()
    todo = [f"{OURS}.module_utils.on_machine.flexnode_preflight_info"]
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.add(name)
            todo += GRAPH[name] & set(MODULES)
    names = {name.removeprefix(f"{OURS}.module_utils.node.") for name in reached}
    assert not names & {"engine", "operations", "cli", "components.every", "fetch", "gates", "leave"}
