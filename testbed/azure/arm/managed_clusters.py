# SPDX-License-Identifier: GPL-3.0-or-later
"""Microsoft.ContainerService/managedClusters: the AKS cluster, and the ways into it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.azure.arm import errors
from testbed.azure.arm.operation import Answer, Call, Operation, page
from testbed.azure.arm.subscriptions import SUBSCRIPTION, require_group
from testbed.azure.serving.place import Place
from testbed.layout.identifiers import AKS_SERVER

KIND = "Microsoft.ContainerService/managedClusters"
GROUP = f"{SUBSCRIPTION}/resourceGroups/{{group}}"
CLUSTER = f"{GROUP}/providers/{KIND}/{{cluster}}"
KUBELOGIN_CLIENT = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"


def document(
    place: Place, disable_local_accounts: bool, version: str = "", pools: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any]:
    """The cluster as AKS shows it."""
    kubernetes = place.kubernetes
    version = version or kubernetes.version
    host = kubernetes.server.partition("//")[2].partition(":")[0]
    return {
        "id": place.cluster_id,
        "name": place.cluster_name,
        "type": KIND,
        "location": place.location,
        "tags": {},
        "sku": {"name": "Base", "tier": "Standard"},
        "identity": {
            "type": "SystemAssigned",
            "principalId": "00000000-0000-4000-8000-000000000001",
            "tenantId": place.tenant_id,
        },
        "properties": {
            "provisioningState": "Succeeded",
            "powerState": {"code": "Running"},
            "kubernetesVersion": version.rpartition(".")[0],
            "currentKubernetesVersion": version,
            "dnsPrefix": place.cluster_name,
            "fqdn": host,
            "azurePortalFQDN": host,
            "agentPoolProfiles": list(pools),
            "servicePrincipalProfile": {"clientId": "msi"},
            "nodeResourceGroup": place.node_resource_group,
            "enableRBAC": True,
            "supportPlan": "KubernetesOfficial",
            "networkProfile": {
                "networkPlugin": "none",
                "podCidr": kubernetes.pod_cidr,
                "serviceCidr": kubernetes.service_cidr,
                "dnsServiceIP": kubernetes.dns_service_ip,
                "podCidrs": [kubernetes.pod_cidr],
                "serviceCidrs": [kubernetes.service_cidr],
                "ipFamilies": ["IPv4"],
                "loadBalancerSku": "standard",
                "outboundType": "loadBalancer",
            },
            "aadProfile": {
                "managed": True,
                "enableAzureRBAC": True,
                "adminGroupObjectIDs": [],
                "tenantID": place.tenant_id,
            },
            "apiServerAccessProfile": {"enablePrivateCluster": False},
            "disableLocalAccounts": disable_local_accounts,
            "maxAgentPools": 100,
        },
    }


def user_kubeconfig(place: Place) -> dict[str, Any]:
    """What AKS gives to users of a cluster with Entra: no secret, a call of kubelogin."""
    kubernetes, name = place.kubernetes, place.cluster_name
    user = f"clusterUser_{place.resource_group}_{name}"
    arguments = {
        "--environment": "AzurePublicCloud",
        "--server-id": AKS_SERVER,
        "--client-id": KUBELOGIN_CLIENT,
        "--tenant-id": place.tenant_id,
        "--login": "devicecode",
    }
    login = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "kubelogin",
        "args": ["get-token", *(word for pair in arguments.items() for word in pair)],
        "env": None,
        "provideClusterInfo": False,
    }
    authority = base64.b64encode(kubernetes.ca_pem.encode()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"certificate-authority-data": authority, "server": kubernetes.server}}
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
        "preferences": {},
        "users": [{"name": user, "user": {"exec": login}}],
    }


def require(call: Call) -> None:
    """Refuse a cluster that does not exist: the gateway names it for whatever is below it, too."""
    place, wanted = call.cloud.place, call.values["cluster"]
    require_group(call)
    if wanted.lower() != place.cluster_name.lower():
        raise errors.no_resource(KIND, wanted, call.values["group"])


def _system_pool(subnet: str) -> list[dict[str, Any]]:
    """The pool of the cluster's own nodes, in a VNet of the user's."""
    pool = {"name": "system", "mode": "System", "type": "VirtualMachineScaleSets", "count": 1}
    return [{**pool, "vnetSubnetID": subnet, "provisioningState": "Succeeded"}]


def _shown(call: Call) -> dict[str, Any]:
    settings = call.cloud.database.settings
    pools = call.cloud.pools.pools.all()
    own = _system_pool(settings.cluster_subnet_id) if settings.cluster_subnet_id else []
    found = document(
        call.cloud.place,
        settings.disable_local_accounts,
        settings.control_plane_version,
        [*own, *({"name": pool.name, **pool.shown()} for pool in pools)],
    )
    if any(pool.busy for pool in pools):  # an operation on a pool is one on its cluster
        found["properties"]["provisioningState"] = "Updating"
    return found


def _credential(name: str, text: str) -> Answer:
    return Answer(200, {"kubeconfigs": [{"name": name, "value": base64.b64encode(text.encode()).decode()}]})


def get(call: Call) -> Answer:
    """The cluster."""
    require(call)
    return Answer(200, _shown(call))


def listed(call: Call) -> Answer:
    """The clusters of a subscription or a resource group, as far as the caller may see them."""
    place, principal = call.cloud.place, call.principal
    scope = f"/subscriptions/{place.subscription_id}"
    if "group" in call.values:
        scope += f"/resourceGroups/{call.values['group']}"
    action = f"{KIND}/read"
    for where in (scope, place.cluster_id):
        if call.cloud.grants.allows(principal.object_id, action, where):
            break
    else:
        raise errors.forbidden(principal.client_id, principal.object_id, action, scope)
    if "group" in call.values:
        require_group(call)
    return Answer(200, page(call, [_shown(call)]))


def admin_credential(call: Call) -> Answer:
    """The kubeconfig of the local administrator."""
    require(call)
    if call.cloud.database.settings.disable_local_accounts:
        message = (
            "Getting static credential is not allowed because this cluster is set to disable local accounts."
        )
        raise errors.invalid(message, "BadRequest")
    return _credential("clusterAdmin", call.cloud.provider.admin_kubeconfig())


def user_credential(call: Call) -> Answer:
    """The kubeconfig of Entra users."""
    require(call)
    wanted = call.query.get("format", "exec")
    if wanted not in ("azure", "exec"):
        raise errors.invalid(f"The value of parameter format is invalid: {wanted}.")
    text = json.dumps(user_kubeconfig(call.cloud.place), indent=1) + "\n"
    return _credential("clusterUser", text)


OPERATIONS = (
    # Who may read a cluster sees it in lists, though it may not read all of what is listed.
    Operation("GET", f"{SUBSCRIPTION}/providers/{KIND}", "", listed),
    Operation("GET", f"{GROUP}/providers/{KIND}", "", listed),
    Operation("GET", CLUSTER, f"{KIND}/read", get),
    Operation(
        "POST",
        f"{CLUSTER}/listClusterAdminCredential",
        f"{KIND}/listClusterAdminCredential/action",
        admin_credential,
        over=CLUSTER,
    ),
    Operation(
        "POST",
        f"{CLUSTER}/listClusterUserCredential",
        f"{KIND}/listClusterUserCredential/action",
        user_credential,
        over=CLUSTER,
    ),
)
