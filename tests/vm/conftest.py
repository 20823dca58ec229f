# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed of these tests, its virtual machines, and the table of what was seen on them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import Any

import pytest

from scripts.tried import SEEN
from testbed import Testbed, doctor
from tests.vm.beds import NAMED, alone, bed_name
from tests.vm.lab import Lab, Shown
from tests.vm.seen import Seen, commit

FIRST = ("test_life", "test_power_cut", "test_lines")
COMMIT = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Read at the start; an act during which it changes is no evidence."""
    config.stash[COMMIT] = getattr(config, "workerinput", {}).get("commit") or commit()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A lane notes the same commit."""
    node.workerinput["commit"] = node.config.stash[COMMIT]


def pytest_xdist_auto_num_workers() -> int:
    """Emulators take each other's caches: two of them on two processors ran more than twice as long each."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**30
    lanes = min((os.cpu_count() or 1) // 2, memory // 5)
    return lanes if lanes > 1 else 0


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say what is in the way before half an hour is spent on building."""
    if hasattr(session.config, "workerinput") or session.config.option.collectonly:
        return
    if wrong := [
        f"{found.text}: {found.remedy}" for found in doctor.for_virtual_machines() if not found.good
    ]:
        pytest.exit("; ".join(wrong), returncode=1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the testbed, and QEMU. What most people want to see comes first."""
    for item in items:
        item.add_marker(pytest.mark.vm)
    items.sort(key=lambda item: FIRST.index(item.path.stem) if item.path.stem in FIRST else len(FIRST))


@pytest.fixture(scope="session")
def shown(request: pytest.FixtureRequest) -> Shown:
    """For what takes long the first time."""
    return partial(_shown, request.config)


@pytest.fixture(scope="session")
def bed(shown: Shown) -> Iterator[Testbed]:
    """A running testbed, one per lane; one that was started for the tests is removed, a named one stays."""
    testbed = Testbed(bed_name())
    with alone(testbed):
        with shown():
            testbed.up()
        yield testbed
        if NAMED not in os.environ:
            testbed.down()


@pytest.fixture(scope="session")
def seen(request: pytest.FixtureRequest, shown: Shown) -> Seen:
    """What was seen on which kind of machine, shown as soon as it was seen."""

    def say(line: str) -> None:
        with shown():
            print(f"\n{line}", flush=True)

    return Seen(request.config.stash[COMMIT], SEEN, say, program=os.environ.get("FLEXNODE_VM_COMMIT", ""))


@contextmanager
def _shown(config: pytest.Config) -> Iterator[None]:
    """Output that is not kept back until a test fails; a lane's standard output leads nowhere."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else nullcontext(), redirect_stdout(sys.stderr):
        yield


@pytest.fixture(scope="module")
def lab(bed: Testbed, shown: Shown, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Makes virtual machines; they are removed when the test module ends."""
    made = Lab(bed, tmp_path_factory.mktemp("lab"), shown)
    yield made
    made.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """The table."""
    terminalreporter.write_sep("=", f"seen with {config.stash[COMMIT]} (emulated: times are long)")
    for line in Seen(config.stash[COMMIT]).table():
        terminalreporter.write_line(line)
