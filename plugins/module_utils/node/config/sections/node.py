# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The machine as a node: labels, taints, kubelet, network, directories, agent, proxy."""

from __future__ import annotations

from collections.abc import Mapping

from ...dataclass import dataclass
from ...secret import Secret
from ..types.addresses import Address, Network, address, https_origin, network, node_ip, pem_base64, proxy_url
from ..types.formats import dns_name, quantities, thresholds
from ..types.kinds import (
    absolute_path,
    choice,
    integer,
    line,
    list_of,
    log_directory,
    log_path,
    own_directory,
)
from ..types.labels import labels, taints
from ..types.setting import section, setting
from ..types.values import Certificates, Taint

DEFAULT_LOG_DIR = "/var/log/aks-flex-node"
# As AKS sets them since 1.29.
EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "pid.available": "2000",
}


@dataclass(frozen=True, kw_only=True)
class Kubelet:
    """How the kubelet reaches the cluster and treats the machine."""

    dns_service_ip: Address | None = setting(
        "dnsServiceIP",
        address,
        "Cluster DNS; absent: the tenth address of network.serviceCIDR, else 10.0.0.10.",
    )
    server_url: str | None = setting("serverURL", https_origin, "The API server.", required="join")
    ca_cert_data: Certificates | None = setting(
        "caCertData", pem_base64, "The cluster's CA.", required="join"
    )
    client_ca_file: str | None = setting(
        "clientCAFile", absolute_path, "A file on the node with the CA of the kubelet's clients (logs, exec)."
    )
    client_ca_data: Certificates | None = setting(
        "clientCAData", pem_base64, "The same CA, inline; absent: the cluster's CA."
    )
    kube_reserved: Mapping[str, str] | None = setting(
        "kubeReserved", quantities, "Reserved for Kubernetes; absent: computed from the machine, as AKS does."
    )
    system_reserved: Mapping[str, str] = setting(
        "systemReserved", quantities, "Reserved for the system.", default={}
    )
    eviction_hard: Mapping[str, str] = setting(
        "evictionHard", thresholds, "When pods are evicted.", default=EVICTION_HARD
    )
    image_gc_high_threshold: int = setting(
        "imageGCHighThreshold", integer(1, 100), "Per cent of disk at which images are removed.", default=85
    )
    image_gc_low_threshold: int = setting(
        "imageGCLowThreshold", integer(0, 99), "Per cent of disk at which that stops.", default=80
    )
    node_ip: tuple[Address, ...] | None = setting("nodeIP", node_ip, "Address of the node.")
    verbosity: int = setting("verbosity", integer(0, 10), "Log verbosity.", default=2)


@dataclass(frozen=True, kw_only=True)
class Node:
    """The Node as the cluster sees it."""

    max_pods: int = setting("maxPods", integer(1, 500), "Maximum number of pods on this node.", default=110)
    labels: Mapping[str, str] = setting("labels", labels, "Labels of the Node.", default={})
    taints: tuple[Taint, ...] = setting("taints", taints, "Taints of the Node.", default=())
    kubelet: Kubelet = section("kubelet", Kubelet)


@dataclass(frozen=True, kw_only=True)
class ClusterNetwork:
    """Addresses of the cluster, for NO_PROXY and against overlaps."""

    service_cidr: Network | None = setting("serviceCIDR", network, "Services.")
    pod_cidr: Network | None = setting("podCIDR", network, "Pods of the whole cluster.")
    vnet_cidrs: tuple[Network, ...] = setting(
        "vnetCIDRs", list_of(network), "The cluster's VNet.", default=()
    )


def _directory(key: str, about: str, default: str) -> str:
    return setting(key, own_directory, about, default=default)


@dataclass(frozen=True, kw_only=True)
class KubernetesPaths:
    """Directories of Kubernetes."""

    config_dir: str = _directory("configDir", "Kubernetes' configuration.", "/etc/kubernetes")
    certs_dir: str = _directory("certsDir", "Certificates.", "/etc/kubernetes/certs")
    manifests_dir: str = _directory("manifestsDir", "Static pods.", "/etc/kubernetes/manifests")
    volume_plugin_dir: str = _directory("volumePluginDir", "Volume plugins.", "/etc/kubernetes/volumeplugins")
    kubelet_dir: str = _directory("kubeletDir", "State of the kubelet.", "/var/lib/kubelet")


@dataclass(frozen=True, kw_only=True)
class CniPaths:
    """Directories of CNI."""

    bin_dir: str = _directory("binDir", "Plugins.", "/opt/cni/bin")
    conf_dir: str = _directory("confDir", "Networks.", "/etc/cni/net.d")
    lib_dir: str = _directory("libDir", "State.", "/var/lib/cni")


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Directories on the machine."""

    config_dir: str = _directory("configDir", "Our configuration.", "/etc/aks-flex-node")
    data_dir: str = _directory("dataDir", "Our state.", "/var/lib/aks-flex-node")
    log_dir: str = setting(
        "logDir", log_directory, "Logs; agent.logDir says the same.", default=DEFAULT_LOG_DIR
    )
    kubernetes: KubernetesPaths = section("kubernetes", KubernetesPaths)
    cni: CniPaths = section("cni", CniPaths)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """The aks-flex-node command on the machine."""

    log_level: str = setting(
        "logLevel", choice("debug", "info", "warning", "error"), "How much is logged.", default="info"
    )
    log_dir: str | None = setting("logDir", log_directory, "Logs; absent: paths.logDir.")
    log_file: str | None = setting("logFile", log_path, "The log file; absent: agent.log in logDir.")
    node_name: str | None = setting("nodeName", dns_name, "Name of the Node; absent: the host name.")


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """The site's proxy, for downloads, images and Azure."""

    http: Secret | None = setting("http", proxy_url, "Proxy of http:// URLs.")
    https: Secret | None = setting("https", proxy_url, "Proxy of https:// URLs.")
    # YAML 1.1 reads an unquoted `no` as false, also where it is a key.
    no: tuple[str, ...] = setting(
        "no",
        list_of(line, commas=True),
        "Hosts and CIDRs that are reached directly; the cluster's own are added.",
        default=(),
        aliases=("noProxy", "false"),
    )
