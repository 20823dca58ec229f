# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many machines a playbook works on at once, as flexnode_serial says it. Pure."""

from __future__ import annotations

import re
from typing import TypeAlias

Batch: TypeAlias = "int | str"  # a number of machines, or a percentage of them

SIZE = re.compile(r"\s*([0-9]{1,9})\s*(%?)\s*")
NO_BATCHES = (
    "is not a number of machines (at least 1), a percentage of them (1% to 100%), or a list of these "
    "for one batch after the other"
)
FIX = "use for example -e {name}=2, -e {name}=10% or -e {name}=1,10%,50%"


def batches_of(value: object) -> list[Batch]:
    """The sizes of the batches, as `serial` of a play takes them; none, if the value can't be used.

    Ansible takes 0 and less as all machines at once, and ends with a traceback at a text that is no number.
    """
    if isinstance(value, str):
        parts: list[object] = [part.strip(" \"'") for part in _without_brackets(value.strip()).split(",")]
    else:
        parts = list(value) if isinstance(value, (list, tuple)) else [value]
    found = [_batch(part) for part in parts]
    return [size for size in found if size] if all(found) else []


def _without_brackets(text: str) -> str:
    """-e makes a text of a list."""
    return text[1:-1] if text.startswith("[") and text.endswith("]") else text


def _batch(value: object) -> Batch | None:
    """One batch; None: its size can't be used."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    if not (read := SIZE.fullmatch(str(value))):
        return None
    number, percent = int(read[1]), read[2]
    if number < 1 or (percent and number > 100):
        return None
    return f"{number}%" if percent else number
