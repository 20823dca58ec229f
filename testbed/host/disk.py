# SPDX-License-Identifier: GPL-3.0-or-later
"""The disk that all machines of a testbed in containers share with this one."""

from __future__ import annotations

import shutil
from pathlib import Path

from testbed.basics.progress import say

CONTAINERS = Path("/var/lib/containers")
# The kubelet's own limit for images (imagefs.available): below it a Node has disk pressure and takes no pods.
PRESSURE_PERCENT = 15


def pressure(place: Path = CONTAINERS) -> str:
    """What its kubelets would say about it; empty: nothing."""
    existing = next(path for path in (place, *place.parents) if path.exists())
    usage = shutil.disk_usage(existing)
    percent = 100 * usage.free / usage.total
    if percent >= PRESSURE_PERCENT:
        return ""
    return (
        f"only {percent:.0f} % of the disk of {existing} are free: with less than {PRESSURE_PERCENT} % "
        "the Nodes of containers have disk pressure and take no pods"
    )


def warn() -> None:
    """Say so before pods wait without a word."""
    if found := pressure():
        say(f"WARNING: {found}")
