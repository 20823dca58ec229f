# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status for people, as the playbook and the command show it; programs read the document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import counted
from .pull import NO_PULL, in_short
from .reasons import Verdict, verdict_of

NOTHING, NO_DRIFT = "-", "none"


def is_right(status: Mapping[str, Any]) -> bool:
    """Whether nobody has to do anything: the exit status of the command and of the playbook."""
    return verdict_of(status) is Verdict.RIGHT


def in_words(status: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a table."""
    node, drift, config = status["node"], status["drift"], status["config"]
    applied = "applied" if config["appliedVersion"] else "not applied"
    # Beside a configuration that was refused: nothing differs from the one that the machine runs.
    no_drift = NO_DRIFT
    if refused := config.get("refused"):
        runs = "which the rollback restored" if refused["rolledBack"] else "which this machine runs"
        no_drift = f"none (compared with the earlier configuration, {runs})"
    return {
        "status": "NotJoined" if node["status"] == "NotConfigured" else node["status"],
        # A machine that is no node has nothing that could differ.
        "drift": NOTHING if not node["joined"] else counted(len(drift), "item") if drift else no_drift,
        "config": f"{config['version']} ({applied})" if config["version"] else NOTHING,
        "follows": followed(status["monitoring"]),
        "pull": in_short(status.get("pull", NO_PULL)),
        "reason": status["reason"],
        "right": "yes" if is_right(status) else "no",
    }


def reason_in_words(status: Mapping[str, Any]) -> str:
    """What is wrong, and why; nothing, where nothing is. Programs read the reason of a good node too."""
    if is_right(status) and not status["message"]:
        return NOTHING
    return f"{status['reason']}  {status['message']}".rstrip()


def followed(monitoring: Mapping[str, Any]) -> str:
    """Whether the configuration is polled, and whether that works."""
    return "off" if monitoring["status"] == "NotConfigured" else str(monitoring["status"])
