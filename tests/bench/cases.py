# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured: each case starts from fresh machines, and only the act itself is timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.bench import controller, report, ticks, updates
from tests.bench.lab import CONFIG, ON_NODE, PROGRAM, Lab, Unwell
from tests.bench.watch import Measured, measure

ONE = "bench-1"
FIVE = tuple(f"bench-{number}" for number in range(1, 6))
INSTALLED = "aks-flex-node"
JOIN = ("python3", PROGRAM, "join", "--config", CONFIG)


@dataclass(frozen=True)
class Sample:
    """One measurement."""

    case: str
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)
    modules: int = 0


def _sample(case: str, measured: Measured[Any], modules: int = 0) -> Sample:
    parts = {"whole run": round(measured.act_seconds, 3)}
    return Sample(case, measured.seconds, parts, modules)


def floor(lab: Lab) -> Iterator[Sample]:
    """The bare minimum."""
    (machine,) = lab.fresh([ONE])
    settings = [f"{name}={value}" for name, value in lab.give_floor(machine).items()]
    command = ["env", *settings, "sh", f"{ON_NODE}/floor.sh", ON_NODE]
    at_machine = lab.at(machine)
    yield _sample(report.FLOOR, measure(lab.api, [ONE], lambda: at_machine(*command)))


def playbook(lab: Lab) -> Iterator[Sample]:
    """bootstrap on a prepared host, and again."""
    machines = lab.fresh([ONE])
    inventory = lab.inventory(machines)
    lab.play("prepare", inventory)
    first = measure(lab.api, [ONE], lambda: lab.play("bootstrap", inventory))
    yield _sample(report.JOIN, first, len(first.result.modules(ONE)))
    yield Sample(report.JOIN_RUN, first.act_seconds)
    again = measure(lab.api, [ONE], lambda: lab.play("bootstrap", inventory))
    if again.result.changed(ONE):
        raise Unwell(f"the second run changed something:\n{again.result.output[-3000:]}")
    yield Sample(report.SECOND, again.act_seconds)


def edge_cached(lab: Lab) -> Iterator[Sample]:
    """The command where its programs are at hand, verified, as `prepare` leaves them; and again."""
    machines = lab.fresh([ONE])
    lab.play("prepare", lab.inventory(machines))
    lab.give_program(machines[0])
    at_machine = lab.at(machines[0])
    first = measure(lab.api, [ONE], lambda: at_machine(*JOIN))
    yield _sample(report.EDGE, first)
    yield Sample(report.EDGE_RUN, first.act_seconds)
    start = time.monotonic()
    again = at_machine(INSTALLED, *JOIN[2:])
    yield Sample(report.EDGE_SECOND, time.monotonic() - start)
    if "unchanged" not in again.stdout:
        raise Unwell(f"the second join changed something:\n{again.stdout}")


def edge_packed(lab: Lab) -> Iterator[Sample]:
    """The command with its files as they were downloaded: it verifies and unpacks them first."""
    (machine,) = lab.fresh([ONE])
    lab.give_program(machine)
    lab.fill_cache(machine)
    at_machine = lab.at(machine)
    joined = measure(lab.api, [ONE], lambda: at_machine(*JOIN))
    yield _sample(report.EDGE_PACKED, joined)


def edge_download(lab: Lab) -> Iterator[Sample]:
    """The command with nothing there: all files come from the mirror."""
    (machine,) = lab.fresh([ONE])
    lab.give_program(machine)
    at_machine = lab.at(machine)
    joined = measure(lab.api, [ONE], lambda: at_machine(*JOIN))
    yield _sample(report.EDGE_DOWNLOAD, joined)


def five_hosts(lab: Lab) -> Iterator[Sample]:
    """bootstrap on five prepared hosts in one run."""
    inventory = lab.inventory(lab.fresh(FIVE))
    lab.play("prepare", inventory)
    joined = measure(lab.api, FIVE, lambda: lab.play("bootstrap", inventory))
    yield _sample(report.FIVE, joined)
    lab.fresh(FIVE)  # five kubelets less before the next case


def controller_200_hosts(lab: Lab) -> Iterator[Sample]:
    """What the controller computes for 200 hosts before it contacts any of them."""
    yield Sample(report.CONTROLLER, controller.seconds(lab.directory))


def patch_upgrade(lab: Lab) -> Iterator[Sample]:
    """A patch upgrade of the kubelet."""
    yield from (Sample(*found) for found in updates.upgrade(lab))


def rolled_back(lab: Lab) -> Iterator[Sample]:
    """A change that is rolled back."""
    yield from (Sample(*found) for found in updates.rollback(lab))


def follows(lab: Lab) -> Iterator[Sample]:
    """A node that follows a URL: what its ticks cost, and how soon it acts."""
    yield from (Sample(*found) for found in ticks.costs(lab))


ALL: tuple[Callable[[Lab], Iterator[Sample]], ...] = (
    floor,
    playbook,
    edge_cached,
    edge_packed,
    edge_download,
    five_hosts,
    patch_upgrade,
    rolled_back,
    follows,
    controller_200_hosts,
)
