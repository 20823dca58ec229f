# SPDX-License-Identifier: GPL-3.0-or-later
"""make sanity: what all checkouts of a user share outlasts each of them, and one run at a time uses it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import sanity


def test_interpreters_that_are_offered_are_of_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, venv = tmp_path / "real" / "python3.11", tmp_path / "checkout" / "python3.11"
    for path in (real, venv):
        path.parent.mkdir()
    real.touch()
    venv.symlink_to(real)
    monkeypatch.setattr(sanity, "BIN", tmp_path / "bin")
    monkeypatch.setattr(sanity, "interpreter", lambda name: venv if name == "python3.11" else None)
    assert sanity.search_path().split(os.pathsep)[0] == str(tmp_path / "bin")
    assert os.readlink(tmp_path / "bin" / "python3.11") == str(real.resolve())
    assert [path.name for path in (tmp_path / "bin").iterdir()] == ["python3.11"]


def test_what_is_shared_is_not_in_a_checkout() -> None:
    assert sanity.BIN.is_relative_to(sanity.HOME)
    assert not sanity.BIN.is_relative_to(sanity.checkout.ROOT)


def test_all_of_a_run_is_under_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sanity, "HOME", tmp_path)
    seen: list[Sequence[str]] = []

    def run(options: Sequence[str]) -> int:
        with (tmp_path / "lock").open("w") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(options)
        return 0

    monkeypatch.setattr(sanity, "run", run)
    assert sanity.main(["--quick"]) == 0
    assert sanity.main([]) == 0
    assert seen == [sanity.QUICK, ()]
