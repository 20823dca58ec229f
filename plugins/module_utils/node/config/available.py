# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Valid fields that this version does not support yet: refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import NOT_SET, ConfigInvalid, NotAvailable, Problem
from .auth import azure_method
from .model import NodeConfig
from .types.setting import Section, absent, members

# Settings and whole sections. What equals the default is accepted: it asks for nothing.
UNSUPPORTED = (
    "hooks",
    "paths.configDir",  # nothing but the pointer to a moved data directory, which must be found without it
)


def check_available(config: NodeConfig, *, pollable: bool = False) -> None:
    """Refuse before anything is changed, naming every such field.

    pollable: the document came from a source that can be polled.
    """
    fields = [field for path in UNSUPPORTED for field in _changed(config, path.split("."))]
    if fields:
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
            why="this document is neither a bundle of a flexNodeConfig resource, nor that of a machine of a "
            "FlexNodes pool with an Azure identity, nor from a durable URL",
            fix="use source rp, blob or machines; or a URL that stays valid, and say so (durable: true, or "
            "`aks-flex-node join --config-url URL --durable`); or remove continuousMonitoring",
        )


def check_profile(config: NodeConfig) -> None:
    """On a machine the profile must be there: only the controller can create one."""
    if config.azure.vpn.enabled and config.azure.vpn.profile is None:
        hint = "azure.vpn.autoProvision is done by the controller, before a machine gets its configuration"
        raise ConfigInvalid([Problem("azure.vpn.profile", NOT_SET, "one complete OpenVPN profile", hint)])


def _changed(section: Any, path: list[str], above: str = "") -> Iterator[str]:
    """Every setting at or below a path whose value is not the default; an empty path means all of them."""
    for attribute, spec in members(type(section)):
        if path and spec.key != path[0]:
            continue
        value, here = getattr(section, attribute), f"{above}{spec.key}"
        if isinstance(spec, Section):
            yield from _changed(value, path[1:], f"{here}.")
        elif value != absent(type(section), attribute):
            yield here


def polls_resource(config: NodeConfig) -> bool:
    """Whether the node polls its flexNodeConfig resource, with its Azure identity."""
    return config.continuous_monitoring and azure_method(config) is not None
