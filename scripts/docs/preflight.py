# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of preflight."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.machine import (
    CONTROLLERS,
    GIB,
    LEAST_MEMORY,
    LITTLE_MEMORY,
    MIB,
    NEEDED,
    SMALL_DISK,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.network import (
    LEAST_MTU,
    SMALL_MTU,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.owner import LABEL, SOON
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.checks.reach import GRAVE, SLIGHT
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.every import (
    CHECKS,
    DOCUMENT,
    IDS,
)
from scripts.docs.tables import Stale, code, rows

ERROR, WARNING = "error", "warning"
BOTH, NEVER = "error or warning", "not checked"
SPACE = {name: f"{size // GIB} GiB" for name, size in NEEDED.items()}

# What each finding says, and how much it matters; limits are those of the code.
FINDINGS: Mapping[str, tuple[str, str]] = {
    "configuration": (ERROR, "the document is not valid (`FLEX-1101`); one finding per field"),
    "configuration-source": (ERROR, "the document can't be read or fetched"),
    "not-available": (ERROR, "the document has a field that this version refuses (`FLEX-1105`)"),
    "token-format": (ERROR, "`azure.bootstrapToken.token` is not a bootstrap token"),
    "root": (ERROR, "it does not run as root"),
    "platform": (ERROR, "the distribution is not supported"),
    "architecture": (ERROR, "the processor is neither amd64 nor arm64"),
    "systemd": (ERROR, "systemd does not run"),
    "cgroup": (WARNING, "the machine runs cgroup v1"),
    "cgroup-controllers": (ERROR, f"the kernel lacks a cgroup controller: {', '.join(CONTROLLERS)}"),
    "memory": (
        BOTH,
        f"error: less than {LEAST_MEMORY // MIB} MiB; warning: less than {LITTLE_MEMORY // MIB} MiB",
    ),
    "processors": (WARNING, "one processor"),
    "swap": (WARNING, "swap is on; the join turns it off"),
    "swap-in-use": (ERROR, "more is swapped out than memory is free"),
    "disk-answer": (ERROR, "a file system under /etc, /opt, /usr/local or /var/lib does not answer"),
    "disk-space": (
        ERROR,
        f"not enough free space for a first join: {SPACE['opt']} for /opt/aks-flex-node, {SPACE['data']} for "
        f"`paths.dataDir`, {SPACE['containers']} for /var/lib/containerd; added up on one file system",
    ),
    "disk-small": (
        WARNING,
        f"the disk of /var/lib/containerd is smaller than {SMALL_DISK // GIB} GiB",
    ),
    "disk-pressure": (ERROR, "free space or inodes are below `node.kubelet.evictionHard`"),
    "read-only": (ERROR, "a directory of the node is on a read-only file system"),
    "noexec": (ERROR, "/opt/aks-flex-node is on a file system that is mounted noexec"),
    "kernel-module": (
        BOTH,
        "error: the kernel has no overlay or no br_netfilter; warning: no nf_conntrack",
    ),
    "tool-missing": (
        BOTH,
        "error: mount, umount, or modprobe where a module is to be loaded; iptables or nft with "
        "`cni.mode: bridge`. Warning: iptables or nft otherwise",
    ),
    "records": (ERROR, "the state of this collection on the machine can't be read"),
    "foreign-runtime": (
        BOTH,
        "error: a containerd, docker, kubelet, k3s ... of another owner; warning: the same with `takeover`",
    ),
    "kubelet-identity": (ERROR, "there is a kubelet's certificate of another cluster"),
    "port-in-use": (
        ERROR,
        "another process listens on a port of the node: 10250, 10248, or that of `containerd.metricsAddress`",
    ),
    "node-name": (
        ERROR,
        f"the Node's name is not valid, begins with localhost, or is longer than {LABEL} characters (of a "
        "FlexNodes pool: not a name of a machine)",
    ),
    "node-name-taken": (NEVER, "a machine that has not joined may not read Nodes; how to check it is shown"),
    "cni-none": (WARNING, "`cni.mode` is none, and the machine has no pod network"),
    "cni-files": (WARNING, "`cni.mode` is bridge, and the machine has a pod network already"),
    "kube-proxy": (
        WARNING,
        "`azure.targetCluster.nodeResourceGroup` is not set: AKS's kube-proxy would not run on this node",
    ),
    "artifact-unknown": (ERROR, "a version is not in the catalogue, and has no sha256 (`FLEX-1204`)"),
    "token-expired": (ERROR, f"the bootstrap token has expired, or expires within {SOON // 60} minutes"),
    "token-refused": (ERROR, "the API server has refused this bootstrap token before"),
    "secrets-missing": (ERROR, "a secret is left out of the document, and none is stored on the machine"),
    "cidr-overlap": (
        BOTH,
        "error: a network or name server of the machine is in a range of pods, Services or VPN clients; "
        "warning: a network is in the VNet (with `azure.vpn`: error)",
    ),
    "vpn-profile": (WARNING, "there is no VPN profile yet; `bootstrap` gets it"),
    "vpn-device": (ERROR, "there is no /dev/net/tun"),
    "vpn-package": (ERROR, "openvpn is not installed, and apt has no source for it"),
    "mtu": (BOTH, f"of an interface; error: less than {LEAST_MTU}; warning: less than {SMALL_MTU}"),
    "resolver": (WARNING, "no name server, or only one on the machine itself"),
    "proxy": (WARNING, "`proxy` and the proxy of /etc/environment differ, or `proxy` is incomplete"),
    "proxy-unreachable": (ERROR, "the proxy does not answer"),
    "api-dns": (ERROR, "the API server's name can't be resolved"),
    "api-tcp": (ERROR, "no connection to the API server"),
    "api-tls": (ERROR, "TLS fails, or the CA of `caCertData` has not signed the API server's certificate"),
    "api-answer": (ERROR, "what answers is not an API server"),
    "version-skew": (ERROR, "the kubelet is newer than the API server, or more than three minors older"),
    "clock-skew": (
        BOTH,
        f"the clock differs from the servers'; error: {GRAVE:.0f} s or more; warning: {SLIGHT:.0f} s or more",
    ),
    "artifact-unreachable": (ERROR, "a file can't be downloaded"),
    "registry-unreachable": (WARNING, "the registry of the pause image does not answer"),
    "azure-token": (ERROR, "the machine's Azure identity gets no token"),
    "azure-role": (ERROR, "it lacks a role in Azure; the command that assigns it is shown"),
    "cluster-identity": (ERROR, "the API server does not accept the identity"),
    "cluster-rights": (ERROR, "the identity lacks rights in the cluster; the commands are shown"),
}


def checks() -> str:
    """Every finding of preflight, in the order of its report."""
    if odd := set(IDS) ^ set(FINDINGS):
        raise Stale(f"scripts/docs and preflight/every.py do not name the same findings: {sorted(odd)}")
    stages = {id_: check.stage for check in CHECKS for id_ in check.ids}
    lines = [(code(id_), "document" if id_ in DOCUMENT else stages[id_], *FINDINGS[id_]) for id_ in IDS]
    return rows(lines, head=("id", "stage", "severity", "what was found"))
