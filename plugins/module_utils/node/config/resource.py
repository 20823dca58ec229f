# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which part of a document a flexNodeConfig resource has a place for; the rest is the site's own."""

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
    **dict.fromkeys(("kubernetes", "containerd", "runc", "cni", "npd"), ("version",)),
    "network": None,
    "node": None,
    "agent": ("nodeName",),
}


def site_settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """What was added to a bundle by hand: mirrors, proxy, CNI, paths. A resource does not return it."""
    plain = layered({}, document)
    own = {name: part for name, part in plain.items() if name not in CARRIED}
    for name, carried in CARRIED.items():
        part = plain.get(name)
        if carried is None or not isinstance(part, Mapping):
            continue
        if rest := {key: value for key, value in part.items() if key not in carried}:
            own[name] = rest
    return own
