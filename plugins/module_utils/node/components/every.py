# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All components, in the order in which they are applied."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..config.model import NodeConfig
from ..facts import Facts
from ..resources.base import Resource, key_of
from . import agent, cni, kubelet, kubernetes, runtime, services, system_config

Component = Callable[[NodeConfig, Facts], list[Resource]]

COMPONENTS: dict[str, Component] = {
    "agent": agent.resources,
    "system_config": system_config.resources,
    "runtime": runtime.resources,
    "kubernetes": kubernetes.resources,
    "cni": cni.resources,
    "kubelet": kubelet.resources,
    "services": services.resources,
}
# What a machine image can hold before it belongs to a cluster.
PREPARED = ("system_config", "runtime", "kubernetes", "cni")


def resources_of(names: Iterable[str], config: NodeConfig, facts: Facts) -> list[Resource]:
    """The resources of some components, in their order, each once."""
    chosen = set(names)
    listed: dict[str, Resource] = {}
    for name, component in COMPONENTS.items():
        if name in chosen:
            for resource in component(config, facts):
                listed.setdefault(key_of(resource), resource)
    return list(listed.values())
