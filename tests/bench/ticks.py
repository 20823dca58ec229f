# SPDX-License-Identifier: GPL-3.0-or-later
"""What following costs, on a real node: ten ticks, ten drift checks, a new label, a stopped kubelet."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from testbed.machine import Machine
from testbed.playbooks import join_document
from tests.bench import report
from tests.bench.lab import ON_NODE, PROGRAM, Lab, Unwell
from tests.bench.watch import LIMIT_SECONDS

NAME = "bench-1"
TICKS = 10
CA = f"{ON_NODE}/ca.pem"
TEN = Path(__file__).with_name("ten_ticks.py")
BUNDLE = "bench.json"
POLL = "aks-flex-node-poll.service"


def following(lab: Lab) -> Machine:
    """A node that polls a URL, with its timer as installed."""
    (machine,) = lab.fresh([NAME])
    lab.give_program(machine)
    machine.copy_to(TEN, f"{ON_NODE}/ten_ticks.py")
    machine.copy_to(lab.bed.ca_file, CA)
    url = publish(lab, machine, "one", 1)
    lab.at(machine)("python3", PROGRAM, "join", "--config-url", url, "--ca-cert", CA, "--durable")
    return machine


def publish(lab: Lab, machine: Machine, site: str, version: int) -> str:
    """A document with a label at the URL."""
    document: dict[str, Any] = join_document(lab.bed)
    document["cni"]["podCIDR"] = machine.pod_cidr
    document["node"] = {**document.get("node", {}), "labels": {"site": site}}
    bundle = {"config": {**document, "continuousMonitoring": True}, "configVersion": str(version)}
    return lab.bed.publish(BUNDLE, json.dumps(bundle).encode())


def costs(lab: Lab) -> Iterator[tuple[str, float]]:
    """Ticks that find nothing, without and with the whole drift check; then something to do."""
    machine = following(lab)
    at_machine = lab.at(machine)
    try:
        for how, rows in (
            (
                "quick",
                {
                    "cpu_ms": report.TICK,
                    "bare_ms": report.BARE,
                    "rss_mb": report.TICK_RSS,
                    "bytes": report.TICK_BYTES,
                },
            ),
            ("whole", {"cpu_ms": report.DRIFT, "rss_mb": report.DRIFT_RSS}),
        ):
            said = at_machine("python3", f"{ON_NODE}/ten_ticks.py", str(TICKS), how).stdout
            ticks = [json.loads(line) for line in said.splitlines()]
            for key, row in rows.items():
                yield row, statistics.median(tick[key] for tick in ticks)
        publish(lab, machine, "two", 2)
        start = time.monotonic()
        at_machine("systemctl", "start", "--no-block", POLL)
        yield report.LABEL, until(lambda: label(lab) == "two", "the new label") - start
        until(
            lambda: state(lab, machine, "aks-flex-node-apply.service") == "inactive", "the end of the update"
        )
        start = time.monotonic()
        at_machine("systemctl", "stop", "kubelet.service")
        yield (
            report.REPAIR,
            until(lambda: state(lab, machine, "kubelet.service") == "active", "kubelet") - start,
        )
    finally:
        lab.bed.unpublish(BUNDLE)


def label(lab: Lab) -> str:
    """The label as the API server has it."""
    labels: dict[str, str] = lab.api.get(f"/api/v1/nodes/{NAME}")["metadata"]["labels"]
    return labels.get("site", "")


def state(lab: Lab, machine: Machine, unit: str) -> str:
    """Whether a unit is active."""
    shown = lab.at(machine)("systemctl", "show", "--property=ActiveState", "--value", unit).stdout
    return shown.strip()


def until(reached: Callable[[], bool], what: str) -> float:
    """When something was seen, by someone who looks ten times a second."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if reached():
            return time.monotonic()
        time.sleep(0.1)
    raise Unwell(f"{what}: not within {LIMIT_SECONDS} s")
