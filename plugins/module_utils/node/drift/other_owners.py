# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container runtime or kubelet of another owner: found before anything is changed."""

from __future__ import annotations

from ..config.model import NodeConfig
from ..engine.records.state import Store
from ..errors import ForeignRuntime
from ..machine.facts import UNIT_DIRS
from ..machine.host import Host
from ..machine.layout import CONTAINERD, KUBELET, UNIT_DIR

# The unit of the AKS Flex Node agent (Azure/AKSFlexNode), as its install script names it.
VENDOR_AGENT = "aks-flex-node-agent.service"
VENDOR_WHY = "the AKS Flex Node agent manages this machine: it would replace what this collection installs"
VENDOR_FIX = (
    "remove it first: drain the Node, run the agent's own `aks-flex-node reset`, delete the Node (kubectl "
    "delete node NAME), then systemctl disable --now aks-flex-node-agent; takeover: true does not replace it"
)
CONFLICT = "two of them can't share a machine: they conflict over sockets, cgroups and pod networks"
# Units of software that would conflict over the runtime, the kubelet's port or the pod network.
RIVALS = (
    VENDOR_AGENT,
    CONTAINERD,
    KUBELET,
    "docker.service",
    "crio.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-agent.service",
    "rke2-server.service",
    "snap.microk8s.daemon-kubelite.service",
)


def foreign_units(host: Host, store: Store) -> list[str]:
    """Conflicting units on this machine that this collection did not install."""
    ours = {entry.name for entry in store.journal.entries() if entry.origin.get("is") == "absent"}
    found = []
    for unit in RIVALS:
        places = [
            f"{directory}/{unit}" for directory in UNIT_DIRS if not host.stat(f"{directory}/{unit}").absent
        ]
        if any(place not in ours for place in places) and f"{UNIT_DIR}/{unit}" not in ours:
            found.append(places[0])
    return found


def check_foreign(host: Host, store: Store, config: NodeConfig, *, joined: bool) -> None:
    """Refuse a machine with another owner, unless `takeover` is set.

    joined: it is a node. What was installed beside it is reported as drift, and must not keep a node from
    being repaired; another program that manages it still does.
    """
    found = foreign_units(host, store)
    if agents := [path for path in found if path.endswith(VENDOR_AGENT)]:
        raise ForeignRuntime(
            "another program manages this machine", where=", ".join(agents), why=VENDOR_WHY, fix=VENDOR_FIX
        )
    if found and not config.takeover and not joined:
        raise ForeignRuntime(
            "a container runtime or kubelet that this collection did not install is on this machine",
            where=", ".join(found),
            why=CONFLICT,
        )
