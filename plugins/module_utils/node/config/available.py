# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Valid fields that this version does not support yet: refused, never ignored."""

from __future__ import annotations

from ..errors import NotAvailable
from .auth import azure_method
from .model import NodeConfig


def check_available(config: NodeConfig, *, pollable: bool = False) -> None:
    """Refuse before anything is changed, naming every such field.

    pollable: the document came from a source that can be polled.
    """
    unsupported = {
        "azure.vpn.enabled": config.azure.vpn.enabled,
        "npd.version": config.npd.version is not None,
        "pull.repository": config.pull.repository is not None,
        "hooks": bool(config.hooks.before or config.hooks.after),
        "writeAdminConf": config.write_admin_conf,
    }
    if fields := [field for field, used in unsupported.items() if used]:
        raise NotAvailable(
            "this configuration is not supported by this version",
            where=", ".join(fields),
            why="these fields are valid, but not supported yet",
            fix="remove them, or use a version that supports them",
        )
    if config.continuous_monitoring and not pollable:
        raise NotAvailable(
            "this machine has nothing to poll for its configuration",
            where="continuousMonitoring",
            why="this document is neither a bundle of a flexNodeConfig resource nor from a durable URL",
            fix="use source rp or blob; or a URL that stays valid, and say so (durable: true, or "
            "`aks-flex-node join --config-url URL --durable`); or remove continuousMonitoring",
        )


def polls_resource(config: NodeConfig) -> bool:
    """Whether the node polls its flexNodeConfig resource, with its Azure identity."""
    return config.continuous_monitoring and azure_method(config) is not None
