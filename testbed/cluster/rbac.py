# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights a joining node needs: to ask for its certificate, to renew it, to take itself away."""

from __future__ import annotations

from typing import Any

BASE = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


def _binding(name: str, role: str, group: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group}],
    }


SELF_DELETE = {
    "apiVersion": f"{GROUP}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "flexnode-self-delete"},
    "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]}],
}

POOL_GROUP = "system:bootstrappers:aks-flex-node"
"""The group of the bootstrap tokens of FlexNodes pools."""
APPROVE = "system:certificates.k8s.io:certificatesigningrequests"

OBJECTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (f"{BASE}/clusterroles", SELF_DELETE),
    *(
        (f"{BASE}/clusterrolebindings", binding)
        for binding in (
            _binding("flexnode-bootstrap", "system:node-bootstrapper", "system:bootstrappers"),
            _binding("flexnode-approve-new", f"{APPROVE}:nodeclient", "system:bootstrappers"),
            _binding("flexnode-pool-bootstrap", "system:node-bootstrapper", POOL_GROUP),
            _binding("flexnode-pool-approve-new", f"{APPROVE}:nodeclient", POOL_GROUP),
            _binding("flexnode-approve-renewal", f"{APPROVE}:selfnodeclient", "system:nodes"),
            _binding("flexnode-self-delete", "flexnode-self-delete", "system:nodes"),
        )
    ),
)
