# SPDX-License-Identifier: GPL-3.0-or-later
"""What the provider does in the cluster, and what it sees there."""

from __future__ import annotations

import datetime
import threading
import time
from pathlib import Path
from typing import Any

import requests

from testbed.azure.authorization.grants import Assignment
from testbed.cluster import rbac, token
from testbed.cluster.api import Api, ApiError
from testbed.layout.pki import Pair

SECRETS = "/api/v1/namespaces/kube-system/secrets"
REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RBAC = "rbac.authorization.k8s.io"
BINDINGS = f"/apis/{RBAC}/v1/clusterrolebindings"
OURS = "testbed.azure/role-assignment"
FRESH_SECONDS = 1


def binding(assignment: Assignment) -> dict[str, Any]:
    """The Kubernetes side of a role assignment: the principal is known there by its object id."""
    definition = assignment.definition
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"azure-{assignment.name}", "labels": {OURS: assignment.name}},
        "roleRef": {
            "apiGroup": RBAC,
            "kind": "ClusterRole",
            "name": definition.cluster_role if definition else "",
        },
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": assignment.principal_id}],
    }


class Cluster:
    """The API server, with the rights of AKS itself."""

    def __init__(self, server: str, ca_file: Path, identity: Pair) -> None:
        self._api = Api(server, ca_file, identity)
        self._lock = threading.Lock()
        self._read = 0.0
        self._nodes: dict[str, dict[str, Any]] = {}
        self._leases: dict[str, dict[str, Any]] = {}

    def create_token(self, expires: datetime.datetime) -> str:
        """A new bootstrap token."""
        created = token.random_token()
        self._api.post(SECRETS, token.secret(created, expires))
        return created

    def create_pool_token(self, pool: str, expires: datetime.datetime) -> str:
        """A new bootstrap token for the machines of a FlexNodes pool."""
        created = token.random_token()
        about = f"AKS FlexNodes pool {pool}"
        self._api.post(SECRETS, token.secret(created, expires, (rbac.POOL_GROUP,), about))
        return created

    def delete_token(self, token_id: str) -> None:
        """Take a token away."""
        self._delete(f"{SECRETS}/bootstrap-token-{token_id}")

    def requests(self) -> dict[str, bool]:
        """By the id of each token that was used to ask for a certificate: whether one was issued."""
        selector = "spec.signerName=kubernetes.io/kube-apiserver-client-kubelet"
        found: dict[str, bool] = {}
        for item in self._api.get(REQUESTS, fieldSelector=selector)["items"]:
            prefix, _, token_id = str(item["spec"].get("username", "")).rpartition(":")
            if prefix == "system:bootstrap":
                issued = bool(item.get("status", {}).get("certificate"))
                found[token_id] = issued or found.get(token_id, False)
        return found

    def node(self, name: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """A Node and its lease; all are read together, at most once a second."""
        with self._lock:
            if time.monotonic() - self._read > FRESH_SECONDS:
                self._nodes = self._by_name("/api/v1/nodes")
                self._leases = self._by_name(LEASES)
                self._read = time.monotonic()
            return self._nodes.get(name), self._leases.get(name)

    def bind(self, wanted: list[Assignment]) -> None:
        """Create and delete bindings until they are exactly those of these assignments."""
        names = {f"azure-{one.name}": one for one in wanted}
        there = self._api.get(BINDINGS, labelSelector=OURS)["items"]
        existing = {str(item["metadata"]["name"]) for item in there}
        for name in sorted(existing - set(names)):
            self._delete(f"{BINDINGS}/{name}")
        for name in sorted(set(names) - existing):
            self._api.post(BINDINGS, binding(names[name]))

    def _by_name(self, path: str) -> dict[str, dict[str, Any]]:
        return {str(item["metadata"]["name"]): item for item in self._api.get(path)["items"]}

    def _delete(self, path: str) -> None:
        try:
            self._api.delete(path)
        except ApiError as error:
            if error.status != requests.codes.not_found:
                raise
