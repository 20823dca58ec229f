# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kubelet: its credentials, its configuration and its unit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..config.model import NodeConfig
from ..config.types.kinds import kubelet_credentials
from ..machine.facts import Facts
from ..machine.layout import BIN_DIR, CONTAINERD_SOCKET, KUBELET, UNIT_DIR
from ..machine.layout import KUBELET_DEFAULTS as DEFAULTS
from ..resources.admin_conf import AdminConf
from ..resources.base import HIDDEN, Resource
from ..resources.kubeconfig import Kubeconfig
from ..resources.paths import File
from . import exec_plugin
from .labels import node_labels, node_name
from .system_config import HEADER, SYSCTL_FILE

REGISTRATION = "/etc/default/kubelet-registration"
CONFIG = "/etc/default/kubeletconfig.json"  # the path on AKS's own nodes

# Forward secrecy and authenticated encryption only; TLS 1.3 suites are not configurable and always on.
CIPHERS = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
)


def resources(config: NodeConfig, facts: Facts) -> list[Resource]:
    """Everything that the kubelet reads. What it reads only to register its Node needs no restart."""
    return [
        File(cluster_ca(config), config.api_server.ca.pem, restarts=(KUBELET,)),
        *_client_ca(config),
        *_admin_conf(config),
        *(_token_access(config) if exec_plugin.uses_tokens(config) else _certificate_access(config, facts)),
        # Overrides may contain a credential: only root reads it.
        File(CONFIG, kubelet_config(config, facts), 0o600, restarts=(KUBELET,), masked=without_credentials),
        File(DEFAULTS, defaults(config, facts), restarts=(KUBELET,)),
        File(REGISTRATION, registration(config)),
        File(f"{UNIT_DIR}/{KUBELET}.d/10-containerd.conf", CONTAINERD_DROP_IN, restarts=(KUBELET,)),
        File(f"{UNIT_DIR}/{KUBELET}.d/10-kubeadm.conf", kubeadm_drop_in(config), restarts=(KUBELET,)),
        File(f"{UNIT_DIR}/{KUBELET}", UNIT, restarts=(KUBELET,)),
    ]


def _admin_conf(config: NodeConfig) -> list[Resource]:
    """A credential of the cluster's administrators, only if asked for: no part of the node uses it."""
    if not config.write_admin_conf:
        return []
    digest = hashlib.sha256(config.api_server.ca.pem.strip().encode()).hexdigest()[:12]
    path = f"{config.paths.kubernetes.config_dir}/admin.conf"
    return [AdminConf(path, f"{config.cluster_id} (CA {digest})")]


def _certificate_access(config: NodeConfig, facts: Facts) -> list[Resource]:
    """The kubelet requests a certificate once, and renews it.

    The bootstrap kubeconfig is read only without a certificate: a joined kubelet does not use a new token.
    """
    kubelet_dir = config.paths.kubernetes.kubelet_dir
    restarts = () if facts.joined else (KUBELET,)
    return [
        *exec_plugin.resources(config, restarts),
        bootstrap_file(config, restarts),
        Kubeconfig(
            f"{kubelet_dir}/kubeconfig",
            config.api_server.url,
            cluster_ca(config),
            kubelet_identity(config),
            restarts=(KUBELET,),
        ),
    ]


def _token_access(config: NodeConfig) -> list[Resource]:
    """The kubelet uses Entra tokens; a new identity restarts it, so that the gate tests that identity."""
    return [
        *exec_plugin.resources(config, (KUBELET,)),
        File(
            kubelet_identity(config), kubeconfig(config, exec_plugin.user(config)), 0o600, restarts=(KUBELET,)
        ),
    ]


def cluster_ca(config: NodeConfig) -> str:
    """The file with the cluster's CA."""
    return f"{config.paths.kubernetes.certs_dir}/ca.crt"


def kubelet_identity(config: NodeConfig) -> str:
    """The credential of a joined kubelet: its certificate, which it renews; or its token kubeconfig."""
    directory = config.paths.kubernetes.kubelet_dir
    if exec_plugin.uses_tokens(config):
        return f"{directory}/token-kubeconfig"
    return f"{directory}/pki/kubelet-client-current.pem"


def _client_ca_file(config: NodeConfig) -> str:
    """The CA of the kubelet's clients (logs, exec): AKS uses the cluster's CA."""
    kubelet = config.node.kubelet
    if kubelet.client_ca_file:
        return kubelet.client_ca_file
    return (
        f"{config.paths.kubernetes.certs_dir}/client-ca.crt" if kubelet.client_ca_data else cluster_ca(config)
    )


def _client_ca(config: NodeConfig) -> list[Resource]:
    data = config.node.kubelet.client_ca_data
    return [File(_client_ca_file(config), data.pem, restarts=(KUBELET,))] if data else []


def bootstrap_file(config: NodeConfig, restarts: tuple[str, ...]) -> File:
    """The file with the credential of the join."""
    path = f"{config.paths.kubernetes.kubelet_dir}/bootstrap-kubeconfig"
    return File(path, bootstrap_kubeconfig(config), 0o600, restarts=restarts, secret=True)


def bootstrap_kubeconfig(config: NodeConfig) -> str:
    """The kubeconfig with which the kubelet requests its first certificate."""
    if exec_plugin.identity_method(config):
        return kubeconfig(config, exec_plugin.user(config))
    token = config.azure.bootstrap_token
    return kubeconfig(config, {"token": token.token.reveal() if token else ""})


def kubeconfig(config: NodeConfig, user: Mapping[str, Any], name: str = "bootstrap") -> str:
    """A kubeconfig of the cluster with one user."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "cluster",
                "cluster": {"server": config.api_server.url, "certificate-authority": cluster_ca(config)},
            }
        ],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "cluster", "user": name}}],
        "current-context": name,
    }
    return json.dumps(document, indent=2) + "\n"


def kubelet_config(config: NodeConfig, facts: Facts) -> str:
    """The KubeletConfiguration, as JSON."""
    paths, kubelet = config.paths.kubernetes, config.node.kubelet
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": _client_ca_file(config)},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "systemd",
        "clusterDNS": [str(config.cluster_dns)],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": CONTAINERD_SOCKET,
        "evictionHard": dict(sorted(kubelet.eviction_hard.items())),
        "failSwapOn": True,
        "imageGCHighThresholdPercent": kubelet.image_gc_high_threshold,
        "imageGCLowThresholdPercent": kubelet.image_gc_low_threshold,
        "kubeReserved": dict(sorted((kubelet.kube_reserved or kube_reserved(config, facts)).items())),
        "logging": {"verbosity": kubelet.verbosity},
        "maxPods": config.node.max_pods,
        "nodeStatusUpdateFrequency": "10s",
        "protectKernelDefaults": True,
        "readOnlyPort": 0,
        "resolvConf": facts.resolv_conf,
        "rotateCertificates": not exec_plugin.uses_tokens(config),
        "runtimeRequestTimeout": "15m",
        "serializeImagePulls": False,
        "staticPodPath": paths.manifests_dir,
        "streamingConnectionIdleTimeout": "4h",
        "systemReserved": dict(sorted(kubelet.system_reserved.items())),
        "tlsCipherSuites": list(CIPHERS),
        "tlsMinVersion": "VersionTLS12",
        "volumePluginDir": paths.volume_plugin_dir,
    }
    if not facts.cgroup_v2 and config.kubernetes.version.line >= (1, 31):
        # From 1.35 the kubelet refuses cgroup v1 by default; the field exists since 1.31.
        document["failCgroupV1"] = False
    return json.dumps(overlaid(document, config.kubelet.config_overrides), indent=2) + "\n"


def without_credentials(text: str) -> str:
    """The kubelet's configuration as a diff may show it."""
    try:
        document = json.loads(text)
    except ValueError:
        return HIDDEN + "\n"
    if isinstance(document, dict):
        document.update(dict.fromkeys(kubelet_credentials(document), HIDDEN))
    return json.dumps(document, indent=2) + "\n"


def overlaid(document: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides merged over a document: mappings merge, everything else is replaced."""
    merged = dict(document)
    for key, value in over.items():
        known = merged.get(key)
        merged[key] = (
            overlaid(known, value) if isinstance(known, dict) and isinstance(value, Mapping) else value
        )
    return merged


def kube_reserved(config: NodeConfig, facts: Facts) -> dict[str, str]:
    """What AKS reserves on a node of this size (its rule since 1.29)."""
    steps = ((1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740))
    millicores = [reserved for cores, reserved in steps if cores <= max(facts.cpus, 1)][-1]
    mebibytes = facts.memory >> 20
    memory = min(20 * config.node.max_pods + 50, mebibytes // 4)
    return {"cpu": f"{millicores}m", "memory": f"{memory}Mi"}


def defaults(config: NodeConfig, facts: Facts) -> str:
    """/etc/default/kubelet: settings that exist only as flags."""
    paths = config.paths.kubernetes
    flags = [
        f"--config={CONFIG}",
        f"--hostname-override={node_name(config, facts.hostname)}",
        f"--root-dir={paths.kubelet_dir}",
        f"--cert-dir={paths.kubelet_dir}/pki",
    ]
    if addresses := node_addresses(config, facts):
        flags.append(f"--node-ip={','.join(addresses)}")
    return f'{HEADER}KUBELET_FLAGS="{" ".join(flags)}"\n'


def node_addresses(config: NodeConfig, facts: Facts) -> list[str]:
    """At which addresses the API server reaches this node: in the VPN, unless the document names others."""
    if config.node.kubelet.node_ip:
        return [str(address) for address in config.node.kubelet.node_ip]
    return [facts.tunnel_address] if config.azure.vpn.enabled and facts.tunnel_address else []


def registration(config: NodeConfig) -> str:
    """Labels and taints for the moment when the kubelet creates its Node.

    Flags in a file of their own: in the kubelet's configuration a change would need a restart without effect.
    """
    labels = ",".join(f"{key}={value}" for key, value in sorted(node_labels(config).items()))
    flags = [f"--node-labels={labels}"]
    if config.node.taints:
        taints = (f"{taint.key}={taint.value}:{taint.effect}" for taint in config.node.taints)
        flags.append(f"--register-with-taints={','.join(taints)}")
    return f'{HEADER}KUBELET_REGISTRATION_FLAGS="{" ".join(flags)}"\n'


CONTAINERD_DROP_IN = f"""{HEADER}[Unit]
Wants=containerd.service
After=containerd.service

[Service]
Environment="KUBELET_CONTAINERD_FLAGS=--runtime-cgroups=/system.slice/containerd.service"
"""


PAIR = "kubelet.crt kubelet.key"  # one without the other is useless


def kubeadm_drop_in(config: NodeConfig) -> str:
    """The flags for the kubelet's first certificate and its kubeconfig."""
    directory = config.paths.kubernetes.kubelet_dir
    flags = f"--bootstrap-kubeconfig={directory}/bootstrap-kubeconfig --kubeconfig={directory}/kubeconfig"
    if exec_plugin.uses_tokens(config):
        flags = f"--kubeconfig={kubelet_identity(config)}"
    place = directory.replace("%", "%%")
    pki = f"{place}/pki"
    empty = f"/usr/bin/find -H {place} -mindepth 2 -maxdepth 2 -type f -empty"
    return f"""{HEADER}[Service]
Environment="KUBELET_TLS_BOOTSTRAP_FLAGS={flags}"
# Older kubelets sync none of their keys and certificates, newer ones not all. With one that a power cut has
# emptied it never starts again; one that is missing it makes, or requests, anew.
ExecStartPre=-{empty} ( -path {pki}/kubelet-client* -o -path {pki}/kubelet-server* ) -delete
ExecStartPre=-{empty} ( -path {pki}/kubelet.crt -o -path {pki}/kubelet.key ) -execdir rm -f {PAIR} {{}} +
"""


UNIT = f"""{HEADER}[Unit]
Description=Kubernetes node agent
Documentation=https://kubernetes.io/docs/
After=network-online.target
Wants=network-online.target
# Restart forever: there may be no administrator at the site.
StartLimitIntervalSec=0

[Service]
EnvironmentFile={DEFAULTS}
EnvironmentFile={REGISTRATION}
# The kubelet does not start with swap, and an unknown service of this machine may create some at boot.
ExecStartPre=-/sbin/swapoff --all
# Nor with other kernel settings, and a file of another owner in sysctl.d may set some at boot, after ours.
ExecStartPre=-/usr/lib/systemd/systemd-sysctl {SYSCTL_FILE}
ExecStart={BIN_DIR}/kubelet \\
  $KUBELET_TLS_BOOTSTRAP_FLAGS \\
  $KUBELET_CONTAINERD_FLAGS \\
  $KUBELET_REGISTRATION_FLAGS \\
  $KUBELET_FLAGS
Restart=always
RestartSec=2
# Pods keep running while the kubelet restarts.
KillMode=process
Delegate=yes
LimitNOFILE=1048576
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
"""
