# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lines of a crontab: what cron would ignore is refused with the document."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.types.crontab import crontab_problem
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid
from tests.unit.node.config.test_samples import joining


@pytest.mark.parametrize(
    "schedule",
    [
        "5 * * * *",
        "*/15 8-18/2 1,15 * mon",
        "0 0 29 2 *",
        "0 0 31 feb 0-7",  # and on each day of the week
        "59 23 31 Dec 7",
    ],
)
def test_what_cron_runs_is_taken(schedule: str) -> None:
    assert crontab_problem(schedule) == ""


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("61 * * * *", "61 is no minute (0 to 59)"),
        ("* 24 * * *", "24 is no hour (0 to 23)"),
        ("* * 0 * *", "0 is no day (1 to 31)"),
        ("* * * 13 *", "13 is no month (1 to 12)"),
        ("* * * * 8", "8 is no day of the week (0 to 7)"),
        ("* * * * mon-fri", "mon-fri is no day of the week (0 to 7)"),
        ("5/15 * * * *", "5/15 is no minute (0 to 59)"),
        ("*/0 * * * *", "*/0 is no minute (0 to 59)"),
        ("30-10 * * * *", "30-10 is no minute (0 to 59)"),
        ("1,,2 * * * *", "1,,2 is no minute (0 to 59)"),
        ("0 0 30 2 *", "no such day exists"),
        ("hourly", "it has 1 field"),
        ("5 * * * * root", "it has 6 fields"),
    ],
)
def test_what_cron_never_runs_is_refused(schedule: str, why: str) -> None:
    assert crontab_problem(schedule) == why
    pull = {"repository": "https://git.example/team.git", "scheduler": "cron", "schedule": schedule}
    with pytest.raises(ConfigInvalid, match=r"pull\.schedule"):
        parse(joining({"pull": pull}), pollable=True)
