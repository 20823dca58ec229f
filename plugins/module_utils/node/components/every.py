# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All components, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..resources.base import Ownership, Resource, key_of
from . import agent, cni, kubelet, kubernetes, pull, runtime, services, system_config
from .npd import detector
from .vpn import client as vpn

Component = Callable[[NodeConfig, Facts], list[Resource]]

COMPONENTS: dict[str, Component] = {
    "agent": agent.resources,
    "vpn": vpn.resources,
    "system_config": system_config.resources,
    "runtime": runtime.resources,
    "kubernetes": kubernetes.resources,
    "cni": cni.resources,
    "kubelet": kubelet.resources,
    "npd": detector.resources,
    "services": services.resources,
}
# Applied by themselves, after the node works: what they need (a package, a download) must never keep a
# machine from joining, nor a node from an update.
AFTERWARDS: dict[str, Component] = {"pull": pull.resources}
# Applied and proven by itself, before the others: what they need is behind the tunnel.
BEFORE = ("vpn",)
# Components that a machine image can contain before it joins a cluster.
PREPARED = ("system_config", "runtime", "kubernetes", "cni")


def wanted(names: Iterable[str], config: NodeConfig, facts: Facts) -> tuple[list[Resource], Ownership]:
    """The resources of some components, in their order, each once; and which component contains which."""
    chosen = frozenset(names)
    listed: dict[str, Resource] = {}
    owners: dict[str, frozenset[str]] = {}
    for name, component in {**COMPONENTS, **AFTERWARDS}.items():
        if name in chosen:
            for resource in component(config, facts):
                key = key_of(resource)
                listed.setdefault(key, resource)
                owners[key] = owners.get(key, frozenset()) | {name}
    return list(listed.values()), Ownership(chosen, owners)


def resources_of(names: Iterable[str], config: NodeConfig, facts: Facts) -> list[Resource]:
    """The resources of some components, in their order, each once."""
    return wanted(names, config, facts)[0]
