# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The status of a fleet as one HTML page that needs no other file and no network.

Its texts come from machines, so each is escaped; and the page's policy allows no script and no style but
its own, should a text get through.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ansible_collections.aks.flexnode.plugins.module_utils.controller.report.fleet_status import (
    Row,
    summary_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import VERSION

PARTS = Path(__file__).with_name("report")
COLUMNS = (
    ("host", "Machine"),
    ("state", "State"),
    ("reason", "Reason"),
    ("drift", "Drift"),
    ("config", "Config"),
    ("kubelet", "Kubelet"),
    ("certificate", "Certificate"),
)
# What is not right comes first; the symbol says the same as the colour.
STATES = {
    "wrong": {"order": 0, "symbol": "✕", "words": "not right"},
    "unreachable": {"order": 1, "symbol": "?", "words": "not reachable"},
    "right": {"order": 2, "symbol": "✓", "words": "Ready"},
}


def page(rows: list[Row], now: float) -> str:
    """The whole page."""
    style, script = _part("style.css"), _part("script.js")
    counts = summary_of(rows)
    wrong = len(rows) - counts["right"]
    shown = [{**row, **STATES[row["state"]]} for row in rows]
    reasons = Counter(row["reason"] for row in rows if row["state"] != "right")
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_part("page.html.j2")).render(
        title=f"{wrong} of {len(rows)} not right" if wrong else f"{len(rows)} flex nodes, all right",
        rows=sorted(shown, key=_first),
        columns=COLUMNS,
        counts=counts,
        reasons=reasons.most_common(),
        generated=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
        generated_words=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(now)),
        version=VERSION,
        style=Markup(style),  # noqa: S704 - a file of this collection
        script=Markup(script),  # noqa: S704
        style_hash=_hash(style),
        script_hash=_hash(script),
    )


def _first(row: dict[str, Any]) -> tuple[int, list[tuple[int, str]]]:
    """By state, then by name; numbers in names count as numbers: edge-9 comes before edge-10."""
    parts = re.split(r"(\d+)", row["host"])
    return row["order"], [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """The source expression of a Content Security Policy for an inline element."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
