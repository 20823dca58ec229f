# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Node objects by the controller's client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...node.errors import ApiUnreachable
from ...node.net.kube import NOT_EVICTED, eviction_refusal
from ...on_machine.node_changes import Json, NodeApi, http_status
from .client import Client
from .kubeconfig import Access
from .targets import Target, require_cluster, require_machine

# A kubelet reports the machine id that it read when it started.
RESTART = "its /etc/machine-id was changed, so run systemctl restart kubelet there"


class NodeClient(Client):
    """What on_machine/node_changes.py asks of the API server."""

    def node(self, name: str) -> Json | None:
        """The Node, None where there is none."""
        return self._found(self._core.read_node, name)

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None:
        """Change parts of the Node with a merge patch."""
        return self._found(self._patching().patch_node, name, dict(patch))

    def delete_node(self, name: str) -> bool:
        """Delete the Node; False where there was none."""
        return self._found(self._core.delete_node, name) is not None

    def pods_on(self, node: str) -> list[Json]:
        """The pods that are bound to a node."""
        chosen = f"spec.nodeName={node}"
        return self._items(self._core.list_pod_for_all_namespaces, field_selector=chosen)

    def evict(self, namespace: str, name: str) -> str:
        """Evict a pod; returns why the API server does not allow it now, empty: the pod is leaving."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
        }
        call = self._core.create_namespaced_pod_eviction
        try:
            self._call(call, name, namespace, body, attempts=1, accepted=(404,))
        except ApiUnreachable as error:
            if http_status(error) in NOT_EVICTED:
                return eviction_refusal(getattr(error.__cause__, "body", "") or "") or error.why
            raise
        return ""


@dataclass(frozen=True, slots=True)
class NodesOfMachines:
    """The same, for machines of which something is known: a Node of another machine is never changed.

    Each change begins with reading the Node, which is compared here.
    """

    client: NodeApi
    access: Access
    targets: Sequence[Target]
    deleting: bool = False
    waiting: bool = False  # for Nodes that may not be registered yet
    proven: bool = False  # a machine that has told no id has no Node here

    def node(self, name: str) -> Json | None:
        """The Node, None where there is none; it is refused if it is another machine."""
        node = self.client.node(name)
        delete = f"kubectl delete node {name}" if self.deleting else ""
        for target in self.targets:
            if target.name != name:
                continue
            if node is not None:
                server, surely = self.access.server, delete or RESTART
                require_machine(target, node, server, otherwise=surely, proven=self.proven)
            elif not self.waiting:
                require_cluster(target, self.access, otherwise=delete)
        return node

    def patch_node(self, name: str, patch: Mapping[str, Any]) -> Json | None:
        """Change parts of the Node with a merge patch."""
        return self.client.patch_node(name, patch)

    def delete_node(self, name: str) -> bool:
        """Delete the Node; False where there was none."""
        return self.client.delete_node(name)

    def pods_on(self, node: str) -> list[Json]:
        """The pods that are bound to a node."""
        return self.client.pods_on(node)

    def evict(self, namespace: str, name: str) -> str:
        """Evict a pod; returns why the API server does not allow it now, empty: the pod is leaving."""
        return self.client.evict(namespace, name)
