# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Default versions; chosen by this collection, not refreshed with the catalogue."""

from __future__ import annotations

from .types.values import Version

CONTAINERD = Version(2, 3, 4)
RUNC = Version(1, 4, 3)
CNI_PLUGINS = Version(1, 9, 1)

# Microsoft's build of the pause image: mcr.microsoft.com is among the hosts that every AKS node must reach
# anyway, registry.k8s.io is not. One tag fits all: pause only reaps processes and has not changed for years.
PAUSE_IMAGE = "mcr.microsoft.com/oss/v2/kubernetes/pause:3.10.2"

# Kept apart from the catalogue on purpose: a module that runs on a node reads documents, but gets its few
# URLs and digests from the controller, and should not carry 70 KB of digests with it.
