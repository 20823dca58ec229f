# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaving did, and what it could not remove."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dataclass import dataclass, field
from ...engine.restore_host import Restored

Act = Callable[[str, Callable[[], None]], None]  # does one step and reports it


@dataclass()
class Left:
    """What was done, and what could not be removed."""

    actions: list[str] = field(default_factory=list)
    remains: list[str] = field(default_factory=list)
    items: list[Restored] = field(default_factory=list)
    node: str = ""  # name of the Node that this machine was
    node_remains: str = ""  # why it could not be deleted
    machine: dict[str, Any] = field(default_factory=dict)  # what tells that Node from others of its name
    pool: str = ""  # its FlexNodes pool, which has a machine of this name

    @property
    def complaints(self) -> list[str]:
        """What could not be removed, one line each."""
        node = f"left: Node {self.node} ({self.node_remains}); delete it: kubectl delete node {self.node}"
        return ([node] if self.node_remains else []) + [f"left: {line}" for line in self.remains]

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.actions)
