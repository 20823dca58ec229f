# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of a flexNodeConfig resource that is polled."""

from __future__ import annotations

from ..errors import FlexNodeError


class ResourceMissing(FlexNodeError):
    code, title = "FLEX-1109", "The flexNodeConfig resource of this node does not exist"
    deleted = False  # Azure says that it was deleted; the next poll decides
    remedy = (
        "create it again (ansible-playbook aks.flexnode.config_put), or remove the machine: ansible-playbook "
        "aks.flexnode.unbootstrap, or `aks-flex-node unbootstrap`"
    )


class CredentialMissing(FlexNodeError):
    code, title = "FLEX-1110", "A new credential of this node can't be obtained"
    remedy = (
        "push it to the machine: ansible-playbook aks.flexnode.update; or let the identity of the node call "
        "regenerateToken (docs/permissions.md)"
    )
