# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed that end-to-end tests share; each test module creates its own machines and removes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from testbed import Testbed
from testbed.basics import files, paths
from testbed.bed import DEFAULT_PLATFORM
from testbed.machine import Machine
from testbed.machine.qemu import Hardware
from tests.aloud import aloud

NAME = os.environ.get("TESTBED_NAME", "e2e")
MachineMaker = Callable[..., list[Machine]]
# They change how the one emulated Azure behaves, and what it remembers.
IN_AZURE = frozenset({"test_follow", "test_machines", "test_sources"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs the testbed."""
    for item in items:
        item.add_marker(pytest.mark.e2e)


class Together(LoadScopeScheduling):
    """One worker has all tests of a file, and one those of all files that use the same Azure."""

    def _split_scope(self, nodeid: str) -> str:
        name = Path(nodeid.partition("::")[0]).stem
        return "azure" if name in IN_AZURE else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """With -n."""
    return Together(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Make what is missing before the workers start: nobody sees what they say."""
    if not config.option.collectonly:
        start(Testbed(NAME))


def start(testbed: Testbed) -> None:
    """Other platforms than the usual one are made where a test asks for them.

    Not in a worker: the controller has done it, and a machine that another worker is just making, and that
    does not run yet, would be taken for one that has stopped.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        testbed.up(platforms=[DEFAULT_PLATFORM])


@pytest.fixture(scope="session")
def bed(pytestconfig: pytest.Config) -> Iterator[Testbed]:
    """A running testbed; one that was started for the tests is removed, one that was there stays.

    Workers share it: the last one removes it.
    """
    testbed = Testbed(NAME)
    users = paths.state(testbed.name).parent / f"{testbed.name}.users"
    with files.shared(users):
        with aloud(pytestconfig):
            start(testbed)
        yield testbed
    if "TESTBED_NAME" not in os.environ:
        with files.try_lock(users) as nobody_else:
            if nobody_else:
                testbed.down()


@pytest.fixture(scope="module")
def machines(bed: Testbed) -> Iterator[MachineMaker]:
    """Fresh machines: `machines(("edge-1", "debian12"), ...)`. Removed when the test module ends.

    Containers, or virtual machines with FLEXNODE_MACHINES=vm: slow, and with a kernel of their own.
    """
    created: list[Machine] = []
    hardware = Hardware(paths.arch()) if os.environ.get("FLEXNODE_MACHINES") == "vm" else None

    def make(*wanted: tuple[str, str]) -> list[Machine]:
        for name, _ in wanted:
            for old in bed.nodes():
                if old.name == name:  # left over from a run that was killed
                    old.remove()
        with ThreadPoolExecutor() as pool:
            fresh = list(pool.map(lambda pair: bed.node(pair[0], platform=pair[1], vm=hardware), wanted))
        created.extend(fresh)
        return fresh

    yield make
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda machine: machine.remove(), created))
    if created:
        names = (machine.name for machine in created)
        bed.cluster.kubectl("delete", "node", "--ignore-not-found", *names)
