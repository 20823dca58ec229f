# SPDX-License-Identifier: GPL-3.0-or-later
"""FlexNodes pools: agent pools, machines and bootstrap data, and what AKS does with the Nodes of a pool."""

from __future__ import annotations
