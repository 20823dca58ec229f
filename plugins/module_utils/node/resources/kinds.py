# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every kind of resource by its name: what the journal needs to restore an item."""

from __future__ import annotations

from collections.abc import Callable

from .admin_conf import AdminConf
from .base import Resource
from .kernel.fstab import FstabSwap
from .kernel.modules import KernelModule
from .kernel.settings import Sysctl
from .kernel.swap import SwapOff
from .kubeconfig import Kubeconfig
from .log_file import LogFile
from .package import Package
from .paths import Directory, File, Link
from .program import Program
from .tree import Tree
from .units import Unit

KINDS: dict[str, type[Resource]] = {
    kind.kind: kind
    for kind in (
        Directory,
        File,
        Link,
        Program,
        Tree,
        Unit,
        KernelModule,
        Sysctl,
        SwapOff,
        FstabSwap,
        Kubeconfig,
        LogFile,
        AdminConf,
        Package,
    )
}
# Creates an item from its name alone, to observe its present state. Not for trees and programs: their
# directories belong to this collection, and did not exist before.
NAMED: dict[str, Callable[[str], Resource]] = {
    "directory": Directory,
    "file": lambda name: File(name, ""),
    "link": lambda name: Link(name, ""),
    "unit": Unit,
    "module": KernelModule,
    "sysctl": lambda name: Sysctl(name, ""),
    "swap": lambda name: SwapOff(),
    "fstab": lambda name: FstabSwap(),
    "kubeconfig": lambda name: Kubeconfig(name, "", "", ""),
    "log": LogFile,
    "admin-conf": lambda name: AdminConf(name, ""),
    "package": Package,
}
