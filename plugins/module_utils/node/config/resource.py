# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which part of a document a flexNodeConfig resource has a place for; the rest are the site's own settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .document import layered

# None: all of it.
CARRIED: Mapping[str, tuple[str, ...] | None] = {
    "continuousMonitoring": None,
    "azure": None,
    "azureAuth": None,
    "kubernetesAuth": ("method", "useAzureAuth"),
    **{part: ("version",) for part in ("kubernetes", "containerd", "runc", "cni", "npd")},
    "network": None,
    "node": None,
    "agent": ("nodeName",),
}


def site_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """What was added to a bundle by hand: mirrors, proxy, CNI, paths. A polled resource does not return it."""
    result: dict[str, Any] = {}
    for name, part in layered({}, document).items():
        if name not in CARRIED:
            result[name] = part
            continue
        carried = CARRIED[name]
        if carried is not None and isinstance(part, Mapping):
            if rest := {key: value for key, value in part.items() if key not in carried}:
                result[name] = rest
    return result
