# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that joining machines need in a cluster: no more than needed, and never `system:node`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
GROUP = "rbac.authorization.k8s.io"
BASE = f"/apis/{GROUP}/v1"
BOOTSTRAPPERS, NODES = "system:bootstrappers", "system:nodes"
APPROVE = "system:certificates.k8s.io:certificatesigningrequests"


@dataclass(frozen=True, slots=True)
class Right:
    """A role that a group or a user is bound to; `rules` if this collection creates the role."""

    name: str
    role: str
    subject: str
    rules: tuple[Mapping[str, Any], ...] = field(default=())
    kind: str = "Group"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def binding(self) -> Json:
        """The ClusterRoleBinding."""
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": self.name, **({"labels": dict(self.labels)} if self.labels else {})},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": self.role},
            "subjects": [{"apiGroup": GROUP, "kind": self.kind, "name": self.subject}],
        }

    @property
    def objects(self) -> list[tuple[str, Json]]:
        """The objects it consists of, each with its API path."""
        role: list[tuple[str, Json]] = []
        if self.rules:
            body = {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": {"name": self.role}}
            rules = [dict(rule) for rule in self.rules]
            role = [(f"{BASE}/clusterroles", {**body, "rules": rules})]
        return [*role, (f"{BASE}/clusterrolebindings", self.binding)]


RIGHTS = (
    # A bootstrap token may ask for a kubelet's client certificate ...
    Right("flexnode-bootstrap", "system:node-bootstrapper", BOOTSTRAPPERS),
    # ... and the request is approved automatically.
    Right("flexnode-approve-new", f"{APPROVE}:nodeclient", BOOTSTRAPPERS),
    # A kubelet renews its own certificate before it expires.
    Right("flexnode-approve-renewal", f"{APPROVE}:selfnodeclient", NODES),
    # A machine that leaves deletes its own Node; NodeRestriction lets it delete no other.
    Right(
        "flexnode-self-delete",
        "flexnode-self-delete",
        NODES,
        ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]},),
    ),
)


# What a joined node needs, however it joined.
AFTER_JOIN = RIGHTS[2:]


def missing_rights(bindings: Iterable[Mapping[str, Any]], rights: Sequence[Right] = RIGHTS) -> list[Right]:
    """The rights that no binding grants. Bindings of any name count: AKS creates some of its own."""
    granted = {
        (str((binding.get("roleRef") or {}).get("name")), str(subject.get("kind")), str(subject.get("name")))
        for binding in bindings
        for subject in binding.get("subjects") or ()
    }
    return [right for right in rights if (right.role, right.kind, right.subject) not in granted]
