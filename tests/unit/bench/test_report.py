# SPDX-License-Identifier: GPL-3.0-or-later
"""Medians, ratios and verdicts of the benches."""

from __future__ import annotations

import pytest

from tests.bench import report
from tests.bench.watch import ready_names

SAMPLES = {
    report.FLOOR: [2.0, 1.0, 9.0],
    report.JOIN: [5.0, 6.0, 7.0],
    report.JOIN_RUN: [9.0, 10.0, 11.0],
    report.SECOND: [4.0, 3.0, 5.0],
    report.EDGE: [3.0, 3.0, 3.0],
    report.EDGE_RUN: [7.0, 7.0, 7.0],
    report.EDGE_SECOND: [0.4, 0.3, 0.5],
    report.EDGE_PACKED: [2.0, 2.0, 2.0],
    report.EDGE_DOWNLOAD: [4.0, 4.4, 4.8],
    report.FIVE: [10.0, 12.0, 14.0],
    report.GAP: [0.5, 0.4, 0.9],
    report.UPGRADE: [2.0, 3.0, 4.0],
    report.ROLLBACK: [14.0, 15.0, 29.0],
    report.CONTROLLER: [4.0, 3.0, 8.0],
    report.TICK: [80.0, 82.0, 90.0],
    report.TICK_RSS: [21.0, 21.0, 21.0],
    report.TICK_BYTES: [4000.0, 4100.0, 4100.0],
    report.DRIFT: [190.0, 200.0, 250.0],
    report.DRIFT_RSS: [24.0, 24.0, 24.0],
    report.BARE: [10.0, 10.0, 11.0],
    report.LABEL: [1.5, 1.6, 3.0],
    report.REPAIR: [25.0, 20.0, 39.0],
}
KEYS = {
    "floor_s",
    "join_s",
    "join_ratio",
    "edge_join_s",
    "edge_join_ratio",
    "edge_download_ratio",
    "edge_second_s",
    "second_run_s",
    "modules_per_join",
    "five_hosts_s",
    "join_run_s",
    "edge_run_s",
    "kubelet_gap_s",
    "upgrade_s",
    "rollback_s",
    "controller_200_hosts_s",
    "tick_cpu_ms",
    "tick_rss_mb",
    "tick_bytes",
    "tick_python_ratio",
    "drift_cpu_ms",
    "drift_python_ratio",
    "drift_rss_mb",
    "label_latency_s",
    "repair_s",
}


def test_figures_are_medians_and_ratios_of_medians() -> None:
    found = report.figures(SAMPLES, modules_per_join=4)
    assert set(found) == KEYS
    assert found["floor_s"] == 2.0
    assert found["join_s"] == 6.0
    assert found["join_ratio"] == 3.0
    assert found["edge_join_ratio"] == 1.5
    assert found["edge_download_ratio"] == 2.2
    assert found["modules_per_join"] == 4
    assert found["controller_200_hosts_s"] == 4.0
    assert (found["tick_python_ratio"], found["drift_python_ratio"]) == (8.2, 20.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("join_ratio", 4.01), ("edge_join_ratio", 2.01), ("edge_download_ratio", 3.01), ("rollback_s", 30.1)],
)
def test_a_limit_that_is_missed_is_named(name: str, value: float) -> None:
    good = report.figures(SAMPLES, modules_per_join=4)
    assert report.missed(good) == []
    (line,) = report.missed({**good, name: value})
    assert line.startswith(f"{name} is {value:g}")
    assert "MISSED" in report.aims_table({**good, name: value})


def test_a_goal_that_is_not_reached_is_no_failure() -> None:
    slow = {**report.figures(SAMPLES, modules_per_join=4), "join_ratio": 3.5, "second_run_s": 60.0}
    assert report.missed(slow) == []
    assert report.aims_table(slow).count("above the goal") == 2


def test_table_has_a_line_a_case() -> None:
    lines = report.times_table(SAMPLES).splitlines()
    assert len(lines) == 1 + len(SAMPLES)
    assert "1.00" in lines[1]
    assert all(case in report.ABOUT for case in SAMPLES)


def test_only_ready_nodes_count() -> None:
    def node(name: str, *conditions: tuple[str, str]) -> dict[str, object]:
        listed = [{"type": kind, "status": status} for kind, status in conditions]
        return {"metadata": {"name": name}, "status": {"conditions": listed} if listed else {}}

    nodes = {
        "items": [
            node("ready", ("DiskPressure", "False"), ("Ready", "True")),
            node("waiting", ("Ready", "False")),
            node("lost", ("Ready", "Unknown")),
            node("new"),
        ]
    }
    assert ready_names(nodes) == {"ready"}
