# SPDX-License-Identifier: GPL-3.0-or-later
"""How tests run playbooks: as users do, who name the machines that they delete from."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from testbed import playbooks

ALL = ["--limit", "all"]


@pytest.mark.parametrize(
    ("playbook", "options", "named", "added"),
    [
        ("unbootstrap", (), True, ALL),
        ("aks.flexnode.unbootstrap", ("--check",), True, ALL),
        ("config_delete", (), True, ALL),
        ("unbootstrap", (), False, []),
        ("unbootstrap", ("-l", "edge-1"), True, []),
        ("unbootstrap", ("--limit=edge-1",), True, []),
        ("unbootstrap", ("-e", "flexnode_hosts=edge-1"), True, []),
        ("bootstrap", (), True, []),
        ("config_put", (), True, []),
    ],
)
def test_machines_are_named_where_something_is_deleted(
    playbook: str, options: tuple[str, ...], named: bool, added: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def run(argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        started.append(argv)
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(playbooks.subprocess, "run", run)
    assert playbooks.play(playbook, Path("edge_hosts"), *options, named=named).status == 0
    assert started[0][2:] == ["-i", "edge_hosts", *options, *added]
