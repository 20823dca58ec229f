# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kubelet's Azure identity has to do in the cluster, and whether the API server lets it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..net.kube import KubeClient

CERTIFICATES = "certificates.k8s.io"
BOOTSTRAPPER = "system:node-bootstrapper"
APPROVAL = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
KUBELET = "system:node"


@dataclass(frozen=True, slots=True)
class Act:
    """Something that the identity does, and the ClusterRole of Kubernetes' own that lets it."""

    role: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""  # empty: in all of them

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.verb} {self.resource}"

    def allowed(self, client: KubeClient) -> bool:
        """Whether whoever the client is may do it."""
        return client.may(self.verb, self.resource, self.group, self.namespace)


OBTAIN = (
    Act(BOOTSTRAPPER, "create", "certificatesigningrequests", CERTIFICATES),
    Act(APPROVAL, "create", "certificatesigningrequests/nodeclient", CERTIFICATES),
)
# What system:node gives, by a few acts without which nothing works: the Node itself, its heartbeat, its pods,
# and who may ask for logs.
LIVE = (
    Act(KUBELET, "create", "nodes"),
    Act(KUBELET, "patch", "nodes/status"),
    Act(KUBELET, "update", "leases", "coordination.k8s.io", "kube-node-lease"),
    Act(KUBELET, "watch", "pods"),
    Act(KUBELET, "create", "subjectaccessreviews", "authorization.k8s.io"),
)
# The words of the bindings' names, as the example files have them.
WORDS = {BOOTSTRAPPER: "bootstrap", APPROVAL: "approve", KUBELET: "kubelet"}


def acts_of(profile: str) -> tuple[Act, ...]:
    """What the identity does in the cluster: obtain a certificate once, or all that a kubelet does."""
    return LIVE if profile == "token" else OBTAIN


def roles_of(acts: Iterable[Act]) -> tuple[str, ...]:
    """The ClusterRoles that let somebody do them."""
    return tuple(dict.fromkeys(act.role for act in acts))


def binding_command(role: str, user: str, node: str) -> str:
    """The line that lets an identity have a ClusterRole."""
    name = f"flexnode-identity-{WORDS[role]}-{node}"
    return f"kubectl create clusterrolebinding {name} --clusterrole={role} --user={user}"
