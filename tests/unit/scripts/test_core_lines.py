# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of ansible-core that the proof runs with: every supported one, from a lock, the same in CI."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from scripts import core_lines
from scripts.checkout import ROOT

HEX = r"[0-9a-f]{64}"


def pinned(line: str) -> str:
    """The version of ansible-core that a line's Python gets from the last lock that has it."""
    python = core_lines.LINES[line]
    environment = {"python_version": python, "python_full_version": f"{python}.9"}
    found = ""
    for lock, _options in core_lines.locks(line):
        for text in re.findall(r"^(ansible-core==[^\\\n]+)", lock.read_text(), re.MULTILINE):
            requirement = Requirement(text.strip())
            if requirement.marker is None or requirement.marker.evaluate(environment):
                found = str(next(iter(requirement.specifier)).version)
    return found


@pytest.mark.parametrize("line", core_lines.LINES)
def test_each_line_comes_from_a_lock(line: str) -> None:
    assert pinned(line).startswith(f"{line}."), "lock again, or change LINES"


def test_no_line_is_left_out() -> None:
    oldest = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["requires_ansible"]
    lines = [Version(line) for line in core_lines.LINES]
    assert oldest == f">={lines[0]}.0"
    assert [line.minor for line in lines] == list(range(lines[0].minor, lines[-1].minor + 1))
    newest = max(
        Version(v) for v in re.findall(r"^ansible-core==([\d.]+)", core_lines.LOCK.read_text(), re.M)
    )
    assert (newest.major, newest.minor) == (lines[-1].major, lines[-1].minor)


def test_ci_has_the_same_lines() -> None:
    jobs: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    matrix = jobs["sanity"]["strategy"]["matrix"]["include"]
    assert {row["core"]: row["python"] for row in matrix} == core_lines.LINES


@pytest.mark.parametrize("name", ["core", "mutation"])
def test_locks_are_pinned_by_hash_and_name_no_index(name: str) -> None:
    text = (ROOT / f"requirements/{name}.txt").read_text()
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert lines
    assert [
        one for one in lines if not re.fullmatch(rf"\S+==\S+( ; .+)? \\|    --hash=sha256:{HEX}( \\)?", one)
    ] == []


def test_a_python_that_is_missing_is_said(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(core_lines, "CACHE", tmp_path)
    monkeypatch.setattr(core_lines, "interpreter", lambda _name: None)
    with pytest.raises(SystemExit) as ended:
        core_lines.main(["2.20", "-m", "pytest"])
    assert ended.value.code == core_lines.NOT_HERE
    assert capsys.readouterr().out == "core-2.20 cannot run here: there is no python3.12\n"
