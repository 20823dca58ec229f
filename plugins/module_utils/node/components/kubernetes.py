# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Kubernetes binaries: kubelet, kubectl and kubeadm of one version."""

from __future__ import annotations

from ..catalogue.artifacts import artifacts_of
from ..config.model import NodeConfig
from ..machine.facts import Facts
from ..machine.layout import BIN_DIR, KUBELET
from ..resources.base import Resource
from ..resources.paths import Link
from ..resources.tree import Tree, place_of

BINARIES = ("kubelet", "kubectl", "kubeadm")


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Each version in its own directory; links select the one that is used."""
    artifacts = artifacts_of(config, facts.arch)
    parts: list[Resource] = []
    for name in BINARIES:
        artifact = artifacts[name]
        directory = place_of(artifact)
        restarts = (KUBELET,) if name == "kubelet" else ()
        parts.append(Tree(directory, artifact, ((artifact.member, name),), restarts))
        parts.append(Link(f"{BIN_DIR}/{name}", f"{directory}/{name}", restarts))
    return parts
