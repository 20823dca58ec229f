# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a fleet: one row per machine, also for machines that did not answer."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ...node.status.reasons import fix_with_log
from ...node.status.vpn import NO_VPN

Row = dict[str, Any]
UNREACHABLE, NO_ANSWER = "Unreachable", "NoAnswer"
NOTHING = "-"
EXPIRES_SOON = 0.1  # of its lifetime: a kubelet renews its certificate long before
# Columns of the table in the terminal; the report has more.
COLUMNS = (
    ("HOST", "host"),
    ("NODE", "node"),
    ("CLUSTER", "cluster"),
    ("STATUS", "status"),
    ("KUBELET", "kubelet"),
    ("RUNTIME", "runtime"),
    ("CONFIG VERSION", "config"),
    ("CONFIG POLLING", "follows"),
    ("VPN", "vpn"),
    ("DRIFT", "drift"),
    ("REASON", "problem"),
    ("MESSAGE", "message"),
)

IF_ANY = ("config", "vpn")  # columns that a fleet without such machines does not have


def columns_of(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The columns of the table for these machines."""
    return [
        column
        for column in COLUMNS
        if column[1] not in IF_ANY or any(row[column[1]] != NOTHING for row in rows)
    ]


def row_of(host: str, answer: Mapping[str, Any], now: float) -> Row:
    """The row of one machine. `answer` is what flexnode_status_info returned, or why it did not."""
    if answer.get("unreachable"):
        return _silent(host, UNREACHABLE, answer.get("msg"))
    if "status" not in answer:
        code = (answer.get("error") or {}).get("code") or NO_ANSWER
        return _silent(host, str(code), answer.get("msg") or "the machine was not asked")
    status, words = answer["status"], answer["words"]
    node, config = status["node"], status["config"]
    certificate = node.get("certificate") or {}
    return {
        "host": host,
        "node": node.get("name") or NOTHING,
        "cluster": node.get("cluster") or NOTHING,  # a machine may run an older release
        "state": "right" if words["right"] == "yes" else "wrong",
        "status": words["status"],
        "phase": status["phase"],
        "reason": status["reason"],
        "problem": _problem(status, words),
        "message": status["message"],
        "fix": fix_with_log(status),
        "kubelet": node.get("kubeletVersion") or status["versions"].get("kubernetes") or NOTHING,
        "runtime": node.get("containerRuntime") or NOTHING,
        "config": words["config"],
        "config_version": config["version"],
        "applied_version": config["appliedVersion"],
        "follows": words["follows"],
        "pull": words.get("pull", NOTHING),  # a machine may run an older release
        "ring": (status.get("rollout") or {}).get("ring") or NOTHING,
        "rollout": (status.get("rollout") or {}).get("state") or NOTHING,
        "drift": words["drift"],
        "drift_items": [f"{item['what']} ({item['state']})" for item in status["drift"]],
        "certificate_expires": certificate.get("expires"),
        "certificate_days": _days(certificate.get("expires"), now),
        "certificate_soon": _soon(certificate, now),
        "arc": status["arc"]["status"],
        "vpn": _vpn(status.get("vpn") or {}),  # a machine may run an older release
        "time": status["timestamp"],
    }


def _silent(host: str, reason: str, why: Any) -> Row:
    """A machine that did not answer: nothing is known, and that is the row."""
    unknown = (
        "node",
        "cluster",
        "phase",
        "kubelet",
        "runtime",
        "config",
        "follows",
        "pull",
        "ring",
        "rollout",
        "drift",
        "arc",
        "vpn",
    )
    return {
        **dict.fromkeys(unknown, NOTHING),
        "host": host,
        "state": "unreachable" if reason == UNREACHABLE else "wrong",
        "status": "not reachable" if reason == UNREACHABLE else "no answer",
        "reason": reason,
        "problem": reason,
        "fix": "",
        "message": " ".join(str(why or "").split()),
        "config_version": None,
        "applied_version": None,
        "drift_items": [],
        "certificate_expires": None,
        "certificate_days": None,
        "certificate_soon": False,
        "time": None,
    }


def summary_of(rows: list[Row]) -> dict[str, int]:
    """How many machines are right, wrong and unreachable."""
    return {state: sum(row["state"] == state for row in rows) for state in ("right", "wrong", "unreachable")}


def _problem(status: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The reason for the table: none where nothing is wrong, or where the status is the same word."""
    nothing = words["right"] == "yes" and not status["message"]
    return NOTHING if nothing or status["reason"] == words["status"] else str(status["reason"])


def _vpn(vpn: Mapping[str, Any]) -> str:
    found = str(vpn.get("status") or NO_VPN)
    return NOTHING if found == NO_VPN else found


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _days(expires: str | None, now: float) -> int | None:
    """Whole days until a certificate expires; negative: it has expired."""
    return math.floor((_seconds(expires) - now) / 86400) if expires else None


def _soon(certificate: Mapping[str, str], now: float) -> bool:
    """Whether a certificate is in the last part of its lifetime, or past it."""
    if not certificate:
        return False
    issued, expires = _seconds(certificate["issued"]), _seconds(certificate["expires"])
    return expires - now < (expires - issued) * EXPIRES_SOON
