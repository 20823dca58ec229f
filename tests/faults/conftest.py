# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fixtures of the crash tests, and the count of the points where a command was killed."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node import cli
from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue import wheels
from ansible_collections.aks.flexnode.plugins.module_utils.node.commands import options
from ansible_collections.aks.flexnode.plugins.module_utils.node.components import agent
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine import fetch
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine import disk
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import (
    COMMAND,
    LAUNCHER,
    PACKAGE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations import refusal
from tests.faults.crashes import COUNTED
from tests.faults.lab import Lab, a_lab
from tests.unit.node.fakes import Machine
from tests.unit.node.pull.team import WHEEL_DIR, small_wheels
from tests.unit.node.servers import Pki

# The program has 300 files, which a loop writes, syncs and removes: these are written by the same loop.
PROGRAM = {
    COMMAND: LAUNCHER.encode(),
    f"{PACKAGE}/__init__.py": b"",
    f"{PACKAGE}/cli.py": b"def main(): ...\n",
    f"{PACKAGE}/follow/__init__.py": b"",
    f"{PACKAGE}/follow/tick.py": b"def main(): ...\n",
}


@pytest.fixture(scope="session", autouse=True)
def _quick() -> Iterator[None]:
    """Only what does not matter here is left out: nothing survives or is lost by a sync to memory.

    What is synced when, test_on_disk.py shows.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)  # reading all public CAs for each client takes long
        patch.setenv("SSL_CERT_DIR", os.devnull)
        patch.setattr(os, "fsync", lambda _descriptor: None)
        patch.setattr(fetch, "PARALLEL", 1)  # the n-th effect is the same one in every run
        patch.setattr(disk, "AT_ONCE", 1)
        for user in (agent, refusal):
            patch.setattr(user, "sources", lambda: dict(PROGRAM))
        patch.setattr(cli, "parser", functools.cache(options.parser))  # the same for every command
        yield


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Servers for all machines, and room for them in memory."""
    assert os.geteuid() == 0, "run as root: what is written belongs to root"
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    roots = Path(tempfile.mkdtemp(prefix="flexnode-faults-", dir=memory))
    pki = Pki.make(tmp_path_factory.mktemp("pki"))
    wheelhouse = Machine.at(roots / "wheelhouse")
    table = small_wheels(wheelhouse)
    wheelhouse.path(WHEEL_DIR).rename(roots / "wheels")
    with (
        pytest.MonkeyPatch.context() as patch,
        a_lab(tmp_path_factory.mktemp("lab"), roots, pki) as made,
    ):
        patch.setattr(wheels, "TABLE", table)
        yield made
    shutil.rmtree(roots)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The counts, of all workers together."""
    counts: dict[str, list[int]] = {}
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if report.when == "call" and name.startswith(COUNTED):
                sums = counts.setdefault(name.removeprefix(COUNTED), [0, 0, 0, 0])
                counts[name.removeprefix(COUNTED)] = [
                    a + int(b) for a, b in zip(sums, str(value).split(), strict=True)
                ]
    for name, (effects, moments, states, points) in sorted(counts.items()):
        terminalreporter.write_line(
            f"crash matrix: {name}: {effects} effects, {moments} moments to die at, "
            f"{states} different states, {points} tried: all converge"
        )
