# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Answers of the real Azure, as small facts: what the emulation must answer, and the product must understand.

They are from test recordings of public projects, each with its source; names of groups and resources are
replaced, and what no decision depends on is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

SUBSCRIPTION = "12345678-1234-1234-1234-123456789abc"
GROUP = "/subscriptions/{subscription}/resourceGroups/{group}"
CLUSTER = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/{{cluster}}"
POOL = f"{CLUSTER}/agentPools/{{pool}}"
MACHINE = f"{POOL}/machines/{{machine}}"
# What the places of these answers are in tests that do not name others.
PLACES = {
    "subscription": SUBSCRIPTION,
    "group": "rg",
    "cluster": "plant",
    "pool": "edge",
    "machine": "edge-1",
    "vnet": "plant",
    "gateway": "flexnode-vpn",
    "assignment": "8fecb6c1-2f69-5c5b-8e58-a3b50b1ea54b",
}


@dataclass(frozen=True)
class Recorded:
    """One answer. `path` and the texts of `body` have places such as {pool}."""

    method: str
    path: str
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    source: str = ""  # repository and test
    belief: bool = False  # no recording: put together from others

    def at(self, **places: str) -> Recorded:
        """The same answer for these resources."""
        known = {**PLACES, **places}

        def put(content: Any) -> Any:
            if isinstance(content, str):
                for name, value in known.items():
                    content = content.replace(f"{{{name}}}", value)
                return content
            if isinstance(content, list):
                return [put(one) for one in content]
            if isinstance(content, dict):
                return {key: put(value) for key, value in content.items()}
            return content

        return Recorded(
            self.method, put(self.path), self.status, put(self.body), self.headers, self.source, self.belief
        )

    @property
    def content(self) -> bytes:
        """The body as it is sent."""
        return b"" if self.body is None else json.dumps(self.body).encode()

    def sent(self, make: Callable[[bytes, int, dict[str, str]], Any]) -> Any:
        """As an answer of a test's server."""
        return make(self.content, self.status, {"Content-Type": "application/json", **self.headers})
