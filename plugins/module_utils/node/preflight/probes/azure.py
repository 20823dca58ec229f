# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Probe the machine's Azure identities: their tokens and permissions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus

from ...config.model import NodeConfig
from ...dataclass import dataclass, field, replace
from ...errors import FlexNodeError
from ...identity.choice import PURPOSES, Purpose, audience_for, method_for, source_of
from ...identity.token import AccessToken, Identity, Source, claims
from ...machine.clock import Clock
from ...machine.host import Host
from ...net.http_client import HttpClient
from ...net.kube import KubeClient
from ...node_object.rights import acts_of
from ...procedures.arc.roles import Grants
from ..azure_roles import scope_of
from ..seen import Access
from .parallel import together

Identify = Callable[[NodeConfig, Host, str], Identity]  # for a method such as arc


@dataclass()
class Fresh:
    """An identity without a token cache: a cached token would prove nothing."""

    source: Source
    clock: Clock
    tokens: dict[str, AccessToken] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The identity in words."""
        return self.source.name

    def token(self, audience: str) -> AccessToken:
        """A token, requested once."""
        if audience not in self.tokens:
            issued = self.source.issue(audience, hurry=True)
            end = self.clock.now() + issued.seconds
            self.tokens[audience] = AccessToken(issued.value, end, end)
        return self.tokens[audience]


def own_identity(config: NodeConfig, host: Host, method: str) -> Identity:
    """The machine's own identities."""
    return Fresh(source_of(method, config, host, os.environ), host.clock)


@dataclass(frozen=True)
class Asked:
    """Where to query an identity's permissions."""

    arm: HttpClient
    api: Callable[[str], KubeClient] | None = None  # with this token
    api_waits_for: str = ""
    seconds: float = 5.0  # for the API server


def ask_azure(config: NodeConfig, host: Host, identify: Identify, asked: Asked) -> dict[Purpose, Access]:
    """Get the tokens that the node will use, and read the permissions of each identity."""
    served: dict[str, list[Purpose]] = {}
    for purpose in PURPOSES:
        if method := method_for(config, purpose):
            served.setdefault(method, []).append(purpose)
    found: dict[Purpose, Access] = {}
    for method, purposes in served.items():
        found.update(dict.fromkeys(purposes, _access(config, host, identify, asked, method, purposes)))
    return found


def _access(
    config: NodeConfig,
    host: Host,
    identify: Identify,
    asked: Asked,
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
        return Access(one_line(error), error.fix, method=method)
    access = Access(principal_id=principal, method=method)
    if "kubernetes" in purposes:
        access = _with_rights(access, config, identity.token(audience_for(config, "kubernetes")), asked)
    try:
        granted = Grants(identity, config.azure.resource_manager, asked.arm).at(scope_of(config))
    except FlexNodeError as error:
        return replace(access, why_unread=one_line(error))
    return replace(access, granted=tuple(granted))


def _with_rights(access: Access, config: NodeConfig, token: AccessToken, asked: Asked) -> Access:
    """The same with the rights that the kubelet's identity lacks at the API server."""
    if asked.api is None:
        return replace(access, why_unasked=asked.api_waits_for)
    acts = acts_of(config.kubernetes_auth.profile)
    try:
        client = asked.api(token.value.reveal())
        # In parallel, with their own limit: a slow API server says nothing about the token.
        answers, late = together({act.words: partial(act.allowed, client) for act in acts}, asked.seconds)
    except FlexNodeError as error:
        if getattr(error.__cause__, "status", 0) == HTTPStatus.UNAUTHORIZED:
            return replace(access, not_accepted=error.why)
        return replace(access, why_unasked=one_line(error))
    if late:
        return replace(access, why_unasked="the API server did not answer in time")
    return replace(access, lacks=tuple(act for act in acts if not answers[act.words]))


def one_line(error: FlexNodeError) -> str:
    """An error in one line, without Entra's trace ids, which differ in every answer."""
    place = f" ({error.where})" if error.where else ""
    why, _trace, _numbers = error.why.partition(" Trace ID: ")
    return f"{error.what}{place}: {why}"
