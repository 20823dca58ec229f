# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the testbed keeps things outside the checkout."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from testbed.basics.errors import TestbedError

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def arch() -> str:
    """This machine's architecture in Go's and Debian's word."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        raise TestbedError(f"machine architecture {machine} is not supported: {', '.join(ARCHITECTURES)} are")
    return ARCHITECTURES[machine]


def cache() -> Path:
    """What is costly to make and shared by all testbeds: binaries and node images."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "aks-flexnode-testbed"


def state(name: str) -> Path:
    """What belongs to one testbed: keys, kubeconfig, logs, pid files; removed by down."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "aks-flexnode-testbed" / name
