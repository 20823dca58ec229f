# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates, timed: a patch upgrade of the kubelet, and a change that is rolled back."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

from testbed.basics.process import Completed
from testbed.layout import versions
from testbed.machine import Machine
from testbed.playbooks import join_document
from tests.bench import report
from tests.bench.lab import CONFIG, PROGRAM, Lab, Unwell
from tests.bench.watch import at_version

NAME = "bench-1"
COMMAND = "aks-flex-node"
GONE, STARTED = "ActiveExitTimestampMonotonic", "ExecMainStartTimestampMonotonic"
Document = dict[str, Any]


def document_for(lab: Lab, machine: Machine, kubernetes: str) -> Document:
    """The document of a join with this version, which the mirror then serves."""
    document: Document = copy.deepcopy(join_document(lab.bed))
    document["cni"]["podCIDR"] = machine.pod_cidr
    document["kubernetes"] = {"version": kubernetes}
    for name, digests in lab.bed.offer("kubernetes", kubernetes).items():
        document["mirror"]["catalogue"].setdefault(name, {}).update(digests)
    return document


def give(lab: Lab, machine: Machine, document: Document) -> None:
    """Put a configuration where the command reads it."""
    file = lab.directory / "update.json"
    file.write_text(json.dumps({"config": document}), encoding="utf-8")
    file.chmod(0o600)
    machine.copy_to(file, CONFIG)


def kubelet_times(machine: Machine) -> dict[str, float]:
    """When the kubelet stopped and started last, in seconds of the kernel's clock, which is also ours."""
    shown = machine.run(["systemctl", "show", "kubelet.service", f"--property={GONE},{STARTED}"]).stdout
    return {name: int(value) / 1e6 for name, value in (line.split("=") for line in shown.split())}


def upgrade(lab: Lab) -> Iterator[tuple[str, float]]:
    """From a patch to the next: how long no kubelet ran, and when the Node reported the new version."""
    (machine,) = lab.fresh([NAME])
    lab.give_program(machine)
    give(lab, machine, document_for(lab, machine, versions.KUBERNETES_OLD_PATCH))
    lab.at(machine)("python3", PROGRAM, "join", "--config", CONFIG)
    give(lab, machine, document_for(lab, machine, versions.KUBERNETES))
    with at_version(lab.api, NAME, f"v{versions.KUBERNETES}") as seen:
        lab.at(machine)(COMMAND, "update", "--config", CONFIG)
    times = kubelet_times(machine)
    yield report.GAP, times[STARTED] - times[GONE]
    yield report.UPGRADE, seen() - times[STARTED]


def rollback(lab: Lab) -> Iterator[tuple[str, float]]:
    """A setting that makes the kubelet exit: until the old configuration works again."""
    (machine,) = lab.fresh([NAME])
    lab.give_program(machine)
    document = document_for(lab, machine, versions.KUBERNETES)
    give(lab, machine, document)
    lab.at(machine)("python3", PROGRAM, "join", "--config", CONFIG)
    bad = {**document, "kubelet": {"configOverrides": {"evictionHard": {"memory.available": "nonsense"}}}}
    give(lab, machine, bad)
    start = time.monotonic()
    done: Completed = lab.at(machine, check=False)(COMMAND, "update", "--config", CONFIG)
    spent = time.monotonic() - start
    said = done.stdout + done.stderr
    if "the Node is Ready with its earlier configuration" not in said:
        raise Unwell(f"a bad change was not rolled back:\n{said[-3000:]}")
    yield report.ROLLBACK, spent
