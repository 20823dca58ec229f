# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that joining machines need in a cluster: no more than needed, and never `system:node`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...node.rollout.record import NAME, NAMESPACE

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
    namespace: str = ""  # empty: in the whole cluster

    @property
    def kinds(self) -> tuple[str, str]:
        """The kinds of its role and of its binding."""
        return ("Role", "RoleBinding") if self.namespace else ("ClusterRole", "ClusterRoleBinding")

    @property
    def binding(self) -> Json:
        """The binding of the role."""
        return {
            "apiVersion": f"{GROUP}/v1",
            "kind": self.kinds[1],
            "metadata": {**self._place(self.name), **({"labels": dict(self.labels)} if self.labels else {})},
            "roleRef": {"apiGroup": GROUP, "kind": self.kinds[0], "name": self.role},
            "subjects": [{"apiGroup": GROUP, "kind": self.kind, "name": self.subject}],
        }

    @property
    def objects(self) -> list[tuple[str, Json]]:
        """The objects it consists of, each with its API path."""
        role: list[tuple[str, Json]] = []
        above = f"{BASE}/namespaces/{self.namespace}" if self.namespace else BASE
        roles, bindings = (f"{above}/{kind.lower()}s" for kind in self.kinds)
        if self.rules:
            body = {"apiVersion": f"{GROUP}/v1", "kind": self.kinds[0], "metadata": self._place(self.role)}
            rules = [dict(rule) for rule in self.rules]
            role = [(roles, {**body, "rules": rules})]
        return [*role, (bindings, self.binding)]

    def _place(self, name: str) -> Json:
        return {"name": name, **({"namespace": self.namespace} if self.namespace else {})}


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


# Nodes with upgrade.maxUnavailable read and write one record, and nothing else there.
ROLLOUT = Right(
    NAME,
    NAME,
    NODES,
    ({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "update"]},),
    namespace=NAMESPACE,
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
