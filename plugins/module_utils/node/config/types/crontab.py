# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The five fields of a crontab line. Cron ignores a file with a wrong line, and says so only in its log."""

from __future__ import annotations

import re

from ...errors import counted

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
DAYS_OF_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Name, lowest and highest value; as crontab(5) has them.
FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", 0, 7))
PART = re.compile(r"(?:\*|(\d+)(?:-(\d+))?)(?:/(\d+))?")


def crontab_problem(schedule: str) -> str:
    """Why cron would never run this, in words; empty: it runs."""
    fields = schedule.split()
    if len(fields) != len(FIELDS):
        return f"it has {counted(len(fields), 'field')}"
    values: dict[str, set[int]] = {}
    for number, (name, low, high) in enumerate(FIELDS):
        text = fields[number]
        values[name] = _values(_numbered(text, name), low, high)
        if not values[name]:
            return f"{text} is no {name} ({low} to {high})"
    longest = max(DAYS_OF_MONTHS[month - 1] for month in values["month"])
    # With a day of the week other than *, cron runs on either of the two.
    if fields[4].startswith("*") and min(values["day"]) > longest:
        return "no such day exists"
    return ""


def _numbered(text: str, name: str) -> str:
    """A field whose whole text is a name of a month or day, as a number."""
    names = {"month": MONTHS, "day of the week": DAYS}.get(name, ())
    lowest = 1 if name == "month" else 0
    return str(names.index(text.lower()) + lowest) if text.lower() in names else text


def _values(text: str, low: int, high: int) -> set[int]:
    """The values of a field such as 0,30 or 8-18/2; empty: cron does not understand it."""
    found: set[int] = set()
    for part in text.split(","):
        match = PART.fullmatch(part)
        if not match or (match[3] and match[1] and not match[2]):  # a step needs a range
            return set()
        first = int(match[1]) if match[1] else low
        last = int(match[2] or match[1]) if match[1] else high
        step = int(match[3] or 1)
        if not low <= first <= last <= high or step < 1:
            return set()
        found.update(range(first, last + 1, step))
    return found
