# SPDX-License-Identifier: GPL-3.0-or-later
"""SIGKILL on a real machine, once for each kind of resource and each operation; the same command completes.

The kinds come from the plan of the machine itself, so a new kind is covered by itself. What a machine of the
testbed can't change alone (swap, kernel modules: one kernel for all) is covered in tests/faults.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from scripts import build_agent
from testbed import Testbed
from testbed.machine import Machine
from tests.e2e import fleet
from tests.e2e.conftest import MachineMaker
from tests.e2e.photograph import differences, photograph

NAME = "crashing"
PROGRAM, DRIVER, CONFIG = "/srv/aks-flex-node.pyz", "/srv/killer.py", "/srv/config.json"
SIGKILLED = 137
FSTAB = "UUID=0a1b / ext4 errors=remount-ro 0 1\n/swapfile none swap sw 0 0\n"
# Programs that containerd starts for pods, and the one pod that every node has.
FOR_PODS = re.compile(
    r"/cni-plugins/[^/]+/[^/]+$|/runc$|/containerd-shim-runc-v2$|^/usr/local/bin/kube-proxy$"
)
# Runs on the machine: the command itself, which dies right after its first effect on an item of a kind.
KILLER = """
import functools, inspect, os, signal, sys
program, kind, method, *arguments = sys.argv[1:]
sys.path.insert(0, program)
from flexnode.cli import main
from flexnode.machine.host import Host
from flexnode.resources.kinds import KINDS

looking = {"path", "stat", "exists", "read", "text", "names", "leftovers", "sha256"}
looking |= {"mounts_below", "free_space", "may_lower_oom_score"}
armed = False

def deadly(change):
    @functools.wraps(change)
    def changed(host, *given, **options):
        answer = change(host, *given, **options)
        verb = given[0][1] if change.__name__ == "run" and given[0][0] == "systemctl" else ""
        # A unit has no effect of its own: it is started and stopped by a command for all of them.
        if verb in ("restart", "stop") if kind == "unit" else armed and verb != "show":
            os.kill(os.getpid(), signal.SIGKILL)
        return answer
    return changed

for name, change in inspect.getmembers(Host, inspect.isfunction):
    if not name.startswith("_") and name not in looking:
        setattr(Host, name, deadly(change))

chosen = KINDS[kind]
original = inspect.getattr_static(chosen, method)

def touched(*given, **options):
    global armed
    armed = True
    answer = getattr(original, "__func__", original)(*given, **options)
    armed = False
    return answer

setattr(chosen, method, classmethod(touched) if isinstance(original, classmethod) else touched)
sys.exit(main(arguments))
"""


@dataclass
class Patient:
    """A machine that is killed again and again."""

    machine: Machine
    before: dict[str, Any]  # its photograph before we came
    joined: dict[str, Any]  # after an undisturbed join
    kinds: tuple[str, ...]
    reported: dict[str, Any] = field(default_factory=dict)  # its status then

    def run(self, *arguments: str) -> tuple[int, str]:
        """The command, undisturbed."""
        done = self.machine.run(["python3", PROGRAM, *arguments], check=False, timeout=300)
        return done.returncode, done.stdout + done.stderr

    def status(self) -> dict[str, Any]:
        """What status.json reports, without the times of this run and of its certificate."""
        found: dict[str, Any] = json.loads(self.machine.read("/var/lib/aks-flex-node/status.json"))
        node = {name: value for name, value in found["node"].items() if name != "certificate"}
        return {**found, "node": node, "timestamp": ""}

    def killed(self, kind: str, method: str, *arguments: str) -> None:
        """The command, killed after its first effect on an item of a kind."""
        argv = ["python3", DRIVER, PROGRAM, kind, method, *arguments]
        done = self.machine.run(argv, check=False, timeout=300)
        assert done.returncode == SIGKILLED, done.stdout + done.stderr


def lasting(photo: dict[str, Any]) -> dict[str, Any]:
    """What two joins have in common: no times, and not what daemons, journal, log and status keep.

    Nor what runs for pods: when these start is up to the cluster.
    """
    passing = re.compile(
        r"/var/lib/(kubelet|containerd|cni)(/|$)|/var/lib/aks-flex-node/(journal|origins|status\.json)"
        r"|/var/log/aks-flex-node/agent\.log$|/\.manifest\.json$"
    )
    files = {
        path: facts[:3] + facts[-1:]
        for path, facts in photo["files"].items()
        if not passing.search(path) and not path.startswith("/etc/cni/net.d/.")
    }
    programs = [path for path in photo["programs"] if not FOR_PODS.search(path)]
    return {**photo, "files": files, "programs": programs}


@pytest.fixture(scope="module")
def patient(bed: Testbed, machines: MachineMaker, tmp_path_factory: pytest.TempPathFactory) -> Patient:
    (machine,) = machines((NAME, "debian12"))
    directory: Path = tmp_path_factory.mktemp("dist")
    machine.copy_to(build_agent.build(directory), PROGRAM)
    document = fleet.join_document(bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    machine.run(["tee", CONFIG], input=json.dumps(document))
    machine.run(["tee", DRIVER], input=KILLER)
    machine.run(["tee", "/etc/fstab"], input=FSTAB)
    machine.run(["sysctl", "-w", "net.ipv4.ip_forward=0"])
    before = photograph(machine)
    made = Patient(machine, before, {}, ())
    status, plan = made.run("plan", "--config", CONFIG, "--diff")
    assert status == 0, plan
    made.kinds = tuple(dict.fromkeys(re.findall(r"^\+\+\+ ([a-z]+):", plan, re.MULTILINE)))
    status, said = made.run("join", "--config", CONFIG)
    assert status == 0, said
    made.joined, made.reported = lasting(photograph(machine)), made.status()
    status, said = made.run("unbootstrap")
    assert status == 0, said
    assert differences(before, photograph(machine)) == []
    return made


def kill_at(kind: str, bed: Testbed, patient: Patient) -> list[str]:
    """Kill a join and an unbootstrap at an item of this kind, run each again, and name what is different."""
    patient.killed(kind, "apply", "join", "--config", CONFIG)
    status, said = patient.run("join", "--config", CONFIG)
    assert status == 0, said
    assert fleet.is_ready(fleet.node(bed, NAME))
    assert patient.run("plan") == (0, "nothing to do\n")
    joined = differences(patient.joined, lasting(photograph(patient.machine)))
    assert patient.status() == patient.reported
    patient.killed(kind, "restore", "unbootstrap")
    status, said = patient.run("unbootstrap")
    assert status == 0, said
    assert NAME not in fleet.node_names(bed)
    left = differences(patient.before, photograph(patient.machine))
    return [
        *(f"bootstrap killed at a {kind}: {line}" for line in joined),
        *(f"unbootstrap killed at a {kind}: {line}" for line in left),
    ]


def test_a_kill_in_the_middle(bed: Testbed, patient: Patient) -> None:
    assert kill_at("link", bed, patient) == []


def test_one_kill_for_each_kind_and_operation(bed: Testbed, patient: Patient) -> None:
    wrong = [line for kind in patient.kinds for line in kill_at(kind, bed, patient)]
    print(f"crash matrix on a real machine: {2 * len(patient.kinds)} kills ({', '.join(patient.kinds)})")
    assert not wrong, "\n".join(wrong)
    assert {"directory", "file", "link", "tree", "program", "unit", "sysctl", "fstab"} <= set(patient.kinds)
