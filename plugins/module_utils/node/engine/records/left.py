# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine that left by itself could not remove: kept for the controller, which may have the rights.

Its path is fixed, independent of paths.dataDir: after a leave nothing records where that was.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...machine.host import Host
from .schema import check_schema, stamped
from .state import DATA_DIR

LEFT = f"{DATA_DIR}/left.json"


def left_behind(host: Host) -> dict[str, Any]:
    """`node`, `since` and `left` (one line each); empty: nothing is left, or it can't be read."""
    try:
        found = json.loads(host.read(LEFT) or b"{}")
    except ValueError:
        return {}
    return check_schema(found, LEFT) if isinstance(found, dict) and found else {}


def record_left(host: Host, node: str, since: str, left: Sequence[str]) -> None:
    """Keep the list; an empty one removes it."""
    if not left:
        forget_left(host)
        return
    content = stamped({"node": node, "since": since, "left": list(left)})
    host.make_directories(DATA_DIR, 0o700)
    host.write(LEFT, (json.dumps(content, indent=1, sort_keys=True) + "\n").encode(), 0o600)


def forget_left(host: Host) -> None:
    """Nothing is left, an administrator was told, or the machine is a node again."""
    if host.exists(LEFT):
        host.remove(LEFT)
        host.remove_directory(DATA_DIR)  # only if it is empty
