# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed of these tests, its virtual machines, and the table of what was seen on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from testbed import Testbed, doctor
from testbed.basics.errors import TestbedError
from testbed.layout import network
from tests.vm.lab import Lab
from tests.vm.seen import ROOT, Seen


def pytest_xdist_auto_num_workers() -> int:
    """Each emulated machine keeps two processors busy, its control plane a part of a third."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    lanes = min((os.cpu_count() or 1) // 3, memory // 5)
    return lanes if lanes > 1 else 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what is in the way before half an hour is spent on building."""
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    wrong = [f"{found.text}: {found.remedy}" for found in doctor.findings() if not found.good]
    try:
        network.check_tap()
    except TestbedError as error:
        wrong.append(str(error))
    if wrong:
        pytest.exit("; ".join(wrong), returncode=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the testbed, and QEMU."""
    for item in items:
        item.add_marker(pytest.mark.vm)


@pytest.fixture(scope="session")
def bed(request: pytest.FixtureRequest) -> Iterator[Testbed]:
    """A running testbed, one per lane; one that was started for the tests is removed, a named one stays."""
    lane = os.environ.get("PYTEST_XDIST_WORKER", "")
    testbed = Testbed(os.environ.get("TESTBED_NAME", "vm") + lane)
    shown = request.config.pluginmanager.getplugin("capturemanager")
    with shown.global_and_fixture_disabled() if shown else nullcontext():  # the first time it takes long
        testbed.up()
    yield testbed
    if "TESTBED_NAME" not in os.environ:
        testbed.down()


@pytest.fixture(scope="session")
def seen() -> Seen:
    """What was seen on which kind of machine; what another commit did is no matter of the README."""
    return _seen()


def _seen() -> Seen:
    other = os.environ.get("FLEXNODE_VM_COMMIT")
    return Seen(ROOT / "build" / f"vm-{other}.json") if other else Seen()


@pytest.fixture(scope="module")
def lab(bed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Makes virtual machines; they are removed when the test module ends."""
    made = Lab(bed, tmp_path_factory.mktemp("lab"))
    yield made
    made.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table."""
    terminalreporter.write_sep("=", "seen on virtual machines (emulated: times are long)")
    for line in _seen().table():
        terminalreporter.write_line(line)
