# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rows of the fleet's table."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.fleet_status import (
    columns_of,
    row_of,
    summary_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.table import table
from tests.unit.controller.fleets import NOT_ROOT, UNREACHABLE, an_answer, drifted

NOW = datetime(2026, 11, 15, 8, tzinfo=timezone.utc).timestamp()


def test_a_node_that_is_right() -> None:
    row = row_of("host-1", an_answer("edge-1"), NOW)
    assert (row["state"], row["reason"], row["certificate_days"]) == ("right", "NodeJoined", 350)
    assert table([row], columns_of([row]))[1].split() == (
        [
            "host-1",
            "edge-1",
            "plant",
            "Ready",
            "1.34.4",
            "containerd",
            "2.3.4",
            "1708123456",
            "(applied)",
            "Ok",
            "none",
            "-",
            "-",
        ]
    )


def test_a_node_that_is_not_right() -> None:
    items = drifted("bootstrap would update /etc/default/kubelet")
    row = row_of("host-1", an_answer("edge-1", "Drift", items[0]["what"], drift=items), NOW)
    assert (row["state"], row["drift"]) == ("wrong", "1 item")
    assert row["drift_items"] == ["bootstrap would update /etc/default/kubelet (found)"]


def test_a_machine_that_does_not_answer_has_a_row() -> None:
    row = row_of("host-1", UNREACHABLE, NOW)
    assert (row["state"], row["status"], row["reason"]) == ("unreachable", "not reachable", "Unreachable")
    assert row["message"] == "Failed to connect to the host via ssh: timed out"
    rows = [row, row_of("host-2", an_answer("edge-2"), NOW)]
    assert len(table(rows, columns_of(rows))) == 3


def test_tunnels_have_a_column_where_a_machine_has_one() -> None:
    down = an_answer("far", "FLEX-1534", "the VPN tunnel is down", vpn={"status": "Connecting"})
    rows = [row_of("host-1", an_answer("edge-1"), NOW), row_of("host-2", down, NOW)]
    assert ("VPN", "vpn") not in columns_of(rows[:1])
    assert ("VPN", "vpn") in columns_of(rows)
    assert [row["vpn"] for row in rows] == ["-", "Connecting"]


def test_a_machine_that_answers_with_an_error_has_its_code() -> None:
    assert row_of("a", NOT_ROOT, NOW)["reason"] == "FLEX-1306"
    row = row_of("a", {"msg": "/usr/bin/python3: not found", "rc": 127}, NOW)
    assert (row["reason"], row["state"], row["message"]) == (
        "NoAnswer",
        "wrong",
        "/usr/bin/python3: not found",
    )
    assert row_of("a", {}, NOW)["message"] == "the machine was not asked"


@pytest.mark.parametrize(
    ("expires", "days", "soon"),
    [("2027-11-01", 350, False), ("2026-12-01", 15, True), ("2026-11-14", -2, True)],
)
def test_a_certificate_near_its_end_is_marked(expires: str, days: int, soon: bool) -> None:
    answer = an_answer("edge-1")
    answer["status"]["node"]["certificate"] |= {
        "issued": "2025-11-01T00:00:00+00:00",
        "expires": f"{expires}T00:00:00+00:00",
    }
    row = row_of("a", answer, NOW)
    assert (row["certificate_days"], row["certificate_soon"]) == (days, soon)


def test_a_fleet_is_counted() -> None:
    answers = [an_answer("a"), an_answer("b", "FLEX-1501"), UNREACHABLE, UNREACHABLE]
    rows = [row_of(str(number), answer, NOW) for number, answer in enumerate(answers)]
    assert summary_of(rows) == {"right": 1, "wrong": 1, "unreachable": 2}
