# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""FlexNodes pools of AKS: names and versions. Apart from the configuration's types, which a poll avoids."""

from __future__ import annotations

MACHINES_API_VERSION = "2026-05-02-preview"  # the oldest that has FlexNodes pools; later ones serve it too
POOL_PATTERN = r"[a-z][a-z0-9]{0,11}"
# Azure also allows capital letters and _ in names of machines; a Node's name has neither.
POOL_MACHINE_PATTERN = r"[a-z0-9][a-z0-9-]{0,39}"
# What is accepted as the name of a node of a pool, and why.
MACHINE_NAME = (
    "a name of at most 40 lower-case letters, digits and -, without a dot",
    "the machine of a FlexNodes pool has the name of its Node",
)
