# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flexNodeConfig resources of one cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ....node.config.types.values import ArmId
from ..arm import Arm, Json


@dataclass(frozen=True, slots=True)
class Issued:
    """What a PUT or regenerateToken answers with; the URL is a secret."""

    config_version: str = ""
    config_url: str = ""
    expires: str = ""
    provisioning_state: str = ""

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Issued:
        """Read the answer to a PUT, or to an action, which has no envelope."""
        found = answer["properties"] if isinstance(answer.get("properties"), Mapping) else answer
        return cls(
            config_version=str(found.get("configVersion") or ""),
            config_url=str(found.get("configUrl") or ""),
            expires=str(found.get("configUrlExpires") or ""),
            provisioning_state=str(found.get("provisioningState") or ""),
        )


class FlexNodes:
    """The five calls of the API, for the nodes of one cluster."""

    def __init__(self, arm: Arm, cluster: ArmId) -> None:
        self._arm, self._base = arm, f"{cluster}/flexNodeConfig"

    def list(self) -> Iterator[Json]:
        """Every node with its status."""
        return self._arm.pages(self._base)

    def get(self, name: str) -> Json | None:
        """One node with its configuration, None where there is none."""
        return self._arm.get(self._path(name))

    def put(self, name: str, properties: Mapping[str, Any], *, need_url: bool) -> Issued:
        """Create or replace; Azure issues a new token in any case."""
        query = {"configUrl": "true"} if need_url else {}
        first, last = self._arm.change("PUT", self._path(name), {"properties": properties}, query)
        issued, settled = Issued.of(first), Issued.of(last)
        if need_url and not (issued.config_url or settled.config_url):
            # A long operation ends with the resource, which never contains the URL.
            return self.regenerate(name)
        return Issued(
            settled.config_version or issued.config_version,
            settled.config_url or issued.config_url,
            settled.expires or issued.expires,
            settled.provisioning_state or issued.provisioning_state,
        )

    def regenerate(self, name: str) -> Issued:
        """Issue a new token and URL; the old ones become invalid."""
        _first, last = self._arm.change("POST", f"{self._path(name)}/regenerateToken", {})
        return Issued.of(last)

    def delete(self, name: str) -> Json:
        """Revoke URL and token, stop monitoring; the machine notices at its next poll."""
        _first, last = self._arm.change("DELETE", self._path(name))
        return last

    def _path(self, name: str) -> str:
        return f"{self._base}/{quote(name, safe='')}"
