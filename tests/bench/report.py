# SPDX-License-Identifier: GPL-3.0-or-later
"""From samples to medians, ratios, a table and a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Samples = Mapping[str, Sequence[float]]  # case -> seconds, one a round

FLOOR = "floor"
JOIN = "join"
JOIN_RUN = "join, whole run"
SECOND = "second run"
EDGE = "edge, cached"
EDGE_RUN = "edge, whole run"
EDGE_SECOND = "edge, second run"
EDGE_PACKED = "edge, archives"
EDGE_DOWNLOAD = "edge, downloads"
FIVE = "five hosts"
GAP = "kubelet gap"
UPGRADE = "upgrade"
ROLLBACK = "rollback"
CONTROLLER = "200 hosts"
LABEL = "new label"
REPAIR = "stopped kubelet"
# Not seconds: each is the median of ten ticks.
TICK, TICK_RSS, TICK_BYTES = "tick, CPU ms", "tick, MB", "tick, bytes"
DRIFT, DRIFT_RSS = "drift check, CPU ms", "drift check, MB"
BARE = "Python, CPU ms"
OTHER_UNITS = (TICK, TICK_RSS, TICK_BYTES, DRIFT, DRIFT_RSS, BARE)

ABOUT = {
    FLOOR: "a shell script copies binaries and files and starts two units",
    JOIN: "ansible-playbook bootstrap on a prepared host, until Node Ready",
    JOIN_RUN: "the same until it ends: it watches the new kubelet for five seconds",
    SECOND: "ansible-playbook bootstrap again",
    EDGE: "aks-flex-node join on a prepared host, until Node Ready",
    EDGE_RUN: "the same until it ends",
    EDGE_SECOND: "aks-flex-node join again",
    EDGE_PACKED: "aks-flex-node join, archives at hand but not unpacked",
    EDGE_DOWNLOAD: "aks-flex-node join, files from the mirror",
    FIVE: "ansible-playbook bootstrap on five prepared hosts at once",
    GAP: "patch upgrade: between the old kubelet's end and the new one's start",
    UPGRADE: "patch upgrade: from the new kubelet's start to Ready with the new version",
    ROLLBACK: "aks-flex-node update that makes the kubelet exit, until the old configuration works again",
    LABEL: "a label changed at the polled URL: from the poll to the Node",
    REPAIR: "kubelet stopped by hand, until it runs again; the timer as installed",
    TICK: "a poll that finds nothing, without the whole drift check",
    TICK_RSS: "the same: memory at its peak",
    TICK_BYTES: "the same: bytes of TCP, both ways, with TLS",
    DRIFT: "a poll that finds nothing, with the whole drift check",
    DRIFT_RSS: "the same: memory at its peak",
    BARE: "a Python that starts and does nothing: how fast this machine is now",
    CONTROLLER: "the controller's part of bootstrap for 200 hosts, no machine",
}


@dataclass(frozen=True)
class Aim:
    """What a figure should be, and what it must be by now."""

    goal: float
    must: float | None = None


AIMS = {
    "join_ratio": Aim(3, must=3.5),
    "edge_join_ratio": Aim(1.5, must=1.5),
    "edge_download_ratio": Aim(2.2, must=3),
    "edge_second_s": Aim(0.5),
    "second_run_s": Aim(5),
    "kubelet_gap_s": Aim(1, must=2),
    "upgrade_s": Aim(5, must=10),
    "rollback_s": Aim(30, must=30),
    "modules_per_join": Aim(8),
    "controller_200_hosts_s": Aim(5),
    "tick_cpu_ms": Aim(100, must=200),
    "tick_rss_mb": Aim(25, must=25),
    "drift_cpu_ms": Aim(300, must=600),
    "drift_rss_mb": Aim(25, must=25),
    "label_latency_s": Aim(5, must=10),
    "repair_s": Aim(40, must=60),
}


def figures(samples: Samples, modules_per_join: int) -> dict[str, float]:
    """The figures by their names in bench.json."""
    median = {case: statistics.median(seconds) for case, seconds in samples.items()}
    floor = median[FLOOR]
    return {
        "floor_s": round(floor, 3),
        "join_s": round(median[JOIN], 3),
        "join_ratio": round(median[JOIN] / floor, 2),
        "edge_join_s": round(median[EDGE], 3),
        "edge_join_ratio": round(median[EDGE] / floor, 2),
        "edge_download_ratio": round(median[EDGE_DOWNLOAD] / floor, 2),
        "edge_second_s": round(median[EDGE_SECOND], 3),
        "second_run_s": round(median[SECOND], 3),
        "modules_per_join": modules_per_join,
        "five_hosts_s": round(median[FIVE], 3),
        "join_run_s": round(median[JOIN_RUN], 3),
        "edge_run_s": round(median[EDGE_RUN], 3),
        "kubelet_gap_s": round(median[GAP], 3),
        "upgrade_s": round(median[UPGRADE], 3),
        "rollback_s": round(median[ROLLBACK], 3),
        "controller_200_hosts_s": round(median[CONTROLLER], 3),
        "tick_cpu_ms": round(median[TICK], 1),
        "tick_rss_mb": round(median[TICK_RSS], 1),
        "tick_bytes": round(median[TICK_BYTES]),
        "tick_python_ratio": round(median[TICK] / median[BARE], 1),
        "drift_cpu_ms": round(median[DRIFT], 1),
        "drift_python_ratio": round(median[DRIFT] / median[BARE], 1),
        "drift_rss_mb": round(median[DRIFT_RSS], 1),
        "label_latency_s": round(median[LABEL], 3),
        "repair_s": round(median[REPAIR], 3),
    }


def missed(found: Mapping[str, float]) -> list[str]:
    """Figures beyond what they must be."""
    return [
        f"{name} is {found[name]:g}, must be at most {aim.must:g}"
        for name, aim in AIMS.items()
        if aim.must is not None and found[name] > aim.must
    ]


def times_table(samples: Samples) -> str:
    """Median, fastest, slowest and ratio to the floor of every case."""
    floor = statistics.median(samples[FLOOR])
    rows = [f"{'case':18} {'median':>8} {'min':>8} {'max':>8} {'x floor':>8}"]
    for case, seconds in samples.items():
        middle = statistics.median(seconds)
        if case in OTHER_UNITS:
            numbers = (f"{value:8.0f}" for value in (middle, min(seconds), max(seconds)))
            rows.append(f"{case:18} {' '.join(numbers)} {'':8}  {ABOUT[case]}")
            continue
        rows.append(
            f"{case:18} {middle:7.2f}s {min(seconds):7.2f}s {max(seconds):7.2f}s {middle / floor:8.2f}"
            f"  {ABOUT[case]}"
        )
    return "\n".join(rows)


def aims_table(found: Mapping[str, float]) -> str:
    """Every figure that has a goal, beside it."""
    rows = [f"{'figure':22} {'found':>7} {'goal':>6} {'must':>6}"]
    for name, aim in AIMS.items():
        must = "" if aim.must is None else f"{aim.must:g}"
        verdict = "ok" if found[name] <= aim.goal else "above the goal"
        if aim.must is not None and found[name] > aim.must:
            verdict = "MISSED"
        rows.append(f"{name:22} {found[name]:7.2f} {aim.goal:6g} {must:>6}  {verdict}")
    return "\n".join(rows)
