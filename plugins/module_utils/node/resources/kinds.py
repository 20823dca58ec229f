# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of resource by its name: what the journal needs to take an item back."""

from __future__ import annotations

from .base import Resource
from .kernel import FstabSwap, KernelModule, SwapOff, Sysctl
from .paths import Directory, File, Link
from .program import Program
from .tree import Tree
from .units import Unit

KINDS: dict[str, type[Resource]] = {
    kind.kind: kind
    for kind in (Directory, File, Link, Program, Tree, Unit, KernelModule, Sysctl, SwapOff, FstabSwap)
}
