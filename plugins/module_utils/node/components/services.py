# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The services of a node, and the poll timer: enabled at boot, and running."""

from __future__ import annotations

from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..machine.layout import BIN_DIR, CONTAINERD, KUBELET, NPD, NPD_BINARY, POLL_TIMER, enabled
from ..resources.base import Resource, key_of
from ..resources.paths import Link
from ..resources.units import Unit

BINARIES = {CONTAINERD: "containerd", KUBELET: "kubelet"}  # that the main process of each must be
SERVICES = tuple(BINARIES)  # that pods need


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """What `systemctl enable --now` does, as resources that can be compared and restored."""
    binaries = {**BINARIES, **({NPD: NPD_BINARY} if config.npd.version else {})}
    parts: list[Resource] = [
        *(Link(*enabled(unit)) for unit in binaries),
        *(Unit(unit, f"{BIN_DIR}/{binary}") for unit, binary in binaries.items()),
    ]
    if config.continuous_monitoring:
        parts += [Link(*enabled(POLL_TIMER, "timers.target")), Unit(POLL_TIMER, last=True)]
    return parts


def at_the_node(config: NodeConfig) -> tuple[str, ...]:
    """Units that ask for the Node when they start: the kubelet, which registers it, and the detector."""
    return (KUBELET, NPD) if config.npd.version else (KUBELET,)


def unit_key(unit: str) -> str:
    """The key of a running unit, as plans and drift records name it."""
    return key_of(Unit(unit))
