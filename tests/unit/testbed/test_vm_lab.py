# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests on virtual machines rely on: one run per testbed, and checks that notice."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from testbed import Testbed, doctor
from testbed.basics.errors import TestbedError
from tests.vm.beds import alone, bed_name
from tests.vm.power import WATCHER
from tests.vm.whole import INSPECTOR, half_written


def test_a_second_run_leaves_the_machines_of_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with alone(Testbed("vm")):
        with (
            pytest.raises(TestbedError, match="testbed vm is used by another `make vm`"),
            alone(Testbed("vm")),
        ):
            pass
        with alone(Testbed("other")):
            pass
    with alone(Testbed("vm")):
        pass


def test_each_lane_has_a_testbed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TESTBED_NAME", raising=False)
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw1")
    assert bed_name() == "vmgw1"
    monkeypatch.setenv("TESTBED_NAME", "mine")
    assert bed_name() == "minegw1"


def test_too_little_space_is_said_before_anything_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "VIRTUAL_GIB", 10**6)
    (found,) = [finding for finding in doctor.for_virtual_machines() if "GiB free at" in finding.text]
    assert not found.good
    assert found.remedy == "free 1000000 GiB"


def test_the_first_part_of_a_file_is_noticed() -> None:
    unit = "[Unit]\nDescription=kubelet\n"
    assert half_written(
        {"/a": unit[:9], "/b": unit, "/c": "other"}, dict.fromkeys(("/a", "/b", "/c"), unit)
    ) == ["/a"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("status.json", "", "empty: "),
        ("status.json", "\0" * 64, "empty: "),
        ("status.json", '{"phase": "Node', "half-written: "),
        ("status.json", '{"phase": "NodeJoined"}', ""),
        ("kubelet.service", "[Unit]", ""),
        ("kubelet.service", "[Unit]\n\0\0", "half-written: "),
    ],
)
def test_the_inspector_finds_what_a_power_cut_leaves(
    tmp_path: Path, name: str, content: str, said: str
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    found = _python(INSPECTOR, json.dumps([str(tmp_path)]))
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_the_inspector_finds_a_binary_that_is_not_what_was_verified(tmp_path: Path) -> None:
    (tmp_path / "kubelet").write_bytes(b"half")
    (tmp_path / ".manifest.json").write_text(json.dumps({"files": {"kubelet": {"sha256": "0" * 64}}}))
    assert "not what was verified" in _python(INSPECTOR, json.dumps([str(tmp_path)]))


def test_the_watcher_says_if_the_moment_did_not_come(tmp_path: Path) -> None:
    """It ends without waiting: who started it ends it as well."""
    canaries = [tmp_path / "early", tmp_path / "late"]
    quick = WATCHER.replace("time.sleep(600)", "").replace("/run/", f"{tmp_path}/")

    def watch(command: str, *moment: str) -> str:
        return _python(quick, json.dumps([moment, *map(str, canaries)]), command).splitlines()[0]

    assert watch("/bin/true", "exists", str(tmp_path / "never")) == "missed 0"
    assert watch("/bin/false", "ended") == "ended 1"
    assert [canary.read_text() for canary in canaries] == ["not synced"] * 2


def _python(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout
