# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An AKS cluster: what it determines of a node's configuration, and access to its API server."""

from __future__ import annotations

import base64
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....node.config.types.values import ArmId
from ....node.errors import ConfigInvalid, FlexNodeError, Problem
from ...cluster.kubeconfig import Access, access_of
from ...members import IN_OPTIONS, not_a_cluster
from ..arm import Json, explaining
from ..clouds import AKS_SCOPE, Endpoints
from ..errors import AzureRefuses, ClusterUnusable, PermissionMissing
from ..login import Login

CONTAINERSERVICE_ERROR = YAML_ERROR = ""
try:
    from azure.mgmt.containerservice import ContainerServiceClient
except ImportError:
    CONTAINERSERVICE_ERROR = traceback.format_exc()
try:
    import yaml
except ImportError:
    YAML_ERROR = traceback.format_exc()

# Both requests only read: they may be repeated.
RETRIED = frozenset(("GET", "POST"))
ADMIN, USER = "listClusterAdminCredential", "listClusterUserCredential"


def cluster_document(
    managed_cluster: Mapping[str, Any], access: Access, endpoints: Endpoints, tenant: str = ""
) -> Json:
    """The part of a node's configuration that its cluster determines, from ARM's JSON and a kubeconfig."""
    properties = managed_cluster.get("properties") or {}
    network = properties.get("networkProfile") or {}
    ca = base64.b64encode(access.ca_pem.encode()).decode()
    document: Json = _filled(
        {
            **cluster_part(managed_cluster, endpoints, tenant),
            # The version that runs; the other one was requested, perhaps only as "1.34".
            "kubernetes": {
                "version": properties.get("currentKubernetesVersion") or properties.get("kubernetesVersion")
            },
            "node": {
                "kubelet": {
                    "dnsServiceIP": network.get("dnsServiceIP"),
                    "serverURL": access.server,
                    "caCertData": ca,
                    "clientCAData": ca,
                }
            },
        }
    )
    return document


def cluster_part(managed_cluster: Mapping[str, Any], endpoints: Endpoints, tenant: str = "") -> Json:
    """What a cluster determines for any source: where it is, and its address ranges."""
    properties = managed_cluster.get("properties") or {}
    network = properties.get("networkProfile") or {}
    cluster = ArmId.parse(str(managed_cluster["id"]))
    part: Json = _filled(
        {
            "azure": {
                **endpoints.document(),
                "subscriptionId": cluster.subscription_id,
                "tenantId": tenant_of(managed_cluster) or tenant,
                "targetCluster": {
                    "resourceId": cluster.canonical(),
                    "location": managed_cluster.get("location"),
                    "nodeResourceGroup": properties.get("nodeResourceGroup"),
                },
            },
            "network": {"serviceCIDR": network.get("serviceCidr"), "podCIDR": network.get("podCidr")},
        }
    )
    return part


def tenant_of(managed_cluster: Mapping[str, Any]) -> str:
    """The tenant of the cluster's identity or of its Entra integration, if the cluster has either."""
    identity = managed_cluster.get("identity") or {}
    entra = (managed_cluster.get("properties") or {}).get("aadProfile") or {}
    return str(identity.get("tenantId") or entra.get("tenantID") or "")


def summary(managed_cluster: Mapping[str, Any]) -> Json:
    """More properties of a cluster."""
    properties = managed_cluster.get("properties") or {}
    return {
        "name": managed_cluster.get("name", ""),
        "location": managed_cluster.get("location", ""),
        "kubernetes_version": properties.get("currentKubernetesVersion")
        or properties.get("kubernetesVersion", ""),
        "provisioning_state": properties.get("provisioningState", ""),
        "power_state": (properties.get("powerState") or {}).get("code", ""),
        "local_accounts": not properties.get("disableLocalAccounts", False),
        "node_resource_group": properties.get("nodeResourceGroup", ""),
        "network_plugin": (properties.get("networkProfile") or {}).get("networkPlugin", ""),
    }


def kubeconfig_order(*, local_accounts: bool | None, admin: bool) -> tuple[str, ...]:
    """Which credentials to request, in this order.

    For the URL and CA a user's credential is enough. For changes an administrator's certificate is requested
    first, unless the cluster has no local accounts.
    """
    if not admin:
        return (USER, ADMIN) if local_accounts is not False else (USER,)
    return (ADMIN, USER) if local_accounts is not False else (USER,)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The AKS clusters that a login can see."""

    login: Login

    def get(self, cluster: ArmId) -> Json:
        """The cluster as ARM describes it."""
        path = cluster.canonical()
        with explaining(self.login, "GET", path):
            found: Json = self._client(cluster).managed_clusters.get(
                cluster.resource_group, cluster.name, cls=_wire
            )
        return found

    def access(
        self, cluster: ArmId, *, admin: bool, local_accounts: bool | None = None, context: str = ""
    ) -> Access:
        """URL and CA of the API server, and with `admin` credentials."""
        refused: list[FlexNodeError] = []
        for kind in kubeconfig_order(local_accounts=local_accounts, admin=admin):
            try:
                access = access_of(self._kubeconfig(cluster, kind), "", context, str(cluster))
            except (PermissionMissing, AzureRefuses) as error:
                # Local accounts are disabled, or the login has the role for the other kubeconfig.
                refused.append(error)
            else:
                if admin and not (access.certificate or access.token):
                    # The kubeconfig names kubelogin; the Azure login gets the same token without it.
                    return access.with_token(self.login.token(AKS_SCOPE))
                return access
        raise refused[0]

    def _kubeconfig(self, cluster: ArmId, kind: str) -> Mapping[str, Any]:
        clusters = self._client(cluster).managed_clusters
        ask = (
            clusters.list_cluster_admin_credentials
            if kind == ADMIN
            else clusters.list_cluster_user_credentials
        )
        with explaining(self.login, "POST", f"{cluster}/{kind}"):
            answer = ask(cluster.resource_group, cluster.name, cls=_wire, retry_on_methods=RETRIED)
        return kubeconfig_in(answer, cluster)

    def _client(self, cluster: ArmId) -> Any:
        endpoints = self.login.endpoints
        return ContainerServiceClient(
            self.login.credential,
            cluster.subscription_id,
            endpoints.resource_manager,
            credential_scopes=[endpoints.scope],
            **self.login.client_options,
        )


def cluster_ids_of(texts: Sequence[str]) -> list[ArmId]:
    """Resource ids, each once; all problems are reported at once."""
    found: list[ArmId] = []
    problems: list[Problem] = []
    for index, text in enumerate(texts):
        try:
            found.append(ArmId.parse(text))
        except ValueError as error:
            problems.append(not_a_cluster(f"cluster_ids[{index}]", text, error))
    if problems:
        raise ConfigInvalid(problems, fix=IN_OPTIONS)
    return list(dict.fromkeys(found))


def described(clusters: Clusters, cluster: ArmId) -> Json:
    """A cluster, and its part of a node's configuration."""
    found = clusters.get(cluster)
    about = summary(found)
    access = clusters.access(cluster, admin=False, local_accounts=about["local_accounts"])
    login = clusters.login
    document = cluster_document(found, access, login.endpoints, login.settings.tenant)
    return {"id": document["azure"]["targetCluster"]["resourceId"], **about, "document": document}


def kubeconfig_in(answer: Mapping[str, Any], cluster: ArmId) -> Mapping[str, Any]:
    """The kubeconfig in ARM's answer: base64 of YAML."""
    where = cluster.canonical()
    try:
        found = yaml.safe_load(base64.b64decode(answer["kubeconfigs"][0]["value"]))
    except (LookupError, TypeError, ValueError, yaml.YAMLError) as error:
        raise ClusterUnusable("Azure returned no kubeconfig for the cluster", where=where) from error
    if not isinstance(found, dict):
        raise ClusterUnusable("Azure returned no kubeconfig for the cluster", where=where)
    return found


def _wire(answer: Any, _model: Any, _headers: Any) -> Json:
    """The answer as JSON: the SDK's models differ between its releases, the API does not."""
    return dict(answer.http_response.json())


def _filled(document: Any) -> Any:
    """Without values that are not known."""
    if not isinstance(document, Mapping):
        return document
    pairs: Iterable[tuple[str, Any]] = ((key, _filled(value)) for key, value in document.items())
    return {key: value for key, value in pairs if value not in (None, "", {})}
