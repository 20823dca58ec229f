# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet certificate that the API server no longer accepts, as after a rotation of the cluster's CA.

The kubelet itself only checks the expiry date, and would use the rejected certificate until then. After that
date it requests another one, with the credential of its join: a token is used up by then.
"""

from __future__ import annotations

from ..errors import FlexNodeError, NodeNotReady
from ..machine.certificates import validity
from ..machine.clock import iso
from ..machine.program import COMMAND
from ..resources.retired import Retired
from .advice import AGAIN
from .rights import refused
from .this_node import ThisNode

ASK_AGAIN = 5.0  # seconds


def is_expired(node: ThisNode) -> bool:
    """Whether the kubelet has a certificate that is not valid any more: the machine was off for too long."""
    return bool(expired(node))


def expired(node: ThisNode) -> float:
    """When the certificate of the kubelet expired; 0: it has not, or the kubelet has none."""
    if node.uses_tokens:
        return 0.0
    valid = validity(node.host.read(node.identity) or b"")
    return valid.expires if valid is not None and valid.expires <= node.host.clock.now() else 0.0


def check_expiry(node: ThisNode) -> None:
    """An error if the certificate has expired: all that the API server would answer is Unauthorized."""
    if end := expired(node):
        raise NodeNotReady(
            f"the kubelet's certificate expired at {iso(end)}",
            where=node.name,
            why="this machine was off, or did not reach the API server, when it was to be renewed; or its "
            "clock is wrong (timedatectl)",
            fix=renewal(node),
        )


def renewal(node: ThisNode) -> str:
    """How the kubelet gets another certificate when its own has expired."""
    if node.config.azure.target_agent_pool_name:
        again = f"{AGAIN}, or `{COMMAND} join --cluster ID --pool NAME` on this machine"
        return f"with continuousMonitoring the next poll requests a new one; if it does not, {again}"
    if node.azure_method:
        return (
            f"{AGAIN}, or `{COMMAND} join` on this machine with the same configuration: the kubelet requests "
            "a new one with its Azure identity"
        )
    return (
        f"{AGAIN} (sources cluster and blob create a new token, others need one in the inventory or a new "
        f"configuration URL), or `{COMMAND} join` on this machine with a new token or configuration URL"
    )


def rejected_certificate(node: ThisNode) -> list[Retired]:
    """The kubelet's certificate, if the API server rejects it, and still does some seconds later.

    An API server that is starting, or one of several, may answer Unauthorized for a moment, and the kubelet
    has no other certificate.
    """
    if not _is_rejected(node, attempts=1):
        return []
    node.host.clock.sleep(ASK_AGAIN)
    # Another client has a connection of its own, which may lead to another API server.
    return [Retired(node.identity)] if _is_rejected(node, attempts=2) else []


def _is_rejected(node: ThisNode, attempts: int) -> bool:
    try:
        return refused(node.api(attempts), node.name)
    except FlexNodeError:  # a damaged certificate is reported by the gate, with its cause
        return False
