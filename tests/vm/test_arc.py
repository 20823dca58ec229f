# SPDX-License-Identifier: GPL-3.0-or-later
"""Azure Arc on a machine whose unattended upgrades hold dpkg's lock while the agent is installed."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from testbed.playbooks import play
from tests.e2e import fleet
from tests.e2e.identities import GRANTOR_ROLES, registrar
from tests.e2e.test_arc import site_of
from tests.vm.acts import CASE
from tests.vm.lab import PLAY_SECONDS, Lab, is_ready
from tests.vm.seen import Seen

HELD = "/run/held"
# What apt's timers hold for minutes: a lock of the kernel, which dpkg asks for itself.
HOLDER = f"""
import fcntl, pathlib, time
lock = open("/var/lib/dpkg/lock-frontend", "w")
fcntl.lockf(lock, fcntl.LOCK_EX)
held = pathlib.Path("{HELD}")
held.touch()
while held.exists():
    time.sleep(0.1)
"""
WAITS = "waiting until another process has installed its packages"


def test_the_agent_waits_for_unattended_upgrades(bed: Testbed, lab: Lab, tmp_path: Path, seen: Seen) -> None:
    machine = lab.machine("busy", "debian12", Hardware(paths.arch()))
    with seen.act(
        machine,
        versions.KUBERNETES,
        part=CASE,
        act="Azure Arc while unattended upgrades hold the lock of dpkg",
    ):
        site = site_of(bed, tmp_path, registrar(bed, "vm-arc", *GRANTOR_ROLES), machine)
        bootstrap = partial(
            play,
            "bootstrap",
            site.inventory("busy", autoRoleAssignment=True),
            environment=site.environment,
            seconds=PLAY_SECONDS,
        )
        machine.run(["systemd-run", "--unit=upgrades", "--quiet", "python3", "-c", HOLDER])
        fleet.eventually("a held lock", partial(exists, machine, HELD))
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(bootstrap)
            try:
                fleet.eventually("the agent's package", partial(downloaded, machine), seconds=PLAY_SECONDS)
                time.sleep(30)
                assert not exists(machine, "/usr/bin/azcmagent")
            finally:
                machine.run(["rm", HELD])
            run = fleet.succeeded(running.result())
        assert any(WAITS in event["result"].get("progress", ()) for event in run.events)
        is_ready(bed, machine)


def exists(machine: VirtualMachine, path: str) -> bool:
    """Whether there is such a file."""
    return machine.run(["test", "-e", path], check=False).returncode == 0


def downloaded(machine: VirtualMachine) -> bool:
    """Whether the agent's package is there, so that it is the next thing to be installed."""
    return ".deb\n" in machine.run(["ls", "/var/lib/aks-flex-node/cache"], check=False).stdout
