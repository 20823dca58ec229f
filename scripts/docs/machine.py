# SPDX-License-Identifier: GPL-3.0-or-later
"""What a join puts on a machine."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import (
    AFTERWARDS,
    COMPONENTS,
    resources_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.facts import Facts
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources import package
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import (
    Resource,
    key_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.settings import (
    Sysctl,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kubeconfig import (
    MODE as KUBECONFIG_MODE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kubeconfig import (
    Kubeconfig,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.log_file import (
    MODE as LOG_MODE,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.log_file import (
    LogFile,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import (
    Directory,
    File,
    Link,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import Program
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from scripts.checkout import ROOT
from scripts.docs.tables import Stale, code, rows

EVERYTHING = ROOT / "docs" / "examples" / "everything.yml"
# What can't stand in one document with the rest of it.
INSTEAD: tuple[Mapping[str, Any], ...] = (
    {},
    {"kubernetesAuth": {"profile": "token"}},
    {"pull": {"scheduler": "cron", "schedule": "5 * * * *"}},
)

# What each item on a machine is for, by its name; a pattern gathers several in one row.
WHY: Mapping[str, str] = {
    "/opt/aks-flex-node": "all software that this collection unpacks",
    "/opt/aks-flex-node/agent/*": "the command, compiled where it polls; the name is a digest of its files",
    "/usr/local/bin/aks-flex-node": "the command in the PATH",
    "/var/log/aks-flex-node": "logs of this collection",
    "/var/log/aks-flex-node/agent.log": "steps of every run that changed something; rotated by the command",
    "/etc/systemd/system/aks-flex-node-apply.service": "applies a new document; `continuousMonitoring` only",
    "/etc/systemd/system/aks-flex-node-poll.service": "polls for a new document; `continuousMonitoring` only",
    "/etc/systemd/system/aks-flex-node-poll.timer": "every 20 to 40 s; `continuousMonitoring` only",
    "openvpn": "a package of the distribution, where it is missing; `azure.vpn` only, like what follows",
    "/etc/aks-flex-node/vpn": "the VPN client",
    "/etc/aks-flex-node/vpn/client.conf": "`azure.vpn.profile`, with the machine's key, and its own settings",
    "/etc/aks-flex-node/vpn/dns": "hands the VNet's name servers to systemd-resolved, where that runs",
    "/etc/systemd/system/aks-flex-node-vpn.service": "the VPN client",
    "/etc/systemd/system/kubelet.service.d/20-vpn.conf": "the kubelet starts after the VPN client",
    "aks-flex-node-vpn.service": "runs",
    "/etc/kubernetes": "certificates, static pods, volume plugins",
    "/etc/kubernetes/admin.conf": "the cluster's admin credential; `writeAdminConf` only",
    "/etc/kubernetes/certs": "CA certificates; no keys",
    "/etc/kubernetes/manifests": "static pods; empty unless you put some there",
    "/etc/kubernetes/volumeplugins": "FlexVolume drivers",
    "/var/lib/kubelet": "state of the kubelet: its certificate, volumes of pods",
    "/etc/containerd": "configuration of containerd",
    "/etc/containerd/proxy.env": "the site's proxy for containerd; may hold a password; `proxy` only",
    "/var/lib/containerd": "images and containers",
    "/opt/cni/bin": "CNI plugins; those that were there before stay",
    "/etc/cni/net.d": "CNI networks; those that were there before stay",
    "/var/lib/cni": "addresses that the bridge network assigned",
    "/var/log/pods": "logs of pods, written by the kubelet",
    "/var/log/containers": "links into /var/log/pods",
    "active": "no swap area is active; unbootstrap turns the prior ones on again",
    "/etc/fstab": "swap lines become comments; all other lines stay",
    "/etc/systemd/system/*.swap": "a unit that would turn swap on at boot is masked (one link per unit)",
    "/etc/modules-load.d/aks-flex-node.conf": "the modules below, at boot",
    "overlay": "file system of containers",
    "br_netfilter": "bridged pod traffic passes iptables",
    "/etc/sysctl.d/99-zz-aks-flex-node.conf": "the settings below, at boot and when the kubelet starts",
    "net.bridge.bridge-nf-call-iptables": "bridged pod traffic passes iptables",
    "net.bridge.bridge-nf-call-ip6tables": "the same for IPv6",
    "net.ipv4.ip_forward": "pods reach other machines",
    "vm.overcommit_memory": "the kubelet checks it (protectKernelDefaults)",
    "vm.panic_on_oom": "the kubelet checks it (protectKernelDefaults)",
    "kernel.panic": "the kubelet checks it (protectKernelDefaults)",
    "kernel.panic_on_oops": "the kubelet checks it (protectKernelDefaults)",
    "kernel.keys.root_maxkeys": "the kubelet checks it (protectKernelDefaults)",
    "kernel.keys.root_maxbytes": "the kubelet checks it (protectKernelDefaults)",
    "/opt/aks-flex-node/versions/*": "one version of a component, unpacked from a verified download",
    "/usr/local/sbin/runc": "the runc in use",
    "/usr/local/bin/containerd": "the containerd in use",
    "/usr/local/bin/containerd-shim-runc-v2": "its shim",
    "/usr/local/bin/ctr": "its command",
    "/etc/containerd/conf.d": "drop-ins of other software (GPU operators); containerd 2 only",
    "/etc/containerd/certs.d": "where images are pulled from",
    "/etc/containerd/certs.d/*/ca.crt": "CA of a registry mirror; `registryMirrors`",
    "/etc/containerd/certs.d/*/hosts.toml": "a registry mirror; `registryMirrors`",
    "/etc/containerd/config.toml": "systemd cgroups, CNI directories, pause image; schema 2 for 1.7, else 3",
    "/etc/systemd/system/containerd.service.d/10-proxy.conf": "names `proxy.env`; `proxy` only",
    "/etc/systemd/system/containerd.service": "the unit of containerd",
    "/usr/local/bin/kubelet": "the kubelet in use",
    "/usr/local/bin/kubectl": "the kubectl in use",
    "/usr/local/bin/kubeadm": "the kubeadm in use",
    "/opt/cni/bin/*": "one link per plugin",
    "/etc/cni/net.d/10-flexnode.conflist": "the bridge network; `cni.mode: bridge` only",
    "/etc/kubernetes/certs/ca.crt": "the cluster's CA; `node.kubelet.caCertData`",
    "/etc/kubernetes/certs/client-ca.crt": "CA of the kubelet's clients; `node.kubelet.clientCAData`",
    "/var/lib/kubelet/token-identity.json": "an Azure identity, with its secret; where the kubelet has one",
    "/var/lib/kubelet/token.sh": "gets Entra tokens of that identity for the kubelet",
    "/var/lib/kubelet/bootstrap-kubeconfig": "bootstrap token, or `token.sh`: for the first certificate",
    "/var/lib/kubelet/kubeconfig": "written by the kubelet at the join; URL and CA follow the document",
    "/var/lib/kubelet/token-kubeconfig": "instead of the two above where `kubernetesAuth.profile` is `token`",
    "/etc/default/kubeletconfig.json": "the KubeletConfiguration",
    "/etc/default/kubelet": "flags of the kubelet",
    "/etc/default/kubelet-registration": "labels and taints with which it registers its Node",
    "/etc/systemd/system/kubelet.service.d/10-containerd.conf": "starts after containerd",
    "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": "where the kubelet's credentials are",
    "/etc/systemd/system/kubelet.service": "the unit of the kubelet",
    "/usr/local/bin/node-problem-detector": "the node-problem-detector in use; `npd.version` only",
    "/etc/node-problem-detector": "what it watches; `npd.version` only, like the files in it",
    "/etc/node-problem-detector/kubeconfig": "names the kubelet's credential; holds none itself",
    "/etc/node-problem-detector/kernel.json": "messages of the kernel",
    "/etc/node-problem-detector/filesystems.*": "file systems that became read-only",
    "/etc/node-problem-detector/restarts.*": "restarts of kubelet and containerd",
    "/etc/node-problem-detector/flexnode.json": "the status of this collection",
    "/etc/systemd/system/node-problem-detector.service": "its unit; `npd.version` only",
    "/etc/systemd/system/multi-user.target.wants/*": "enabled at boot",
    "/etc/systemd/system/timers.target.wants/*": "enabled at boot; `continuousMonitoring` and `pull` only",
    "containerd.service": "runs",
    "kubelet.service": "runs",
    "node-problem-detector.service": "runs; `npd.version` only",
    "aks-flex-node-poll.timer": "runs; `continuousMonitoring` only",
    "git": "a package of the distribution, installed where it is missing; `pull` only, like all that follows",
    "gpg": "the same, for signatures with GPG keys; `pull.gpgKeys`",
    "ca-certificates": "the same, for an https repository",
    "openssh-client": "the same, for an ssh repository and for signatures with SSH keys",
    "/opt/aks-flex-node/ansible": "a venv with ansible-core; its wheels are unpacked below versions",
    "/opt/aks-flex-node/ansible/pyvenv.cfg": "makes it a venv",
    "/opt/aks-flex-node/ansible/bin/*": "the system's Python, and the commands of ansible-core",
    "/opt/aks-flex-node/ansible/lib/*": "names the directories of the wheels in use",
    "/opt/aks-flex-node/ansible/wheels/*": "one link per wheel in use",
    "/opt/aks-flex-node/ansible/reconcile.yml": "the playbook for a repository without one: repairs drift",
    "/etc/systemd/system/aks-flex-node-pull.service": "one run of ansible-pull",
    "/etc/systemd/system/aks-flex-node-pull.timer": "when it runs; `pull.schedule`",
    "/etc/cron.d/aks-flex-node-pull": "instead of the timer; `pull.scheduler: cron`",
    "aks-flex-node-pull.timer": "runs",
}

# A machine for the documentation and for tests.
FACTS = Facts(
    arch="amd64",
    os_id="debian",
    os_version="12",
    hostname="edge-1",
    cpus=4,
    memory=8 << 30,
    cgroup_v2=True,
    may_lower_oom_score=True,
    resolv_conf="/etc/resolv.conf",
    swap_units=(),
    python="3.11",
    machine_id="0123456789abcdef0123456789abcdef",
)


def sample_resources() -> list[Resource]:
    """The items of a machine whose configuration uses every field."""
    document = yaml.safe_load(EVERYTHING.read_text(encoding="utf-8"))
    facts = replace(FACTS, swap_units=("dev-sda2.swap",))
    found: dict[str, Resource] = {}
    for instead in INSTEAD:
        config = parse(merge(document, instead), pollable=True)
        for resource in resources_of((*COMPONENTS, *AFTERWARDS), config, facts):
            found.setdefault(key_of(resource), resource)
    return list(found.values())


def row_of(resource: Resource) -> tuple[str, str]:
    """Under which name of WHY an item is listed, and how that row names it."""
    if resource.name in WHY:
        return resource.name, resource.name
    for pattern in WHY:
        if "*" in pattern and fnmatchcase(resource.name, pattern):
            return pattern, pattern
    raise Stale(f"scripts/docs does not say what {resource.kind} {resource.name} is for: add it to WHY")


def access_of(resource: Resource) -> str:
    """Mode, value or state."""
    if isinstance(resource, File):
        return f"{resource.mode:04o}"
    if isinstance(resource, Directory):
        return f"{resource.mode:04o}" if resource.mode is not None else f"created {resource.created:04o}"
    if isinstance(resource, (Tree, Program)):
        return "0755"
    if isinstance(resource, package.Package):
        return "installed"
    if isinstance(resource, Sysctl):
        return resource.value
    if isinstance(resource, LogFile):
        return f"{LOG_MODE:04o}"
    if isinstance(resource, Kubeconfig):
        return f"{KUBECONFIG_MODE:04o}"
    return {"unit": "running", "module": "loaded", "swap": "off"}.get(resource.kind, "-")


def files() -> str:
    """Every item on a machine."""
    shown: dict[str, tuple[str, ...]] = {}
    for resource in sample_resources():
        key, name = row_of(resource)
        kind = "link" if isinstance(resource, Link) else resource.kind
        restarts = ", ".join(unit.removesuffix(".service") for unit in resource.restarts)
        if kind == "unit":
            restarts = ""
        if key in shown and restarts not in shown[key][3]:
            restarts = f"{shown[key][3]}, {restarts}".removeprefix(", ")
        elif key in shown:
            continue
        shown[key] = (code(name), kind, access_of(resource), restarts or "", WHY[key])
    if unused := set(WHY) - set(shown):
        raise Stale(f"scripts/docs explains what is no longer there: {', '.join(sorted(unused))}")
    return rows(list(shown.values()), head=("name", "kind", "mode or value", "restarts", "what for"))
