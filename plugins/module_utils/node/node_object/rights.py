# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RBAC rights that a kubelet's Azure identity needs in the cluster, and whether it has them."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus

from ..dataclass import dataclass
from ..errors import FlexNodeError
from ..net.kube import KubeClient

CERTIFICATES = "certificates.k8s.io"
BOOTSTRAPPER = "system:node-bootstrapper"
APPROVAL = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
KUBELET = "system:node"


@dataclass(frozen=True)
class Act:
    """Something that the identity does, and the built-in ClusterRole that allows it."""

    role: str
    verb: str
    resource: str
    group: str = ""
    namespace: str = ""  # empty: in all of them

    @property
    def words(self) -> str:
        """In words, e.g. create nodes."""
        return f"{self.verb} {self.resource}"

    def allowed(self, client: KubeClient) -> bool:
        """Whether the client's identity may do it."""
        return client.may(self.verb, self.resource, self.group, self.namespace)


GET_CERTIFICATE = (
    Act(BOOTSTRAPPER, "create", "certificatesigningrequests", CERTIFICATES),
    Act(APPROVAL, "create", "certificatesigningrequests/nodeclient", CERTIFICATES),
)
# A sample of what system:node grants, without which a kubelet does not work: the Node itself, its heartbeat,
# its pods, and authorization of requests for logs.
RUN_KUBELET = (
    Act(KUBELET, "create", "nodes"),
    Act(KUBELET, "patch", "nodes/status"),
    Act(KUBELET, "update", "leases", "coordination.k8s.io", "kube-node-lease"),
    Act(KUBELET, "watch", "pods"),
    Act(KUBELET, "create", "subjectaccessreviews", "authorization.k8s.io"),
)
# Used in the names of bindings, as in the example files.
WORDS = {BOOTSTRAPPER: "bootstrap", APPROVAL: "approve", KUBELET: "kubelet"}


def acts_of(profile: str) -> tuple[Act, ...]:
    """What the identity does in the cluster: request a certificate once, or all that a kubelet does."""
    return RUN_KUBELET if profile == "token" else GET_CERTIFICATE


def roles_of(acts: Iterable[Act]) -> tuple[str, ...]:
    """The ClusterRoles that allow them."""
    return tuple(dict.fromkeys(act.role for act in acts))


def binding_command(role: str, user: str, node: str) -> str:
    """The command that binds an identity to a ClusterRole."""
    name = f"flexnode-identity-{WORDS[role]}-{node}"
    return f"kubectl create clusterrolebinding {name} --clusterrole={role} --user={user}"


def refused(client: KubeClient, node: str) -> bool:
    """Whether the API server answers Unauthorized to this client. No answer does not count as a refusal."""
    try:
        client.node(node)
    except FlexNodeError as error:
        return is_unauthorized(error)
    return False


def is_unauthorized(error: FlexNodeError) -> bool:
    """Whether the API server does not know who asks; an identity that only lacks a right is known."""
    return getattr(error.__cause__, "status", 0) == HTTPStatus.UNAUTHORIZED
