# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubelet certificate that the API server no longer accepts, as after a rotation of the cluster's CA.

The kubelet itself only checks the expiry date, and would use the rejected certificate until then.
"""

from __future__ import annotations

from ..errors import FlexNodeError
from ..machine.certificates import validity
from ..resources.retired import Retired
from .rights import refused
from .this_node import ThisNode

ASK_AGAIN = 5.0  # seconds


def is_expired(node: ThisNode) -> bool:
    """Whether the kubelet has a certificate that is not valid any more: the machine was off for too long."""
    if node.uses_tokens:
        return False
    valid = validity(node.host.read(node.identity) or b"")
    return valid is not None and valid.expires <= node.host.clock.now()


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
