# SPDX-License-Identifier: GPL-3.0-or-later
"""A node from its first join to its uninstall, on machines with a kernel of their own."""

from __future__ import annotations

from functools import partial

import pytest

from testbed import Testbed
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.e2e.updating import with_versions
from tests.vm.lab import Lab, is_ready, photographed, pod_runs, pod_works, unchanged, uninstall
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


@pytest.mark.parametrize(("platform", "arch"), MACHINES, ids=[" ".join(pair) for pair in MACHINES])
def test_life_of_a_node(bed: Testbed, lab: Lab, seen: Seen, platform: str, arch: str) -> None:
    machine = lab.machine(f"{platform}-{arch}", platform, Hardware(arch))
    act = partial(seen.act, machine, NEW)
    before = photographed(machine)
    group = lab.group(machine, with_versions(bed, fleet.join_document(bed), kubernetes=OLD))
    with act(f"join with kubelet {OLD}"):
        fleet.succeeded(group.play("bootstrap", group.document))
        assert fleet.is_ready(fleet.node(bed, machine.name))
        assert fleet.node(bed, machine.name)["status"]["nodeInfo"]["architecture"] == arch
    with act("pod with logs and exec"):
        pod_works(bed, machine, machine.name)
    with act("second run, 0 changed"):
        unchanged(group.play("bootstrap", group.document), machine)
    with act("reboot"):
        machine.reboot()
        is_ready(bed, machine)
        pod_runs(bed, machine.name)  # it came back by itself
        pod_works(bed, machine, f"{machine.name}-again")
    with act(f"update to {NEW}"):
        newer = with_versions(bed, group.document, kubernetes=NEW)
        fleet.succeeded(group.play("update", newer))
        assert updating.running_version(machine, updating.KUBELET) == NEW
        is_ready(bed, machine)
        pod_works(bed, machine, f"{machine.name}-updated")
    with act("uninstall, machine as before"):
        uninstall(group, newer)
        assert differences(before, photographed(machine)) == []
        assert machine.name not in fleet.node_names(bed)
    machine.remove()
