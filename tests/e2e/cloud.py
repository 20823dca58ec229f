# SPDX-License-Identifier: GPL-3.0-or-later
"""A user of Azure: an identity with some rights, an inventory without fifty fields, the recorded calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.storage.blob import BlobServiceClient, ContainerClient

from testbed import Testbed
from testbed.document import SITE
from testbed.machine import Machine
from testbed.playbooks import Play, play, write_inventory

ROLE = "Azure Kubernetes Service Contributor Role"
# Where local accounts are disabled: read the cluster, and be its administrator by an Entra token.
ENTRA_ROLES = ("Azure Kubernetes Service Cluster User Role", "Azure Kubernetes Service RBAC Cluster Admin")
TOKENS = ("get", "secrets", "--namespace=kube-system", "--field-selector=type=bootstrap.kubernetes.io/token")


@dataclass(frozen=True)
class Operator:
    """Somebody with an Azure identity, as the environment variables say."""

    bed: Testbed
    environment: Mapping[str, str]

    def inventory(
        self,
        path: Path,
        source: str,
        machines: Sequence[Machine],
        host_configs: Mapping[str, Mapping[str, Any]] | None = None,
        **config: Any,
    ) -> Path:
        """Host names, the cluster's id, the source, and where this site keeps programs and images."""
        document = self.bed.node_document()
        return write_inventory(
            self.bed,
            machines,
            path,
            host_configs=host_configs,
            flexnode_config_source=source,
            flexnode_cluster_id=self.bed.azure.cluster_id,
            flexnode_config_url_ca_cert=self.bed.ca_pem,
            flexnode_blob_account_url=self.bed.blob.account_url,
            flexnode_blob_account_key=self.bed.blob.account_key,
            flexnode_config={**{part: document[part] for part in SITE}, **config},
        )

    def play(self, playbook: str, inventory: Path, *options: str) -> Play:
        """Run a playbook with this identity."""
        return play(playbook, inventory, *options, environment=self.environment)

    def calls(self, method: str, ending: str) -> int:
        """How often Azure was asked that."""
        return sum(
            request.method == method and request.path.lower().endswith(ending.lower())
            for request in self.bed.azure.requests()
        )


def operator(bed: Testbed, name: str, *roles: str) -> Operator:
    """A new identity that has some roles on the cluster."""
    principal = bed.azure.app_registration(name)
    for role in roles:
        bed.azure.grant(principal, role, bed.azure.cluster_id)
    return Operator(bed, bed.azure.environment(principal))


def container(bed: Testbed, name: str) -> ContainerClient:
    """A container of the users' storage account, with all rights."""
    service = BlobServiceClient.from_connection_string(
        bed.blob.connection_string, connection_verify=str(bed.ca_file)
    )
    return service.get_container_client(name)


def token_names(bed: Testbed) -> set[str]:
    """Bootstrap tokens that the cluster knows."""
    return set(bed.cluster.kubectl(*TOKENS, "--output=name").split())


def minted_tokens(bed: Testbed) -> set[str]:
    """Those that the collection minted: tests beside this one make others by hand."""
    return set(bed.cluster.kubectl(*TOKENS, "--selector=aks.flexnode/token", "--output=name").split())
