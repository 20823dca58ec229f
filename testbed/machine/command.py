# SPDX-License-Identifier: GPL-3.0-or-later
"""python -m testbed node: machines, their power switches and their disks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from testbed.basics import paths
from testbed.basics.errors import TestbedError
from testbed.basics.progress import say
from testbed.bed import DEFAULT_PLATFORM, Testbed
from testbed.images.recipes import PLATFORMS
from testbed.machine import Machine
from testbed.machine.qemu import ARCHITECTURES, Hardware
from testbed.machine.vm import VirtualMachine

# What is done with each of the machines that are named.
VERBS: dict[str, tuple[str, Callable[[Machine], None]]] = {
    "rm": ("remove machines with their disks", lambda machine: machine.remove()),
    "reboot": ("shut down cleanly and start again", lambda machine: machine.reboot()),
    "shutdown": ("switch a virtual machine off in order", lambda machine: virtual(machine).shut_down()),
    "stop": ("cut the power: a virtual machine loses what it had not synced", lambda machine: machine.stop()),
    "start": ("switch on, and wait for SSH", lambda machine: machine.start()),
}
DISKS: dict[str, tuple[str, Callable[[VirtualMachine, str], None]]] = {
    "snapshot": ("keep the disks of a virtual machine that is off", lambda vm, kept: vm.snapshot(kept)),
    "restore": ("put them back to what they were", lambda vm, kept: vm.restore(kept)),
}


def add_to(commands: Any) -> None:
    """Declare the command and its options."""
    verbs = commands.add_parser("node", help="node machines").add_subparsers(
        dest="verb", required=True, metavar="VERB"
    )
    add = verbs.add_parser("add", help="create and start machines of these names")
    add.add_argument("names", nargs="+", metavar="NAME")
    add.add_argument(
        "--platform", choices=sorted(PLATFORMS), default=DEFAULT_PLATFORM, help=f"default: {DEFAULT_PLATFORM}"
    )
    add.add_argument("--vm", action="store_true", help="a virtual machine, with a kernel of its own (slow)")
    add.add_argument("--arch", choices=sorted(ARCHITECTURES), help="architecture of a virtual machine")
    add.add_argument(
        "--memory", type=int, metavar="MIB", help=f"of a virtual machine; default: {Hardware.memory_mib}"
    )
    add.add_argument("--cores", type=int, help=f"of a virtual machine; default: {Hardware.cores}")
    for verb, (text, _do) in VERBS.items():
        verbs.add_parser(verb, help=text).add_argument("names", nargs="+", metavar="NAME")
    for verb, (text, _copy) in DISKS.items():
        kept = verbs.add_parser(verb, help=text)
        kept.add_argument("machine", metavar="NAME")  # --name is the testbed's
        kept.add_argument("snapshot", metavar="SNAPSHOT")


def run(bed: Testbed, arguments: argparse.Namespace) -> int:
    """Carry out one verb."""
    verb = arguments.verb
    if verb in DISKS:
        DISKS[verb][1](virtual(machine_of(bed, arguments.machine)), arguments.snapshot)
        return 0
    for name in arguments.names:
        if verb == "add":
            machine = bed.node(name, arguments.platform, vm=_hardware(arguments))
            say(f"{machine.name:20} {machine.kind:10} {machine.ip:16} pods {machine.pod_cidr}")
        else:
            VERBS[verb][1](machine_of(bed, name))
    return 0


def machine_of(bed: Testbed, name: str) -> Machine:
    """A machine by its name."""
    for machine in bed.nodes():
        if machine.name == name:
            return machine
    raise TestbedError(f"node {name} does not exist: python -m testbed --name {bed.name} node add {name}")


def virtual(machine: Machine) -> VirtualMachine:
    """A machine with disks and a console of its own."""
    if not isinstance(machine, VirtualMachine):
        raise TestbedError(f"node {machine.name} is a container: only machines made with --vm have that")
    return machine


def _hardware(arguments: argparse.Namespace) -> Hardware | None:
    if arguments.vm:
        usual = Hardware(arguments.arch or paths.arch())
        return replace(
            usual,
            memory_mib=arguments.memory or usual.memory_mib,
            cores=arguments.cores or usual.cores,
        )
    if arguments.arch not in (None, paths.arch()):
        raise TestbedError(f"a container can't be {arguments.arch} here: add --vm")
    if arguments.memory or arguments.cores:
        raise TestbedError("a container has the memory and cores of this machine: add --vm")
    return None
