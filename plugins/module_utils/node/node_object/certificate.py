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


def is_expired(node: ThisNode) -> bool:
    """Whether the kubelet has a certificate that is not valid any more: the machine was off for too long."""
    if node.uses_tokens:
        return False
    valid = validity(node.host.read(node.identity) or b"")
    return valid is not None and valid.expires <= node.host.clock.now()


def rejected_certificate(node: ThisNode) -> list[Retired]:
    """The kubelet's certificate, if the API server rejects it."""
    try:
        client = node.api(attempts=1)
    except FlexNodeError:  # a damaged certificate is reported by the gate, with its cause
        return []
    return [Retired(node.identity)] if refused(client, node.name) else []
