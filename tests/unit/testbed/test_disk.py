# SPDX-License-Identifier: GPL-3.0-or-later
"""A nearly full disk is named before the Nodes of a testbed refuse pods because of it."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed.host import disk


@pytest.mark.parametrize(("free", "named"), [(14, True), (15, False), (100, False)])
def test_pressure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, free: int, named: bool) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(total=100, free=free))
    found = disk.pressure(tmp_path / "not" / "there" / "yet")
    assert bool(found) is named
    assert not named or f"{free} % of the disk of {tmp_path}" in found
