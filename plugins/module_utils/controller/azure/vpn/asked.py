# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a gateway, what was done, and the requests that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .certificates import Pair
from .clients import Issue
from .plan import Wanted
from .record import REPLACED
from .resources import ResourceId

Json = dict[str, Any]


class Network(Protocol):
    """The requests to Microsoft.Network."""

    def get(self, resource: ResourceId) -> Json | None: ...

    def put(
        self, resource: ResourceId, body: Mapping[str, Any], etag: str = "", *, new: bool = False
    ) -> Json: ...

    def delete(self, resource: ResourceId) -> None: ...

    def put_subnet(self, vnet: ResourceId, prefix: str) -> Json: ...

    def delete_subnet(self, vnet: ResourceId, name: str) -> None: ...

    def profile_url(self, gateway: ResourceId) -> str: ...


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for."""

    wanted: Wanted
    subnet_cidr: str = ""
    machines: Sequence[str] = ()
    renew: Sequence[str] = ()
    confirmed: Sequence[str] = ()
    gone: Sequence[str] = ()  # each must be in the record
    left: Sequence[str] = ()  # the same for names that may never have had a certificate
    days: int = 365
    new_root: bool = False
    refresh_profile: bool = False
    given_root: Pair | None = field(default=None, repr=False)

    @property
    def only_certificates(self) -> bool:
        """Whether nothing is made: certificates of machines that joined or left are revoked."""
        return bool(self.confirmed or self.leaving) and not self.machines

    @property
    def leaving(self) -> list[str]:
        """The machines whose certificates are all revoked."""
        return [*self.gone, *self.left]


@dataclass(slots=True)
class Done:
    """What was done, or would be. `profiles` are secrets, by node."""

    gateway: Json = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)
    profiles: dict[str, str] = field(default_factory=dict, repr=False)
    clients: list[Json] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    diff: Json = field(default_factory=dict)

    def machines(self) -> list[Json]:
        """What each machine gets, as the module returns it."""
        replaced = {one["node"] for one in self.clients if one["state"] == REPLACED}
        return [
            {
                "name": issue.client.node,
                "action": issue.action,
                "profile": self.profiles.get(issue.client.node, ""),
                "thumbprint": issue.client.thumbprint,
                "expires": issue.client.expires,
                "replaced": issue.client.node in replaced,
            }
            for issue in self.issues
        ]
