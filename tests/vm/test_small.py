# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with one core and 1 GiB: it joins, and when its memory is used up the kubelet evicts a pod."""

from __future__ import annotations

import json

from testbed import Testbed
from testbed.basics import paths
from testbed.layout import versions
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences
from tests.vm.acts import CASE
from tests.vm.lab import READY_SECONDS, Lab, photographed, pod_runs, pod_works, reports, uninstall
from tests.vm.seen import Seen

GREEDY = "greedy"


def test_a_small_machine_joins_and_survives_its_pods(bed: Testbed, lab: Lab, seen: Seen) -> None:
    machine = lab.machine("small", "debian12", Hardware(paths.arch(), memory_mib=1024, cores=1))
    with seen.act(
        machine, versions.KUBERNETES, part=CASE, act="1 GiB and 1 core: join, and eviction by memory pressure"
    ):
        untouched = photographed(machine)
        node = lab.group(machine, fleet.join_document(bed))
        fleet.succeeded(node.play("bootstrap", node.document))
        pod_works(bed, machine, "modest")

        before = services(machine)

        pod = updating.pod(bed, GREEDY, machine.name)
        # A file in memory that grows: the kubelet has time to notice, unlike with one huge allocation.
        grow = "busybox dd if=/dev/zero of=/fill/$i bs=1M count=16"
        fill = f"i=0; while {grow}; do i=$((i+1)); sleep 1; done; exec sleep 9999"
        pod["spec"]["containers"][0] |= {
            "command": ["/bin/sh", "-c", fill],
            "volumeMounts": [{"name": "fill", "mountPath": "/fill"}],
        }
        pod["spec"]["volumes"] = [{"name": "fill", "emptyDir": {"medium": "Memory"}}]
        bed.cluster.kubectl("create", "--filename=-", input=json.dumps(pod))

        def evicted() -> bool:
            found = json.loads(bed.cluster.kubectl("get", "pod", GREEDY, "--output=json"))
            return found["status"].get("reason") == "Evicted" and "memory" in found["status"]["message"]

        fleet.eventually("an evicted pod", evicted, seconds=READY_SECONDS)
        reports(bed, machine)
        assert services(machine) == before, "the kernel killed one of them"
        pod_runs(bed, "modest")
        bed.cluster.kubectl("delete", "pod", GREEDY, "--force", "--grace-period=0")
        uninstall(node, node.document)
        assert differences(untouched, photographed(machine)) == []


def services(machine: VirtualMachine) -> str:
    """The processes of kubelet and containerd."""
    wanted = ["--property=Id,MainPID,NRestarts,ActiveState", "containerd.service", "kubelet.service"]
    return machine.run(["systemctl", "show", *wanted]).stdout
