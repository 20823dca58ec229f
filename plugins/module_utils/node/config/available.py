# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a valid configuration may ask for that this version does not do yet: refused, never ignored."""

from __future__ import annotations

from ..errors import NotAvailable
from .model import NodeConfig


def check_available(config: NodeConfig, *, pollable: bool = False) -> None:
    """Refuse before anything is touched, naming every field in question.

    pollable: the document came from an address that can be asked again.
    """
    asked = {
        "azure.vpn.enabled": config.azure.vpn.enabled,
        "npd.version": config.npd.version is not None,
        "pull.repository": config.pull.repository is not None,
        "hooks": bool(config.hooks.before or config.hooks.after),
        "writeAdminConf": config.write_admin_conf,
    }
    if fields := [field for field, used in asked.items() if used]:
        raise NotAvailable(
            "this configuration can't be carried out by this version",
            where=", ".join(fields),
            why="these fields are valid, but what they ask for is not available yet",
            fix="leave them out, or use a version that has them",
        )
    if config.continuous_monitoring and not pollable:
        raise NotAvailable(
            "this machine has no address where it could look for its configuration again",
            where="continuousMonitoring",
            why="it follows a durable URL only: polling Azure itself is not available yet",
            fix="give a URL that stays valid, and say so (durable: true, or `aks-flex-node join --config-url "
            "URL --durable`), or leave continuousMonitoring out",
        )
