# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What makes two changes the same rollout: the software and the settings that all machines of a fleet share.

Values of one machine or one site (addresses, identities, proxy, mirror, sizes) make no difference: a new
version of Kubernetes is one rollout for all sites, whatever else changes on a machine with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..config.model import NodeConfig
from ..config.types.setting import Section, members

# The software of a fleet: it goes through the rings. All of these restart the kubelet or containerd, or
# change what new pods run with.
FLEET = frozenset(
    (
        "kubernetes.version",
        "kubernetes.sha256",
        "containerd.version",
        "containerd.sha256",
        "containerd.pauseImage",
        "containerd.metricsAddress",
        "runc.version",
        "runc.sha256",
        "cni.version",
        "cni.sha256",
        "node.kubelet.evictionHard",
        "node.kubelet.imageGCHighThreshold",
        "node.kubelet.imageGCLowThreshold",
        "node.kubelet.verbosity",
        "node.kubelet.caCertData",
        "kubelet.configOverrides",
    )
)
# They restart nothing that pods need.
HARMLESS = (
    "node.labels",
    "node.taints",
    "upgrade.",
    "drift.",
    "continuousMonitoring",
    "agent.log",
    "pull.",
    "npd.",
    "azure.bootstrapToken",
)
# A value of one machine: that it changes belongs to the rollout, the value itself does not.
OF_ONE_MACHINE = ("azure.", "cni.podCIDR", "node.kubelet.nodeIP", "agent.nodeName", "proxy.", "mirror.")
VERSIONED = ("kubernetes", "containerd", "runc", "cni")
LENGTH = 12  # hexadecimal digits


def settings(config: NodeConfig) -> dict[str, str]:
    """All settings with their values as text, defaults included. A secret is a placeholder."""
    return {path: json.dumps(value, sort_keys=True, default=repr) for path, value in _values(config)}


def software(config: NodeConfig, installed: Mapping[str, object] | None = None) -> str:
    """The digest of the fleet's software in a configuration.

    installed: the versions that are on the machine, if known: defaults differ by release.
    """
    found = settings(config)
    part = {path: found[path] for path in FLEET if path in found}
    versions = {**{name: getattr(config, name).version for name in VERSIONED}, **(installed or {})}
    part |= {f"{name}.version": str(versions[name]) for name in VERSIONED}
    return digest(part)


def rollout_of(before: NodeConfig | None, after: NodeConfig, also: str = "") -> str:
    """The name of the rollout that this change belongs to.

    New software is one rollout, also for a machine that changes something else at the same time: who stops it
    stops it everywhere. also: what changes besides the configuration, the program that renders it.
    """
    if before is None or software(before) != software(after):
        return digest({"software": software(after)})
    old, new = settings(before), settings(after)
    changed = {
        path: "" if path.startswith(OF_ONE_MACHINE) else new.get(path, "")
        for path in {*old, *new}
        if old.get(path) != new.get(path) and not path.startswith(HARMLESS)
    }
    return digest({"software": software(after), "changed": changed, "also": also})


def digest(content: Mapping[str, Any]) -> str:
    """A short name of some content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def _values(section: Any, above: str = "") -> Iterator[tuple[str, object]]:
    for attribute, spec in members(type(section)):
        value, here = getattr(section, attribute), f"{above}{spec.key}"
        if isinstance(spec, Section):
            if value is not None:
                yield from _values(value, f"{here}.")
        else:
            yield here, value
