# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module on the controller tells while it waits."""

from __future__ import annotations

from collections.abc import Callable

Tell = Callable[[str], None]


def silent(_line: str) -> None:
    """Tell nobody."""


def teller(path: str | None) -> Tell:
    """What tells how an operation is doing: lines in a file that the action shows as they come."""

    def tell(line: str) -> None:
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(f"{line}\n")

    return tell
