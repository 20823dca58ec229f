# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs, files and waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.basics import files
from testbed.basics.clock import wait_for
from testbed.basics.errors import CommandFailed, TestbedError, TookTooLong
from testbed.basics.process import run
from testbed.host import leftovers


def test_a_failing_program_says_how_it_failed() -> None:
    with pytest.raises(CommandFailed, match="ended with 2") as failure:
        run(["ls", "/nonexistent"])
    assert failure.value.returncode == 2
    assert run(["ls", "/nonexistent"], check=False).returncode == 2


def test_input_reaches_the_program() -> None:
    assert run(["cat"], input="text").stdout == "text"


def test_a_missing_program_names_the_doctor() -> None:
    with pytest.raises(TestbedError, match="doctor"):
        run(["no-such-program"])


def test_a_program_has_a_time_limit() -> None:
    with pytest.raises(CommandFailed, match="still running"):
        run(["sleep", "5"], timeout=0.05)


def test_writing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    assert files.write(path, "secret", 0o600)
    assert path.stat().st_mode & 0o777 == 0o600
    assert not files.write(path, "secret", 0o600)
    assert files.write(path, "other", 0o600)
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_waiting_ends() -> None:
    answers = iter([False, True])
    wait_for("luck", lambda: next(answers), 5, interval=0.001)
    with pytest.raises(TookTooLong, match="luck did not come"):
        wait_for("luck", lambda: False, 0.01, interval=0.001)


def test_a_monitor_is_known_by_its_command_line() -> None:
    line = b"/usr/bin/conmon\0--api-version\0001\0-c\0abc\0-u\0abc\0-n\0tb-unit-etcd\0"
    assert leftovers.parse(7, line) == leftovers.Monitor(7, "abc", "tb-unit-etcd")
    assert leftovers.parse(7, b"/usr/bin/podman\0start\0tb-unit-etcd\0") is None
    assert leftovers.parse(7, b"") is None
