# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kubelet's Azure identity has to be allowed in the cluster, and whether the API server allows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .kube import KubeClient

CERTIFICATES = "certificates.k8s.io"
BOOTSTRAPPER = "system:node-bootstrapper"
APPROVAL = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
KUBELET = "system:node"


@dataclass(frozen=True, slots=True)
class Right:
    """Something that the identity does, and the ClusterRole of Kubernetes' own that lets it."""

    role: str
    verb: str
    resource: str
    group: str = ""

    @property
    def act(self) -> str:
        """In words."""
        return f"{self.verb} {self.resource}"


OBTAIN = (
    Right(BOOTSTRAPPER, "create", "certificatesigningrequests", CERTIFICATES),
    Right(APPROVAL, "create", "certificatesigningrequests/nodeclient", CERTIFICATES),
)
# What system:node gives, by a few acts without which nothing works: the Node itself, its heartbeat, its pods
# and what they mount, and who may ask for logs.
LIVE = tuple(
    Right(KUBELET, *act)
    for act in (
        ("create", "nodes"),
        ("patch", "nodes/status"),
        ("update", "leases", "coordination.k8s.io"),
        ("watch", "pods"),
        ("get", "secrets"),
        ("create", "subjectaccessreviews", "authorization.k8s.io"),
    )
)
# The words of the bindings' names, as the example files have them.
WORDS = {BOOTSTRAPPER: "bootstrap", APPROVAL: "approve", KUBELET: "kubelet"}


def needed(profile: str) -> tuple[Right, ...]:
    """What the identity does in the cluster: obtain a certificate once, or all that a kubelet does."""
    return LIVE if profile == "token" else OBTAIN


def lacking(client: KubeClient, rights: Iterable[Right]) -> tuple[Right, ...]:
    """Those that whoever the client is does not have."""
    return tuple(right for right in rights if not client.may(right.verb, right.resource, right.group))


def roles_of(rights: Iterable[Right]) -> tuple[str, ...]:
    """The ClusterRoles that give them."""
    return tuple(dict.fromkeys(right.role for right in rights))


def binding_command(role: str, user: str, node: str) -> str:
    """The line that lets an identity have a ClusterRole."""
    name = f"flexnode-identity-{WORDS[role]}-{node}"
    return f"kubectl create clusterrolebinding {name} --clusterrole={role} --user={user}"
