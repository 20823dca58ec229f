# SPDX-License-Identifier: GPL-3.0-or-later
"""Virtual machines that join, and what is asked of them from outside."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from testbed import Testbed
from testbed.basics.errors import TestbedError
from testbed.machine.qemu import Hardware
from testbed.machine.vm import VirtualMachine
from testbed.playbooks import Play
from tests.e2e import fleet, updating
from tests.e2e.photograph import differences, photograph
from tests.e2e.updating import Document, Group, with_versions
from tests.vm.acts import STATE

# What a run that refuses to begin may note, and where.
NOTES = tuple(f"files: {STATE}{path}: " for path in ("", "/state.json", "/status.json"))
PLAY_SECONDS = 1800
READY_SECONDS = 600
# Runs on the machine: what a join changes in a kernel. Packet filter rules are kube-proxy's, not ours: they
# stay until the next boot.
KERNEL_CAMERA = """
import json, os, subprocess
def names(path):
    return sorted(os.listdir(path)) if os.path.isdir(path) else []
def value(path):
    try:
        return open(path).read().strip()
    except OSError:
        return None
def network(*what):
    found = json.loads(subprocess.run(["ip", "-json", *what], capture_output=True, check=True).stdout or "[]")
    return sorted(json.dumps({key: one[key] for key in sorted(one) if key not in LEASE}) for one in found)
LEASE = ("expires", "flags", "metric")  # of an address that the network gives, and the network's own
bridges = "/proc/sys/net/bridge"
mounts = [line.split()[1] for line in open("/proc/mounts")]
print(json.dumps({
    "modules": [name for name in ("overlay", "br_netfilter") if os.path.isdir("/sys/module/" + name)],
    "bridge settings": {name: value(bridges + "/" + name) for name in names(bridges)},
    "links": names("/sys/class/net"),
    "cgroups": [name for name in names("/sys/fs/cgroup") if name.startswith("kube")],
    "mounts": sorted(name for name in mounts if "kubelet" in name or "containerd" in name),
    "network namespaces": names("/run/netns"),
    "routes": network("route", "show", "table", "all") + network("-6", "route", "show", "table", "all"),
    "rules": network("rule"),
}))
"""


Shown = Callable[[], AbstractContextManager[None]]


@dataclass
class Lab:
    """Machines of one test module."""

    bed: Testbed
    directory: Path
    shown: Shown
    """In which progress is shown: the first machine of a kind takes minutes, or half an hour."""
    made: list[VirtualMachine] = field(default_factory=list)

    def machine(self, name: str, platform: str, hardware: Hardware) -> VirtualMachine:
        """A fresh machine."""
        for old in self.bed.nodes():
            if old.name == name:  # left over from a run that was killed
                old.remove()
        self._forget([name])
        try:
            with self.shown():
                machine = self.bed.node(name, platform, vm=hardware)
        except BaseException:  # one that does not boot would slow all that come after it
            for failed in self.bed.nodes():
                if failed.name == name:
                    failed.remove()
            raise
        assert isinstance(machine, VirtualMachine)
        assert machine.run(["stat", "-fc", "%T", "/sys/fs/cgroup"]).stdout.strip() == "cgroup2fs"
        self.made.append(machine)
        return machine

    def document(self, document: Document, kubernetes: str) -> Document:
        """A copy for another version, which is built the first time."""
        with self.shown():
            return with_versions(self.bed, document, kubernetes=kubernetes)

    @contextmanager
    def borrowed(self, name: str, platform: str, hardware: Hardware) -> Iterator[VirtualMachine]:
        """A fresh machine, until the block ends."""
        machine = self.machine(name, platform, hardware)
        try:
            yield machine
        finally:
            self.made.remove(machine)
            self._remove([machine])

    def group(self, machine: VirtualMachine, document: Document) -> Group:
        """A machine with an inventory of its own."""
        inventory = self.directory / f"{machine.name}.yml"
        return replace(Group(self.bed, [machine], document, inventory), seconds=PLAY_SECONDS)

    def clear(self) -> None:
        """Remove the machines and their Nodes."""
        if self.made:
            self._remove(self.made)

    def _remove(self, machines: Sequence[VirtualMachine]) -> None:
        for machine in machines:
            machine.remove()
        self._forget([machine.name for machine in machines])

    def _forget(self, names: Sequence[str]) -> None:
        """A Node of an earlier machine may still be called Ready."""
        self.bed.cluster.kubectl("delete", "node", "--ignore-not-found", *names)


def machine_of(group: Group) -> VirtualMachine:
    """Its only machine."""
    (machine,) = group.machines
    assert isinstance(machine, VirtualMachine)
    return machine


def photographed(machine: VirtualMachine) -> dict[str, Any]:
    """The machine as it is now, with its kernel's state."""
    kernel: dict[str, Any] = json.loads(machine.run(["python3", "-c", KERNEL_CAMERA]).stdout)
    seen = photograph(machine)
    seen["files"]["/etc/machine-id"][3] = 0  # systemd writes it at each boot, as the kernel's options name it
    return {**seen, **kernel}


def booted(machine: VirtualMachine) -> dict[str, Any]:
    """What a node adds to until the next boot: all modules, all rules of the packet filter."""
    rules = machine.run(["nft", "--stateless", "list", "ruleset"]).stdout
    modules = machine.read("/proc/modules").splitlines()
    return {
        "packet filter": rules.splitlines(),
        "modules after a boot": sorted(line.split()[0] for line in modules),
    }


def touched_by_refusal(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """What a run changed that refused to begin; it may note that it ran, and nothing else."""
    return [line for line in differences(before, after) if not line.startswith(NOTES)]


def is_ready(bed: Testbed, machine: VirtualMachine) -> None:
    """Wait until the kubelet that runs now says that it is."""
    fleet.eventually(
        f"{machine.name} Ready", partial(updating.freshly_ready, bed, machine), seconds=READY_SECONDS
    )


def reports(bed: Testbed, machine: VirtualMachine) -> None:
    """Wait until it is Ready and its kubelet has reported so again, from now on."""
    lease = (
        "get",
        "lease",
        machine.name,
        "--namespace=kube-node-lease",
        "--output=jsonpath={.spec.renewTime}",
    )
    before = bed.cluster.kubectl(*lease)

    def again() -> bool:
        return bed.cluster.kubectl(*lease) != before and fleet.is_ready(fleet.node(bed, machine.name))

    fleet.eventually(f"{machine.name} Ready again", again, seconds=READY_SECONDS)


def pod_works(bed: Testbed, machine: VirtualMachine, name: str) -> None:
    """A pod runs there; its log and a command in it are reached through the API server."""
    # It ends when it is asked to, or systemd waits for it for 90 s at each reboot.
    command = ["/bin/sh", "-c", "echo a kernel of its own; trap 'exit 0' TERM; sleep 86400 & wait"]
    pod = updating.pod(bed, name, machine.name)
    pod["spec"]["containers"][0]["command"] = command
    kubectl = bed.cluster.kubectl
    kubectl("delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")
    kubectl("create", "--filename=-", input=json.dumps(pod))
    pod_runs(bed, name)
    assert kubectl("logs", name).strip() == "a kernel of its own"
    kernel = kubectl("exec", name, "--", "busybox", "uname", "-r", timeout=120).strip()
    assert kernel == machine.run(["uname", "-r"]).stdout.strip()


def pod_runs(bed: Testbed, name: str) -> None:
    """Wait until the processes of a pod have been started by the kubelet that runs now."""
    wait = ("wait", "--for=condition=Ready", f"pod/{name}", f"--timeout={READY_SECONDS}s")
    bed.cluster.kubectl(*wait, timeout=READY_SECONDS + 30)
    # Right after a boot the API server may still tell what was before it.
    fleet.eventually(f"a command in {name}", partial(_answers, bed, name), seconds=READY_SECONDS)


def all_pods_run(bed: Testbed, machine: VirtualMachine) -> None:
    """Wait until none is starting there, such as those that each node has."""
    on_it = ("--all", "--all-namespaces", f"--field-selector=spec.nodeName={machine.name}")
    wait = ("wait", "--for=condition=Ready", "pod", *on_it, f"--timeout={READY_SECONDS}s")
    bed.cluster.kubectl(*wait, timeout=READY_SECONDS + 30)


def _answers(bed: Testbed, name: str) -> bool:
    try:
        bed.cluster.kubectl("exec", name, "--", "hostname", timeout=120)
    except TestbedError:
        return False
    return True


def uninstall(group: Group, document: Document) -> None:
    """Leave the cluster."""
    fleet.succeeded(group.play("unbootstrap", document))


def unchanged(run: Play, machine: VirtualMachine) -> None:
    """A run that had nothing to do."""
    assert fleet.succeeded(run).changed(machine.name) == 0, run.output
