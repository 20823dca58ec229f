# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The whole document as a type: all sections, and values that are derived from several of them."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

from ..dataclass import dataclass
from ..errors import NOT_SET, ConfigInvalid, Problem
from .sections.azure import Azure
from .sections.node import Agent, ClusterNetwork, Node, Paths, Proxy
from .sections.pull import Pull
from .sections.software import Cni, Containerd, Kubernetes, Mirror, Npd, Runc
from .types.addresses import Address
from .types.formats import registry_mirrors
from .types.kinds import boolean, choice, integer, kubelet_settings, list_of, matching
from .types.labels import label_key, label_value
from .types.setting import section, setting
from .types.values import ApiServer, ArmId, RegistryMirror

KUBELET_METHODS = ("bootstrapToken", "servicePrincipal", "managedIdentity", "arc")
AZURE_METHODS = KUBELET_METHODS[1:]
AKS_DNS = IPv4Address("10.0.0.10")


@dataclass(frozen=True, kw_only=True)
class KubernetesAuth:
    """How the kubelet authenticates; `method` is resolved from what is present."""

    method: str | None = setting(
        "method", choice(*KUBELET_METHODS), "The kubelet's credential; absent: what is present."
    )
    use_azure_auth: bool | None = setting("useAzureAuth", boolean, "The same identity as azureAuth.")
    profile: str = setting(
        "profile",
        choice("certificate", "token"),
        "certificate: the identity only gets the kubelet's certificate; token: the kubelet always uses it.",
        default="certificate",
    )


@dataclass(frozen=True, kw_only=True)
class AzureAuth:
    """How the node authenticates to Azure; None: it does not."""

    method: str | None = setting(
        "method", choice(*AZURE_METHODS), "The node's Azure identity; absent: what is present."
    )


@dataclass(frozen=True, kw_only=True)
class DriftPolicy:
    """What is done when the machine differs from its configuration."""

    mode: str = setting(
        "mode", choice("repair", "report", "off", false="off"), "What to do about drift.", default="repair"
    )
    interval: int = setting("interval", integer(30, 86400), "Seconds between full checks.", default=150)


@dataclass(frozen=True, kw_only=True)
class UpgradePolicy:
    """How updates are rolled out."""

    drain: str = setting(
        "drain",
        choice("never", "minor", "always"),
        "When pods leave the node before an update: for a new minor of Kubernetes, for every restart of the "
        "kubelet or containerd, or never. For a new containerd major they always do.",
        default="minor",
    )
    drain_seconds: int = setting(
        "drainSeconds",
        integer(1, 86400),
        "How long pods may take to leave; afterwards the update is given up, and nothing has changed.",
        default=300,
    )
    allow_downgrade: bool = setting(
        "allowDowngrade",
        boolean,
        "Also install an older Kubernetes version than the present one.",
        default=False,
    )
    gate_seconds: int = setting("gateSeconds", integer(10, 3600), "How long a gate waits.", default=120)
    max_unavailable: int | None = setting(
        "maxUnavailable",
        integer(1, 5000),
        "How many nodes of the cluster may restart the kubelet or containerd at a time, whoever changes "
        "them; absent: no limit.",
    )
    rings: tuple[str, ...] = setting(
        "rings",
        list_of(label_value),
        "The order in which nodes get new software: values of the label ringLabel. All others come last.",
        default=("canary",),
    )
    ring_label: str = setting(
        "ringLabel", label_key, "The label of a Node that names its ring.", default="aks.flexnode/ring"
    )
    soak_seconds: int = setting(
        "soakSeconds",
        integer(0, 604800),
        "How long the next ring waits after the last node of a ring.",
        default=0,
    )
    max_rolled_back: int = setting(
        "maxRolledBack",
        integer(0, 5000),
        "How many nodes of a ring may be rolled back; one more stops the rollout.",
        default=0,
    )
    wait_seconds: int = setting(
        "waitSeconds",
        integer(0, 86400),
        "How long a playbook or a command at the machine waits for its turn. Polls and ansible-pull do not "
        "wait.",
        default=600,
    )


_task_files = list_of(matching("an absolute path of a YAML file of tasks", r"/[^\x00-\x1f]+\.ya?ml"))


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Task files of the team that playbooks include around the roles."""

    before: tuple[str, ...] = setting("before", _task_files, "Run before the first role.", default=())
    after: tuple[str, ...] = setting("after", _task_files, "Run after the last role.", default=())


@dataclass(frozen=True, kw_only=True)
class KubeletOverrides:
    """Settings of the kubelet's own configuration file."""

    config_overrides: Mapping[str, Any] = setting(
        "configOverrides",
        kubelet_settings,
        "Merged over the KubeletConfiguration that is written.",
        default={},
    )


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """One machine's configuration, checked and complete."""

    continuous_monitoring: bool = setting(
        "continuousMonitoring", boolean, "Follow the configuration and repair drift.", default=False
    )
    azure: Azure = section("azure", Azure)
    kubernetes_auth: KubernetesAuth = section("kubernetesAuth", KubernetesAuth)
    azure_auth: AzureAuth = section("azureAuth", AzureAuth)
    kubernetes: Kubernetes = section("kubernetes", Kubernetes)
    containerd: Containerd = section("containerd", Containerd)
    runc: Runc = section("runc", Runc)
    cni: Cni = section("cni", Cni)
    npd: Npd = section("npd", Npd)
    network: ClusterNetwork = section("network", ClusterNetwork)
    node: Node = section("node", Node)
    paths: Paths = section("paths", Paths)
    agent: Agent = section("agent", Agent)
    proxy: Proxy = section("proxy", Proxy)
    mirror: Mirror = section("mirror", Mirror)
    registry_mirrors: Mapping[str, RegistryMirror] = setting(
        "registryMirrors", registry_mirrors, "Where images are pulled from instead.", default={}
    )
    drift: DriftPolicy = section("drift", DriftPolicy)
    upgrade: UpgradePolicy = section("upgrade", UpgradePolicy)
    pull: Pull = section("pull", Pull)
    hooks: Hooks = section("hooks", Hooks)
    takeover: bool = setting(
        "takeover",
        boolean,
        "Replace a containerd or kubelet that this collection did not install; unbootstrap restores its "
        "files. Other software such as docker or k3s is accepted, and keeps running.",
        default=False,
    )
    write_admin_conf: bool = setting(
        "writeAdminConf",
        boolean,
        "Write admin.conf: the cluster's admin credential, fetched from Azure; for root only.",
        default=False,
    )
    kubelet: KubeletOverrides = section("kubelet", KubeletOverrides)

    @property
    def node_name(self) -> str | None:
        """Return the configured name of the Node; None: the host name."""
        return self.agent.node_name

    @property
    def log_file(self) -> str:
        """Return the file the command logs to."""
        return self.agent.log_file or f"{self.paths.log_dir}/agent.log"

    @property
    def cluster_dns(self) -> Address:
        """Return the IP address of the cluster's DNS; AKS's default if the document does not set it."""
        services = self.network.service_cidr
        return self.node.kubelet.dns_service_ip or (services[10] if services else AKS_DNS)

    @property
    def cluster_id(self) -> ArmId:
        """Return the cluster's id; a document read for `prepare` may have none."""
        if self.azure.target_cluster.resource_id is None:
            raise _needed_to_join("azure.targetCluster.resourceId", "the resource id of the cluster")
        return self.azure.target_cluster.resource_id

    @property
    def api_server(self) -> ApiServer:
        """Return URL and CA of the API server; a document read for `prepare` may have none."""
        kubelet = self.node.kubelet
        if kubelet.server_url is None or kubelet.ca_cert_data is None:
            raise _needed_to_join(
                "node.kubelet.serverURL or node.kubelet.caCertData", "both, as in a kubeconfig of the cluster"
            )
        return ApiServer(kubelet.server_url, kubelet.ca_cert_data)


def _needed_to_join(path: str, accepted: str) -> ConfigInvalid:
    return ConfigInvalid([Problem(path, NOT_SET, accepted, "joining a cluster needs it")])
