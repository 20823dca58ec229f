# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask Azure, as the machine itself: is there a token, and what may it do?"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ..arc.roles import Grants
from ..clock import Clock
from ..config.model import NodeConfig
from ..errors import FlexNodeError
from ..host import Host
from ..http_client import HttpClient
from ..identity.choice import PURPOSES, Purpose, audience_for, method_for, source_of
from ..identity.token import AccessToken, Identity, Source, claims
from .seen import Access

Identify = Callable[[NodeConfig, Host, str], Identity]  # for a method such as arc


@dataclass(slots=True)
class Fresh:
    """An identity whose tokens are asked for now, and kept nowhere: one from a cache would prove nothing."""

    source: Source
    clock: Clock
    tokens: dict[str, AccessToken] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Who, for people."""
        return self.source.name

    def token(self, audience: str) -> AccessToken:
        """A token, asked for once."""
        if audience not in self.tokens:
            issued = self.source.issue(audience, hurry=True)
            end = self.clock.now() + issued.seconds
            self.tokens[audience] = AccessToken(issued.value, end, end)
        return self.tokens[audience]


def own_identity(config: NodeConfig, host: Host, method: str) -> Identity:
    """The machine's own."""
    return Fresh(source_of(method, config, host, os.environ), host.clock)


def ask_azure(
    config: NodeConfig, host: Host, identify: Identify, client: HttpClient
) -> dict[Purpose, Access]:
    """Get the tokens that the node will live on, and read what each identity is good for."""
    served: dict[str, list[Purpose]] = {}
    for purpose in PURPOSES:
        if method := method_for(config, purpose):
            served.setdefault(method, []).append(purpose)
    found: dict[Purpose, Access] = {}
    for method, purposes in served.items():
        found.update(dict.fromkeys(purposes, _access(config, host, identify, client, method, purposes)))
    return found


def _access(
    config: NodeConfig,
    host: Host,
    identify: Identify,
    client: HttpClient,
    method: str,
    purposes: Sequence[Purpose],
) -> Access:
    principal = ""
    try:
        identity = identify(config, host, method)
        for purpose in purposes:
            token = identity.token(audience_for(config, purpose))
            principal = str(claims(token.value).get("oid") or "")
    except FlexNodeError as error:
        return Access(told(error), error.fix, method=method)
    try:
        granted = Grants(identity, config.azure.resource_manager, client).at(str(config.cluster_id))
    except FlexNodeError as error:
        return Access(principal_id=principal, why_unread=told(error), method=method)
    return Access(principal_id=principal, granted=tuple(granted), method=method)


def told(error: FlexNodeError) -> str:
    """An error in one line."""
    place = f" ({error.where})" if error.where else ""
    return f"{error.what}{place}: {error.why}"
