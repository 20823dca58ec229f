# SPDX-License-Identifier: GPL-3.0-or-later
"""What was seen on virtual machines, written down while they run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from testbed.machine.vm import VirtualMachine
from tests.vm import seen as module
from tests.vm.seen import Seen

NEW, NOW = "1.34.4", "abc1234"


class Machine:
    """Says what a virtual machine says about itself."""

    platform = "debian13"
    hardware = SimpleNamespace(arch="arm64")

    def run(self, _argv: list[str]) -> Any:
        return SimpleNamespace(stdout="6.12.1-cloud True\n")


MACHINE = cast(VirtualMachine, Machine())


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In a checkout of its own."""
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path / "tried.json"


def test_an_act_is_shown_and_written_down(file: Path) -> None:
    shown: list[str] = []
    with Seen(NOW, file, shown.append).act(MACHINE, NEW, "join"):
        pass
    (row,) = json.loads(file.read_text()).values()
    assert (row["kernel"], row["cgroup"], row["acts"]["join"]["commit"]) == ("6.12.1-cloud", "v2", "abc1234")
    assert shown == [f"    {'join':60}      0.0 s"]


def test_an_act_that_fails_is_shown_and_replaces_one_that_worked(file: Path) -> None:
    shown: list[str] = []
    seen = Seen(NOW, file, shown.append)
    with seen.act(MACHINE, NEW, "join"):
        pass
    with pytest.raises(ZeroDivisionError), seen.act(MACHINE, NEW, "join"):
        raise ZeroDivisionError
    assert [line.split()[1] for line in shown] == ["0.0", "FAILED"]
    assert seen.table()[1].endswith("FAILED")


def test_an_act_that_was_killed_is_none_that_worked(file: Path) -> None:
    running = Seen(NOW, file).act(MACHINE, NEW, "join")
    running.__enter__()  # and nobody comes back
    assert Seen(NOW, file).table()[1].endswith("FAILED")


def test_the_table_shows_what_this_commit_did(file: Path) -> None:
    earlier = Seen("0000000", file)
    with earlier.act(MACHINE, NEW, "join"):
        pass
    with pytest.raises(ZeroDivisionError), earlier.act(MACHINE, NEW, "update"):
        raise ZeroDivisionError
    seen = Seen(NOW, file)
    with seen.act(MACHINE, NEW, "reboot"):
        pass
    title, reboot, others = seen.table()
    assert title == "debian13 arm64 1.34.4  (kernel 6.12.1-cloud, cgroup v2)"
    assert reboot.split() == ["reboot", "0.0", "s"]
    assert others == "2 more ran with other commits only, 1 of them FAILED: tried.json"
