# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen on virtual machines: written down while they run, then put into the pages."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scripts.docs.tried import cuts_table, earlier_cuts, life_table
from scripts.tried import FAILED, PASSED, PRODUCT, UNFINISHED, Record, load, merged, older
from testbed.machine.vm import VirtualMachine
from tests.vm.acts import CASE, CUTS, JOIN, LIFE, LINE, REBOOT, UNINSTALL, UPDATE, cut_of
from tests.vm.seen import Seen

OLD, NEW, NOW = "1.34.3", "1.34.4", "abc1234"


class Machine:
    """Says what a virtual machine says about itself."""

    platform = "debian13"
    hardware = SimpleNamespace(arch="arm64")

    def run(self, _argv: list[str]) -> Any:
        return SimpleNamespace(stdout="6.12.1-cloud True\n")


MACHINE = cast(VirtualMachine, Machine())
RECORD = Record(LIFE, JOIN, "debian13", "arm64", "6.12.1-cloud", "v2", NEW, PASSED, 1.0, NOW)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "vm.json"


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def seen(file: Path, shown: list[str]) -> Seen:
    return Seen(NOW, file, shown.append, now=lambda: NOW)


def test_an_act_is_shown_and_written_down(seen: Seen, file: Path, shown: list[str]) -> None:
    with seen.act(MACHINE, NEW, JOIN, LIFE):
        pass
    (record,) = load(file)
    assert replace(record, seconds=1.0) == RECORD
    assert shown[0].split() == ["debian13", "arm64:", "life:", "join", "0", "s"]


def test_an_act_that_fails_is_shown_and_replaces_one_that_worked(
    seen: Seen, file: Path, shown: list[str]
) -> None:
    with seen.act(MACHINE, NEW, JOIN, LIFE):
        pass
    with pytest.raises(ZeroDivisionError), seen.act(MACHINE, NEW, JOIN, LIFE):
        raise ZeroDivisionError
    assert [record.outcome for record in load(file)] == [FAILED]
    assert shown[1].endswith("FAILED")


def test_a_test_that_gives_up_has_failed(seen: Seen, file: Path) -> None:
    with pytest.raises(BaseException, match="no"), seen.act(MACHINE, NEW, JOIN, LIFE):
        pytest.fail("no")
    assert [record.outcome for record in load(file)] == [FAILED]


def test_an_act_that_was_killed_or_interrupted_is_unfinished(seen: Seen, file: Path) -> None:
    running = seen.act(MACHINE, NEW, JOIN, LIFE)
    running.__enter__()  # and nobody comes back
    assert [record.outcome for record in load(file)] == [UNFINISHED]
    with pytest.raises(KeyboardInterrupt), seen.act(MACHINE, NEW, JOIN, LIFE):
        raise KeyboardInterrupt
    assert [record.outcome for record in load(file)] == [UNFINISHED]


def test_what_was_edited_meanwhile_is_no_commit(file: Path) -> None:
    edited = iter(["abc1234+"])
    with Seen(NOW, file, now=partial(next, edited)).act(MACHINE, NEW, JOIN, LIFE):
        pass
    assert [record.commit for record in load(file)] == ["abc1234+"]
    assert merged([], load(file)) == []


def test_a_life_with_another_commit_is_another_life(seen: Seen, file: Path) -> None:
    earlier = Seen("0000000", file, now=lambda: "0000000")
    for act in (JOIN, REBOOT):
        with earlier.act(MACHINE, OLD, act, LIFE):
            pass
    with seen.act(MACHINE, OLD, JOIN, LIFE):
        pass
    assert [(record.act, record.commit) for record in load(file)] == [(JOIN, NOW)]


def test_the_table_has_a_row_for_each_machine_and_a_line_for_each_case(seen: Seen) -> None:
    with seen.act(MACHINE, OLD, JOIN, LIFE):
        pass
    with pytest.raises(ZeroDivisionError), seen.act(MACHINE, NEW, UPDATE, LIFE):
        raise ZeroDivisionError
    with seen.act(MACHINE, NEW, "full disk", CASE):
        pass
    head, row, empty, case = seen.table()
    assert head.split() == [
        "machine",
        "kernel",
        "kubelet",
        "join",
        "pod",
        "again",
        "reboot",
        "update",
        "uninstall",
    ]
    machine = ["debian13", "arm64", "6.12.1-cloud", OLD, NEW]
    assert row.split() == [*machine, "0", "s", "-", "-", "-", "FAILED", "-"]
    assert (empty, case.split()) == ("", ["debian13", "arm64:", "full", "disk", "0", "s"])


def test_a_new_run_replaces_its_rows_only() -> None:
    line = replace(RECORD, part=LINE, kubelet="1.36.3")
    failed = replace(RECORD, outcome=FAILED, commit="1111111")
    reboot = replace(RECORD, act=REBOOT)
    assert merged([RECORD, reboot, line], [failed]) == [failed, line]


def test_a_life_that_was_interrupted_replaces_none() -> None:
    again = replace(RECORD, commit="1111111")
    assert merged([RECORD], [again]) == [RECORD]
    assert merged([RECORD], [replace(again, outcome=UNFINISHED)]) == [RECORD]
    whole = [again, replace(again, act=UNINSTALL)]
    assert merged([RECORD], whole) == whole
    cut = replace(again, part=cut_of("update"))
    assert merged([], [cut, replace(cut, act=REBOOT, outcome=UNFINISHED)]) == [cut]


def test_the_pages_name_what_was_not_run() -> None:
    first = CUTS["update"][0]
    page = cuts_table([replace(RECORD, part=cut_of("update"), act=first.name)])
    assert f"| update | {first.name} | debian13 arm64 | 1 s | `{NOW}` |" in page
    assert page.count("not run") == sum(map(len, CUTS.values())) - 1
    life = life_table([RECORD, replace(RECORD, act=REBOOT, outcome=FAILED)])
    assert "| 1 s | - | - | **failed** | - | - |" in life


def test_what_an_earlier_commit_did_is_told_apart(seen: Seen, file: Path, shown: list[str]) -> None:
    first = CUTS["update"][0].name
    now = replace(RECORD, part=cut_of("update"), act=first)
    before = replace(now, program="4d800d2", outcome=FAILED)
    assert merged([now], [before]) == [now, before]
    assert "**failed**" not in cuts_table([now, before])
    said = earlier_cuts([now, before, replace(before, act="other", outcome=PASSED)], "4d800d2")
    assert f"(tests of `{NOW}`): **1 of 2 failed**" in said
    assert f"* update: {first}\n" in said
    earlier = Seen(NOW, file, shown.append, now=lambda: NOW, program="4d800d2")
    with earlier.act(MACHINE, NEW, first, cut_of("update")):
        pass
    assert [record.program for record in load(file)] == ["4d800d2"]
    assert "(program of 4d800d2)" in shown[0]


def test_what_ran_with_another_product_is_to_be_run_again(tmp_path: Path) -> None:
    """A commit of tests or pages only takes no evidence away."""

    def git(*words: str) -> str:
        who = ("-c", "user.name=flex", "-c", "user.email=flex@example.com", "-c", "commit.gpgsign=false")
        command = ["git", "-C", str(tmp_path), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(file: str) -> Record:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(file)
        git("add", "--all")
        git("commit", "--quiet", f"--message={file}")
        return replace(RECORD, commit=git("rev-parse", "--short", "HEAD"))

    git("init", "--quiet")
    for part in PRODUCT[1:]:
        (tmp_path / part).mkdir()
        (tmp_path / part / "one").write_text(part)
    first, changed, page = (commit(file) for file in ("plugins/a", "plugins/b", "docs/c"))
    assert older([first, changed, page], tmp_path) == [first]
