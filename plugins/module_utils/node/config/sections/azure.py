# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The `azure` section: the cluster, the identities, Arc and the VPN."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Network

from ...dataclass import dataclass
from ...secret import Secret
from ..pool import MACHINES_API_VERSION
from ..types.addresses import Network, https_url, network
from ..types.formats import (
    arm_id,
    bootstrap_token,
    guid,
    location,
    machine_name,
    machines_api_version,
    pool_name,
    resource_group,
    secret_text,
    tags,
)
from ..types.kinds import absolute_path, boolean, choice, matching
from ..types.setting import needed, optional_section, section, setting
from ..types.values import ArmId

# cloud -> (Resource Manager, sign-in)
CLOUDS: Mapping[str, tuple[str, str]] = {
    "AzurePublicCloud": ("https://management.azure.com", "https://login.microsoftonline.com"),
    "AzureUSGovernment": ("https://management.usgovcloudapi.net", "https://login.microsoftonline.us"),
    "AzureChinaCloud": ("https://management.chinacloudapi.cn", "https://login.chinacloudapi.cn"),
}


@dataclass(frozen=True, kw_only=True)
class TargetCluster:
    """The AKS cluster to join."""

    resource_id: ArmId | None = setting("resourceId", arm_id, "The AKS cluster.", required="join")
    location: str | None = setting("location", location, "Its region; needed for Arc.")
    node_resource_group: str | None = setting(
        "nodeResourceGroup", resource_group, "AKS's own resource group; AKS's kube-proxy selects nodes by it."
    )


@dataclass(frozen=True, kw_only=True)
class ServicePrincipal:
    """A service principal; all of it or none."""

    client_id: str = needed("clientId", guid, "Application id.")
    client_secret: Secret | None = setting("clientSecret", secret_text, "Its secret; or one of the files.")
    client_secret_file: str | None = setting(
        "clientSecretFile", absolute_path, "A file on the node with the secret."
    )
    client_certificate_file: str | None = setting(
        "clientCertificateFile",
        absolute_path,
        "A PEM file on the node with an RSA key and its certificate, instead of a secret.",
    )
    client_tenant: str = needed("clientTenant", guid, "Tenant of the principal.", aliases=("tenantId",))


@dataclass(frozen=True, kw_only=True)
class ManagedIdentity:
    """The managed identity of an Azure VM; `{}` is the system-assigned one."""

    client_id: str | None = setting("clientId", guid, "A user-assigned identity; absent: system-assigned.")


@dataclass(frozen=True, kw_only=True)
class BootstrapToken:
    """The token with which the kubelet joins, once."""

    token: Secret = needed("token", bootstrap_token, "The bootstrap token.")

    @property
    def id(self) -> str:
        """The part of the token that is not secret, its id."""
        return self.token.reveal().partition(".")[0]

    @property
    def digest(self) -> str:
        """Identifies the whole token, its secret part too, and does not reveal it."""
        import hashlib  # pulls in OpenSSL, which most runs do not need here

        return hashlib.sha256(self.token.reveal().encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Arc:
    """Registration as an Arc-enabled server."""

    enabled: bool = setting(
        "enabled", boolean, "Register the machine with Arc.", default=False, aliases=("autoRegister",)
    )
    machine_name: str | None = setting(
        "machineName",
        machine_name,
        "Name in Arc; absent: the playbook takes the Node name (or the name in the inventory), "
        "`aks-flex-node arc register` the host name.",
    )
    resource_group: str | None = setting(
        "resourceGroup", resource_group, "Resource group of the Arc machine; absent: the cluster's."
    )
    location: str | None = setting("location", location, "Region of the Arc machine; absent: the cluster's.")
    tags: Mapping[str, str] = setting("tags", tags, "Azure tags of the Arc machine.", default={})
    auto_role_assignment: bool = setting(
        "autoRoleAssignment", boolean, "Assign the machine its roles on the cluster.", default=False
    )


@dataclass(frozen=True, kw_only=True)
class Machines:
    """How the machine of this node in a FlexNodes pool is followed."""

    api_version: str = setting(
        "apiVersion",
        machines_api_version,
        "Version of the API of FlexNodes pools; a preview, which Azure replaces from time to time.",
        default=MACHINES_API_VERSION,
    )
    apply: str = setting(
        "apply",
        choice("node-deleted", "at-once"),
        "When a new Kubernetes version is installed: after AKS has drained and deleted the Node, as AKS "
        "expects it of its pools; or as soon as it is seen, with the node's own drain.",
        default="node-deleted",
    )


@dataclass(frozen=True, kw_only=True)
class Vpn:
    """Point-to-site VPN to a private cluster."""

    enabled: bool = setting("enabled", boolean, "Reach the cluster through a VPN.", default=False)
    auto_provision: bool = setting(
        "autoProvision",
        boolean,
        "The controller creates the gateway, and the profile of each machine.",
        default=False,
    )
    p2s_gateway_cidr: Network = setting(
        "p2sGatewayCIDR", network, "Addresses of VPN clients.", default=IPv4Network("192.168.100.0/24")
    )
    gateway_sku: str = setting(
        "gatewaySKU",
        matching("a gateway SKU such as VpnGw2AZ", r"VpnGw[1-5](AZ)?"),
        "Size of the gateway.",
        default="VpnGw2AZ",
    )
    profile: Secret | None = setting(
        "profile",
        secret_text,
        "One complete OpenVPN client profile, with its certificates and its key in it (`<ca>`, `<cert>`, "
        "`<key>`).",
    )


@dataclass(frozen=True, kw_only=True)
class Azure:
    """Everything about Azure; absent ids are derived from the cluster."""

    subscription_id: str | None = setting("subscriptionId", guid, "Subscription; absent: the cluster's.")
    tenant_id: str | None = setting("tenantId", guid, "Tenant; needed with an Azure identity.")
    cloud: str = setting("cloud", choice(*CLOUDS), "Which Azure.", default="AzurePublicCloud")
    resource_manager_endpoint: str | None = setting(
        "resourceManagerEndpoint", https_url, "Resource Manager; absent: the cloud's."
    )
    active_directory_endpoint: str | None = setting(
        "activeDirectoryEndpoint", https_url, "Sign-in; absent: the cloud's."
    )
    target_cluster: TargetCluster = section("targetCluster", TargetCluster)
    target_agent_pool_name: str | None = setting(
        "targetAgentPoolName",
        pool_name,
        "The FlexNodes pool of the cluster that this machine belongs to; absent: none.",
    )
    machines: Machines = section("machines", Machines)
    service_principal: ServicePrincipal | None = optional_section("servicePrincipal", ServicePrincipal)
    managed_identity: ManagedIdentity | None = optional_section("managedIdentity", ManagedIdentity)
    bootstrap_token: BootstrapToken | None = optional_section("bootstrapToken", BootstrapToken)
    arc: Arc = section("arc", Arc)
    vpn: Vpn = section("vpn", Vpn)

    @property
    def resource_manager(self) -> str:
        """Return the base URL of Azure Resource Manager."""
        return self.resource_manager_endpoint or CLOUDS[self.cloud][0]

    @property
    def sign_in(self) -> str:
        """Return the base URL of Entra ID."""
        return self.active_directory_endpoint or CLOUDS[self.cloud][1]
