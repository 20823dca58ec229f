# SPDX-License-Identifier: GPL-3.0-or-later
"""A node from its first join to its uninstall, on machines with a kernel of their own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from testbed import Testbed
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.vm.acts import AGAIN, JOIN, LIFE, POD, REBOOT, UNINSTALL, UPDATE
from tests.vm.lab import Lab, booted, is_ready, photographed, pod_runs, pod_works, unchanged, uninstall
from tests.vm.seen import Seen

OLD, NEW = versions.KUBERNETES_OLD_PATCH, versions.KUBERNETES
MACHINES = [
    ("debian12", "amd64"),
    ("debian13", "amd64"),
    ("ubuntu2204", "amd64"),
    ("ubuntu2404", "amd64"),
    ("debian12", "arm64"),
    ("debian13", "arm64"),
]


@pytest.fixture(params=MACHINES, ids=" ".join)
def machine(request: pytest.FixtureRequest, lab: Lab) -> Iterator[VirtualMachine]:
    """A fresh machine; it is removed before the next one is made, whatever became of it."""
    platform, arch = request.param
    with lab.borrowed(f"{platform}-{arch}", platform, Hardware(arch)) as made:
        yield made


def test_life_of_a_node(bed: Testbed, lab: Lab, seen: Seen, machine: VirtualMachine) -> None:
    act = partial(seen.act, machine, part=LIFE)
    before, fresh = photographed(machine), booted(machine)
    group = lab.group(machine, lab.document(fleet.join_document(bed), OLD))
    with act(OLD, JOIN):
        fleet.succeeded(group.play("bootstrap", group.document))
        is_ready(bed, machine)
        node = fleet.node(bed, machine.name)
        assert node["status"]["nodeInfo"]["architecture"] == machine.hardware.arch
        assert updating.running_version(machine, updating.KUBELET) == OLD
    with act(OLD, POD):
        pod_works(bed, machine, machine.name)
    with act(OLD, AGAIN):
        unchanged(group.play("bootstrap", group.document), machine)
    with act(OLD, REBOOT):
        machine.reboot()
        is_ready(bed, machine)
        pod_runs(bed, machine.name)  # it came back by itself
        pod_works(bed, machine, f"{machine.name}-again")
    with act(NEW, UPDATE):
        newer = lab.document(group.document, NEW)
        fleet.succeeded(group.play("update", newer))
        assert updating.running_version(machine, updating.KUBELET) == NEW
        is_ready(bed, machine)
        pod_works(bed, machine, f"{machine.name}-updated")
    with act(NEW, UNINSTALL):
        uninstall(group, newer)
        assert differences(before, photographed(machine)) == []
        assert machine.name not in fleet.node_names(bed)
        machine.reboot()
        assert differences({**before, **fresh}, {**photographed(machine), **booted(machine)}) == []
