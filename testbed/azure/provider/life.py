# SPDX-License-Identifier: GPL-3.0-or-later
"""The lifetime of an invitation: a URL and a token with which one machine can join, once."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

AFTER_CERTIFICATE = 10
"""Seconds from the first use in which a kubelet that has its certificate may still not have its Node."""


@dataclass(frozen=True)
class Invitation:
    """What was issued for a node."""

    id: int
    node: str
    token_id: str | None
    """None where the kubelet joins with an Azure identity."""
    state: str
    """open, used or closed"""
    created: float
    expires: float
    used: float | None


@dataclass(frozen=True)
class Seen:
    """What the cluster shows of it."""

    requested: bool
    """A certificate was asked for with this token."""
    issued: bool
    """That certificate was issued."""
    node_created: float | None
    """When the Node of this name came to be."""


class Step(Enum):
    """What is to be done with an invitation."""

    NOTHING = "nothing"
    USE = "use"
    """It was used for the first time: the URL goes, the token stays for this one join."""
    CLOSE = "close"
    """The join has ended, or time is up: URL and token go."""


def step(invitation: Invitation, seen: Seen, now: float, join_seconds: float) -> Step:
    """Decide by what the cluster shows."""
    if now >= invitation.expires:
        return Step.CLOSE
    if invitation.state == "open":
        if invitation.token_id is None:
            # A second's tolerance: Kubernetes tells creation times in whole seconds.
            joined = seen.node_created is not None and seen.node_created >= invitation.created - 1
            return Step.CLOSE if joined else Step.NOTHING
        return Step.USE if seen.requested else Step.NOTHING
    since = now - (invitation.used or now)
    if seen.issued and (seen.node_created is not None or since > AFTER_CERTIFICATE):
        return Step.CLOSE
    return Step.CLOSE if since > join_seconds else Step.NOTHING
