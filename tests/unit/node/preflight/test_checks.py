# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every check: what it finds, how grave that is, and what it tells to do. One row a case."""

from __future__ import annotations

import hashlib
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.dataclass import replace
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.rights import (
    GET_CERTIFICATE,
    RUN_KUBELET,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.every import CHECKS, IDS
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.finding import Finding, Unchecked
from ansible_collections.aks.flexnode.plugins.module_utils.node.preflight.seen import (
    Access,
    ApiAnswer,
    Link,
    Listener,
    Reached,
    Situation,
    Source,
    Swap,
)
from tests.unit.node.config.test_samples import CLIENT, CLUSTER, PRINCIPAL, TENANT, TOKEN
from tests.unit.node.preflight.healthy import API, DISK, GIB, GOOD, HEALTHY, NOW, PLACES, judged, situation
from tests.unit.node.tunnels import a_profile, with_vpn

MIB = 1 << 20
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
AKS = "Microsoft.ContainerService/managedClusters"
OID = "99999999-8888-7777-6666-555555555555"
TOKEN_PROFILE: dict[str, Any] = {
    "azure": {"servicePrincipal": PRINCIPAL, "tenantId": TENANT, "bootstrapToken": None},
    "kubernetesAuth": {"method": "servicePrincipal", "profile": "token"},
}
CERTIFICATE_PROFILE: dict[str, Any] = {**TOKEN_PROFILE, "kubernetesAuth": {"method": "servicePrincipal"}}
# What the seeds' roles give.
ADMIN: tuple[dict[str, Any], ...] = ({"actions": ["*"], "dataActions": ["*"]},)
PROXY = {"proxy": {"https": "http://user:pw@proxy.example:3128", "http": "http://proxy.example:3128"}}
DOCKER = "/usr/lib/systemd/system/docker.service"


def disks(**wrong: Any) -> tuple[Any, ...]:
    """The disks of a machine on which one thing is different everywhere."""
    return tuple(replace(DISK, path=path, **wrong) for path in PLACES)


def reached(**wrong: Any) -> dict[str, Any]:
    return {"reached": replace(GOOD, **wrong)}


def both(access: Access) -> dict[str, Access]:
    """One identity that serves the node and the kubelet."""
    return {"azure": access, "kubernetes": access}


def source(failure: str, **more: Any) -> Source:
    return Source(("containerd", "runc"), "https://mirror.example/containerd.tgz", failure, **more)


# what is different -> id, severity, part of what was found, part of the remedy
CASES: dict[str, tuple[Situation, str, str, str, str]] = {
    "not root": (
        situation(root=False, state_error="-"),
        "root",
        "error",
        "not run as root",
        "become: true",
    ),
    "Fedora": (situation(os_id="fedora", os_version="42"), "platform", "error", "fedora 42", "ubuntu 24.04"),
    "old Debian": (situation(os_id="debian", os_version="11"), "platform", "error", "debian 11", "debian 12"),
    "32 bits": (situation(machine="armv7l"), "architecture", "error", "armv7l", "aarch64"),
    "no systemd": (situation(systemd=False), "systemd", "error", "is not running", "systemd-sysv"),
    "cgroup v1": (situation(cgroup_v2=False), "cgroup", "warning", "v1", "run `update-grub`, then reboot"),
    "cgroup v1 with a kubelet that refuses it": (
        situation(
            {"kubernetes": {"version": "1.35.4"}},
            cgroup_v2=False,
            reached=replace(GOOD, api=replace(API, version="v1.35.4")),
        ),
        "cgroup",
        "warning",
        "v1",
        "in /etc/default/grub add systemd.unified_cgroup_hierarchy=1 to GRUB_CMDLINE_LINUX",
    ),
    "no memory controller": (
        situation(controllers=frozenset(("cpu", "pids"))),
        "cgroup-controllers",
        "error",
        "memory",
        "cgroup_enable=memory",
    ),
    "512 MiB": (situation(memory=512 * MIB), "memory", "error", "512 MiB", "2 GiB"),
    "1.5 GiB": (situation(memory=1536 * MIB), "memory", "warning", "1536 MiB", "kubeReserved"),
    "one processor": (situation(cpus=1), "processors", "warning", "1 processor", "2 or more"),
    "swap": (situation(swaps=(Swap("/swapfile", 0),)), "swap", "warning", "/swapfile", "swapoff --all"),
    "swap that is needed": (
        situation(swaps=(Swap("/dev/zram0", 7 * GIB),)),
        "swap-in-use",
        "error",
        "7168 MiB are swapped out, and 6144 MiB are free",
        "swapoff",
    ),
    "a file system hangs": (situation(disks=None), "disk-answer", "error", "does not answer", "findmnt"),
    "little room": (
        situation(disks=disks(free=3 * GIB, total=25 * GIB, inodes=0, inodes_free=0)[:5]),
        "disk-space",
        "error",
        "3.0 GiB are free for /opt/aks-flex-node, /var/lib/aks-flex-node, /var/lib/containerd",
        "df -h",
    ),
    "/var on a small disk": (
        situation(disks=disks(total=16 * GIB, free=9 * GIB)),
        "disk-small",
        "warning",
        "/var/lib/containerd is on a disk of 16 GiB",
        "20 GiB",
    ),
    "below the kubelet's threshold": (
        situation(disks=disks(free=8 * GIB)),
        "disk-pressure",
        "error",
        "nodefs.available of /var/lib/kubelet is 8%",
        "evictionHard",
    ),
    "no inodes": (
        situation(disks=disks(inodes_free=10)),
        "disk-pressure",
        "error",
        "nodefs.inodesFree of /var/lib/kubelet is 1%",
        "df -i",
    ),
    "read-only": (
        situation(disks=(replace(DISK, path="/usr/local/bin", read_only=True), *HEALTHY.disks[3:])),  # type: ignore[index]
        "read-only",
        "error",
        "/usr/local/bin",
        "remount,rw",
    ),
    "a kubelet that can not start its plugin": (
        situation(TOKEN_PROFILE, disks=(replace(DISK, path="/var/lib/kubelet", noexec=True),)),
        "noexec",
        "error",
        "/var/lib/kubelet is on a file system that is mounted noexec",
        "mount --options remount,exec",
    ),
    "noexec": (
        situation(disks=(replace(DISK, path="/opt/aks-flex-node", noexec=True),)),
        "noexec",
        "error",
        "/opt/aks-flex-node",
        "remount,exec",
    ),
    "no br_netfilter": (
        situation(modules_missing=("br_netfilter",)),
        "kernel-module",
        "error",
        "br_netfilter",
        "linux-modules-extra",
    ),
    "no nf_conntrack": (
        situation(modules_missing=("nf_conntrack",)),
        "kernel-module",
        "warning",
        "nf_conntrack",
        "reboot",
    ),
    "no mount": (
        situation(tools=frozenset(("umount", "nft"))),
        "tool-missing",
        "error",
        "mount is missing",
        "apt-get install mount",
    ),
    "no modprobe, and modules to load": (
        situation(tools=frozenset(("mount", "umount", "nft")), modules_to_load=("overlay",)),
        "tool-missing",
        "error",
        "modprobe is missing",
        "apt-get install kmod",
    ),
    "no iptables": (
        situation(tools=frozenset(("mount", "umount"))),
        "tool-missing",
        "warning",
        "neither iptables nor nft",
        "apt-get install iptables",
    ),
    "no iptables for the bridge": (
        situation(
            {"cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}},
            tools=frozenset(("mount", "umount")),
            cni_files=(),
        ),
        "tool-missing",
        "error",
        "neither iptables nor nft",
        "apt-get install iptables",
    ),
    "broken records": (
        situation(state_error="journal, line 3: torn", state_fix="restore it from a backup"),
        "records",
        "error",
        "line 3",
        "restore it from a backup",
    ),
    "docker": (situation(foreign=(DOCKER,)), "foreign-runtime", "error", DOCKER, "takeover: true"),
    "docker, to be taken over": (
        situation({"takeover": True}, foreign=(DOCKER,)),
        "foreign-runtime",
        "warning",
        "taken over",
        "unbootstrap",
    ),
    "the agent of the vendor, which is not taken over": (
        situation({"takeover": True}, foreign=("/etc/systemd/system/aks-flex-node-agent.service",)),
        "foreign-runtime",
        "error",
        "aks-flex-node-agent.service",
        "aks-flex-node reset",
    ),
    "a host name that no machine of a pool can have": (
        situation({"azure": {"targetAgentPoolName": "edge"}}, hostname="edge-1.lab.test"),
        "node-name",
        "error",
        "the host name is 'edge-1.lab.test'",
        "set agent.nodeName",
    ),
    "no role at the pool": (
        situation(
            {
                "continuousMonitoring": True,
                "azure": {"targetAgentPoolName": "edge", "servicePrincipal": PRINCIPAL},
            },
            **reached(access={"azure": Access(principal_id="some-oid", granted=())}),
        ),
        "azure-role",
        "error",
        "the identity some-oid has no role Azure Kubernetes Service Flex Node Agent Role at the pool",
        f"--role 8f139b0f-7eaf-460b-a9da-5b1246d9ed0d --scope {CLUSTER}/agentPools/edge",
    ),
    "a snap's dockerd": (
        situation(processes=frozenset(("dockerd",))),
        "foreign-runtime",
        "error",
        "dockerd runs",
        "uninstall it",
    ),
    "a certificate of another cluster": (
        situation(identity_left="/var/lib/kubelet/pki/kubelet-client-current.pem"),
        "kubelet-identity",
        "error",
        "kubelet-client-current.pem",
        "kubeadm reset",
    ),
    "port 10250": (
        situation(listeners=(Listener(10250, "0.0.0.0", "1", "nginx", 42),)),  # noqa: S104
        "port-in-use",
        "error",
        "port 10250 is used by nginx (process 42)",
        "sport = :10250",
    ),
    "port of the metrics": (
        situation({"containerd": {"metricsAddress": "127.0.0.1:9999"}}, listeners=(Listener(9999, "::1"),)),
        "port-in-use",
        "error",
        "port 9999 is used by another process at ::1",
        "ss --listening",
    ),
    "a read-only port that the user wants": (
        situation(
            {"kubelet": {"configOverrides": {"readOnlyPort": 10255}}}, listeners=(Listener(10255, "::"),)
        ),
        "port-in-use",
        "error",
        "port 10255",
        "ss --listening",
    ),
    "localhost": (situation(hostname="localhost"), "node-name", "error", "'localhost'", "set-hostname"),
    "a name with an underscore": (
        situation(hostname="edge_1"),
        "node-name",
        "error",
        "'edge_1'",
        "agent.nodeName",
    ),
    "a long name": (situation(hostname="e" * 64), "node-name", "error", "eeee", "agent.nodeName"),
    "no pod network": (
        situation(cni_files=()),
        "cni-none",
        "warning",
        "cni.mode is none",
        "cni.mode: bridge",
    ),
    "a bridge beside another network": (
        situation({"cni": {"mode": "bridge", "podCIDR": "10.9.0.0/24"}}),
        "cni-files",
        "warning",
        "05-cilium",
        "remove",
    ),
    "a node without AKS's kube-proxy": (
        situation({"azure": {"targetCluster": {"nodeResourceGroup": None}}}),
        "kube-proxy",
        "warning",
        "nodeResourceGroup is not set",
        "az aks show",
    ),
    "an unknown version": (
        situation({"containerd": {"version": "2.9.9"}}),
        "artifact-unknown",
        "error",
        "containerd 2.9.9 for amd64 is not in this collection's list of known versions",
        "sha256",
    ),
    "a token that ended": (
        situation(token_expires=NOW - 5),
        "token-expired",
        "error",
        "abcdef expired at 2027-01-15T07:59:55",
        "new one",
    ),
    "a token that ends soon": (
        situation(token_expires=NOW + 60),
        "token-expired",
        "error",
        "expires at",
        "new one",
    ),
    "a token that was refused": (
        situation(refused_token=DIGEST),
        "token-refused",
        "error",
        "abcdef",
        "new one",
    ),
    "secrets left out": (
        situation(secrets_missing=("azure.bootstrapToken.token",)),
        "secrets-missing",
        "error",
        "azure.bootstrapToken.token",
        "new one",
    ),
    "our network is the pods'": (
        situation({"network": {"podCIDR": "192.0.0.0/16"}}),
        "cidr-overlap",
        "error",
        "eth0 has 192.0.2.0/24, which overlaps network.podCIDR (192.0.0.0/16)",
        "renumber",
    ),
    "our address is a Service's": (
        situation({"network": {"serviceCIDR": "10.0.0.0/16"}}, links=(Link("", ip_network("10.0.3.7/32")),)),
        "cidr-overlap",
        "error",
        "the address 10.0.3.7/32, which overlaps network.serviceCIDR",
        "renumber",
    ),
    "this node's pods are our neighbours": (
        situation({"cni": {"mode": "bridge", "podCIDR": "192.0.2.0/25"}}, cni_files=()),
        "cidr-overlap",
        "error",
        "cni.podCIDR",
        "other ranges",
    ),
    "an IPv6 network": (
        situation({"network": {"podCIDR": "fd00::/64"}}, links=(Link("eth0", ip_network("fd00::/48")),)),
        "cidr-overlap",
        "error",
        "fd00::/48",
        "renumber",
    ),
    "a name server among the Services": (
        situation({"network": {"serviceCIDR": "10.0.0.0/16"}}, nameservers=(ip_address("10.0.0.53"),)),
        "cidr-overlap",
        "error",
        "the name server 10.0.0.53",
        "another name server",
    ),
    "our network is that of VPN clients": (
        situation(with_vpn(p2sGatewayCIDR="192.0.2.128/25")),
        "cidr-overlap",
        "error",
        "azure.vpn.p2sGatewayCIDR",
        "renumber",
    ),
    "no device for tunnels": (
        situation(with_vpn(), tun_device=False),
        "vpn-device",
        "error",
        "/dev/net/tun",
        "modprobe tun",
    ),
    "no source for the VPN client": (
        situation(with_vpn(), package_sources=False),
        "vpn-package",
        "error",
        "openvpn is not installed",
        "apt-get install openvpn",
    ),
    "a profile that will be created": (
        situation({"azure": {"vpn": {"enabled": True, "autoProvision": True}}}),
        "vpn-profile",
        "warning",
        "no VPN profile yet",
        "bootstrap creates it",
    ),
    "our network looks like the VNet": (
        situation({"network": {"vnetCIDRs": ["192.0.2.0/23"]}}),
        "cidr-overlap",
        "warning",
        "vnetCIDRs",
        "part of the VNet",
    ),
    "our network is the VPN's": (
        situation(
            {
                "network": {"vnetCIDRs": ["192.0.2.0/23"]},
                "azure": {"vpn": {"enabled": True, "profile": a_profile()}},
            }
        ),
        "cidr-overlap",
        "error",
        "vnetCIDRs",
        "renumber",
    ),
    "tiny packets": (situation(mtus={"ppp0": 1200}), "mtu", "error", "ppp0 is 1200", "mtu 1500"),
    "small packets": (situation(mtus={"tun0": 1380}), "mtu", "warning", "tun0 is 1380", "tracepath"),
    "no name server": (
        situation(nameservers=()),
        "resolver",
        "warning",
        "no name server",
        "/etc/resolv.conf",
    ),
    "a name server of our own": (
        situation(nameservers=(ip_address("127.0.0.1"),)),
        "resolver",
        "warning",
        "127.0.0.1",
        "resolvConf",
    ),
    "a proxy that we are not told of": (
        situation(environment={"https_proxy": "http://u:p@proxy.example:3128"}),
        "proxy",
        "warning",
        "names the proxy http://proxy.example:3128,",
        "set proxy.http",
    ),
    "a proxy for http alone": (
        situation({"proxy": {"http": "http://proxy.example:3128"}}),
        "proxy",
        "warning",
        "proxy.https is not",
        "proxy.https",
    ),
    "two proxies": (
        situation(PROXY, environment={"https_proxy": "http://old.example:3128"}),
        "proxy",
        "warning",
        "proxy.https is http://proxy.example:3128, and this machine uses http://old.example:3128",
        "/etc/environment",
    ),
    "a near mirror by a far proxy": (
        situation(PROXY, {"mirror": {"url": "https://192.0.2.80"}}),
        "proxy",
        "warning",
        "192.0.2.80",
        "proxy.no",
    ),
    "a proxy that is gone": (
        situation(
            PROXY,
            **reached(proxies=(Source(("proxy.https",), "http://proxy.example:3128", "Connection refused"),)),
        ),
        "proxy-unreachable",
        "error",
        "proxy.https http://proxy.example:3128: Connection refused",
        "curl --proxy",
    ),
    "no such name": (
        situation(**reached(api=ApiAnswer("dns", "Name or service not known"))),
        "api-dns",
        "error",
        "plant.hcp.westeurope.azmk8s.io can't be resolved",
        "resolvectl query plant.hcp",
    ),
    "no way": (
        situation(**reached(api=ApiAnswer("tcp", "no answer in time", addresses=("192.0.2.10",)))),
        "api-tcp",
        "error",
        "connect to the API server at plant.hcp.westeurope.azmk8s.io:443 (192.0.2.10): no answer in time",
        "authorized-ip-ranges",
    ),
    "no way to an IPv6 address": (
        situation(
            {"node": {"kubelet": {"serverURL": "https://[2001:db8::a]:6443"}}},
            **reached(api=ApiAnswer("tcp", "no answer in time", addresses=("2001:db8::a",))),
        ),
        "api-tcp",
        "error",
        "connect to the API server at [2001:db8::a]:6443: no answer in time",
        "authorized-ip-ranges",
    ),
    "a private cluster, and no way": (
        situation(**reached(api=ApiAnswer("tcp", "no answer in time", addresses=("10.224.0.4",)))),
        "api-tcp",
        "error",
        "can't connect to the API server at plant.hcp.westeurope.azmk8s.io:443 (10.224.0.4)",
        "set azure.vpn",
    ),
    "a private name without its DNS": (
        situation(**reached(api=ApiAnswer("dns", "no such name"))),
        "api-dns",
        "error",
        "can't be resolved",
        "set azure.vpn",
    ),
    "a VPN that leads nowhere": (
        situation(
            with_vpn(), **reached(api=ApiAnswer("tcp", "no answer in time", addresses=("10.224.0.4",)))
        ),
        "api-tcp",
        "error",
        "can't connect to the API server at",
        "behind the VPN gateway",
    ),
    "another CA": (
        situation(**reached(api=ApiAnswer("tls", "its certificate is not trusted: self-signed"))),
        "api-tls",
        "error",
        "self-signed",
        "caCertData",
    ),
    "a certificate of another time": (
        situation(**reached(api=ApiAnswer("tls", "its certificate is not trusted", "check the clock"))),
        "api-tls",
        "error",
        "not trusted",
        "check the clock",
    ),
    "a captive portal": (
        situation(**reached(api=ApiAnswer(status=302, skew=0))),
        "api-answer",
        "error",
        "HTTP 302",
        "curl --insecure",
    ),
    "a broken answer": (
        situation(**reached(api=ApiAnswer("http", "the answer broke off"))),
        "api-answer",
        "error",
        "broke off",
        "curl",
    ),
    "a kubelet that is too new": (
        situation({"kubernetes": {"version": "1.35.4"}}),
        "version-skew",
        "error",
        "kubelet 1.35.4 is not supported by API server 1.34.4",
        "1.31 to 1.34",
    ),
    "a kubelet that is too old": (
        situation(
            {
                "kubernetes": {
                    "version": "1.30.0",
                    "sha256": dict.fromkeys(("kubelet", "kubectl", "kubeadm"), "ab" * 32),
                }
            }
        ),
        "version-skew",
        "error",
        "kubelet 1.30.0",
        "1.31 to 1.34",
    ),
    "a clock that is a minute behind": (
        situation(reached=Reached(api=replace(API, skew=-60))),
        "clock-skew",
        "warning",
        "60 s behind",
        "set-ntp true",
    ),
    "a clock that is an hour ahead": (
        situation(reached=Reached(api=replace(API, skew=3600))),
        "clock-skew",
        "error",
        "3600 s ahead",
        "set-ntp true",
    ),
    "a mirror that is down": (
        situation(
            {"mirror": {"url": "https://mirror.example"}},
            **reached(sources=(source("Connection refused", skew=0),)),
        ),
        "artifact-unreachable",
        "error",
        "can't download containerd, runc from https://mirror.example: Connection refused",
        "check that the mirror runs",
    ),
    "upstream is out of reach": (
        situation(**reached(sources=(source("no answer in time", skew=0),))),
        "artifact-unreachable",
        "error",
        "no answer in time",
        "open the firewall for https://mirror.example, set proxy.https, or use a mirror",
    ),
    "a mirror without the file": (
        situation(
            {"mirror": {"url": "https://mirror.example"}},
            **reached(sources=(source("HTTP 404", missing=True, skew=0),)),
        ),
        "artifact-unreachable",
        "error",
        "https://mirror.example/containerd.tgz: HTTP 404",
        "add the file to the mirror",
    ),
    "a version that upstream has not": (
        situation(**reached(sources=(source("HTTP 404", missing=True, skew=0),))),
        "artifact-unreachable",
        "error",
        "HTTP 404",
        "curl --head",
    ),
    "a mirror of another CA": (
        situation(**reached(sources=(source("not trusted", tls=True, skew=0),))),
        "artifact-unreachable",
        "error",
        "not trusted",
        "mirror.caCert",
    ),
    "no registry": (
        situation(
            **reached(
                registries=(Source(("pause:3",), "https://mcr.microsoft.com/v2/", "no answer in time"),)
            )
        ),
        "registry-unreachable",
        "warning",
        "can't pull pause:3 from https://mcr.microsoft.com/v2/: no answer in time",
        "registryMirrors",
    ),
    "no token of Azure": (
        situation(
            TOKEN_PROFILE, **reached(access=both(Access("AADSTS7000215: invalid client secret", "renew it")))
        ),
        "azure-token",
        "error",
        "servicePrincipal: AADSTS7000215",
        "renew it",
    ),
    "a role is missing": (
        situation(
            TOKEN_PROFILE,
            **reached(
                access=both(
                    Access(
                        principal_id=OID,
                        granted=({"actions": ["*/read", f"{AKS}/listClusterAdminCredential/action"]},),
                    )
                )
            ),
        ),
        "azure-role",
        "error",
        f"{OID} has no role Azure Kubernetes Service RBAC Cluster Admin",
        f"az role assignment create --assignee-object-id {OID} --assignee-principal-type ServicePrincipal "
        f"--role b1ff04bb-8a4e-4dc4-8eb5-8693973ce19b --scope {CLUSTER}",
    ),
    "the cluster does not know the identity": (
        situation(
            TOKEN_PROFILE,
            **reached(access=both(Access(principal_id=OID, not_accepted="Unauthorized", granted=ADMIN))),
        ),
        "cluster-identity",
        "error",
        f"does not accept the identity {OID}: Unauthorized",
        "az aks show --query aadProfile",
    ),
    "the identity may not ask for a certificate": (
        situation(
            CERTIFICATE_PROFILE,
            **reached(access=both(Access(principal_id=OID, granted=(), lacks=GET_CERTIFICATE))),
        ),
        "cluster-rights",
        "error",
        f"{OID} may not create certificatesigningrequests, create certificatesigningrequests/nodeclient",
        "kubectl create clusterrolebinding flexnode-identity-bootstrap-edge-1 "
        f"--clusterrole=system:node-bootstrapper --user={OID}; kubectl create clusterrolebinding "
        "flexnode-identity-approve-edge-1 --clusterrole=system:certificates.k8s.io:"
        f"certificatesigningrequests:nodeclient --user={OID}",
    ),
    "the identity may not be a kubelet": (
        situation(
            TOKEN_PROFILE,
            **reached(access=both(Access(principal_id=OID, granted=ADMIN, lacks=RUN_KUBELET[:2]))),
        ),
        "cluster-rights",
        "error",
        f"{OID} may not create nodes, patch nodes/status in the cluster",
        f"flexnode-identity-kubelet-edge-1 --clusterrole=system:node --user={OID}",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_one_thing_is_wrong_and_one_thing_is_found(case: tuple[Situation, str, str, str, str]) -> None:
    now, id_, severity, found, fix = case
    findings = [outcome for outcome in judged(now) if isinstance(outcome, Finding)]
    assert [finding.id for finding in findings] == [id_]
    (finding,) = findings
    assert finding.severity == severity
    assert found in finding.found
    assert fix in finding.fix
    assert finding.why
    assert ":pw@" not in str(finding)
    assert ":p@" not in str(finding)


def test_nothing_is_wrong_with_a_healthy_machine() -> None:
    outcomes = judged(situation())
    assert [outcome for outcome in outcomes if isinstance(outcome, Finding)] == []
    assert [outcome.id for outcome in outcomes] == ["node-name-taken", "token-expired"]


def test_every_id_has_a_case() -> None:
    by_document = {"configuration", "configuration-source", "not-available", "token-format"}
    assert {case[1] for case in CASES.values()} | by_document | {"node-name-taken"} == set(IDS)
    assert len(IDS) == len(set(IDS))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_check_answers_with_its_own_ids(case: tuple[Situation, str, str, str, str]) -> None:
    for check in CHECKS:
        others = {"foreign-runtime", "token-refused"} if check.ids == ("records",) else set()
        assert {outcome.id for outcome in check.judge(case[0])} <= {*check.ids, *others}


# -- what a machine that has joined is not blamed for -------------------------------------------------------

OURS = frozenset(("kubelet.service", "containerd.service"))


@pytest.mark.parametrize(
    "seen",
    [
        {
            "listeners": (
                Listener(10250, "::", "1", "kubelet", 7),
                Listener(10257, "127.0.0.1", "2", "containerd", 8),
            )
        },
        {"processes": frozenset(("kubelet", "containerd"))},
        {"cni_files": ()},
        {"refused_token": DIGEST},
        {"disks": disks(free=20 * GIB, total=100 * GIB)},
        {"links": (Link("eth0", ip_network("192.0.2.0/24")), Link("cni0", ip_network("10.244.3.0/24")))},
    ],
)
def test_what_is_ours_is_no_fault(seen: dict[str, Any]) -> None:
    now = situation(
        {"network": {"podCIDR": "10.244.0.0/16"}}, joined=True, ours=OURS, token_expires=NOW - 9, **seen
    )
    assert judged(now) == []


def test_an_unknown_process_on_a_port_of_a_joined_node_is_found() -> None:
    now = situation(joined=True, ours=OURS, listeners=(Listener(10250, "::", "1", "nginx", 7),))
    assert [outcome.id for outcome in judged(now)] == ["port-in-use"]


# -- what could not be checked is said ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (
            situation(reached=Reached(api_waits_for="VPN first")),
            {"api-dns": "VPN first", "version-skew": "VPN first"},
        ),
        (
            situation(**reached(api=ApiAnswer(status=401, is_kubernetes=True, skew=0))),
            {"version-skew": "does not report its version"},
        ),
        (
            situation(reached=Reached(api=ApiAnswer("dns", "x"))),
            {"clock-skew": "because the API server did not answer, or could not be trusted. "},
        ),
        (
            situation(reached=Reached(api=ApiAnswer("dns", "x"), sources=(source("refused"),))),
            {"clock-skew": "because the API server and the download servers did not answer, "},
        ),
        (situation(reached=Reached()), {"clock-skew": "because no server was asked. "}),
        (situation(TOKEN_PROFILE), {"azure-token": "no identity", "azure-role": "no identity"}),
        (
            situation(TOKEN_PROFILE, **reached(access_waits_for="Arc first")),
            {"azure-token": "Arc first", "cluster-rights": "Arc first"},
        ),
        (
            situation(
                TOKEN_PROFILE, **reached(access=both(Access(principal_id=OID, why_unasked="VPN first")))
            ),
            {"cluster-rights": "VPN first"},
        ),
        (
            situation(TOKEN_PROFILE, **reached(access=both(Access("no")))),
            {"azure-role": "no token to check with", "cluster-rights": "no token to check with"},
        ),
        (
            situation(TOKEN_PROFILE, **reached(access=both(Access(principal_id=OID, why_unread="HTTP 500")))),
            {"azure-role": "HTTP 500"},
        ),
        (situation(root=False, state_error="-"), {"foreign-runtime": "only root"}),
        (situation(), {"node-name-taken": "kubectl get node edge-1"}),
        (situation({"containerd": {"version": "2.9.9"}}), {"artifact-unreachable": "see artifact-unknown"}),
    ],
)
def test_silence_is_no_pass(now: Situation, expected: dict[str, str]) -> None:
    unchecked = {outcome.id: outcome.why for outcome in judged(now) if isinstance(outcome, Unchecked)}
    for id_, why in expected.items():
        assert why in unchecked[id_]


def test_who_may_act_in_the_cluster_needs_no_role_for_it() -> None:
    now = situation(TOKEN_PROFILE, **reached(access=both(Access(principal_id=OID, granted=(), lacks=()))))
    assert not [outcome for outcome in judged(now) if isinstance(outcome, Finding)]


def test_a_managed_identity_may_live_in_the_vnet() -> None:
    azure = {"managedIdentity": {"clientId": CLIENT}, "tenantId": TENANT, "bootstrapToken": {"token": TOKEN}}
    now = situation(
        {
            "network": {"vnetCIDRs": ["192.0.2.0/24"]},
            "azure": azure,
            "kubernetesAuth": {"method": "bootstrapToken"},
        }
    )
    assert not [outcome for outcome in judged(now) if isinstance(outcome, Finding)]


def test_certificates_that_are_not_valid_yet_tell_that_the_clock_is_behind() -> None:
    """With it no server is trusted, so that none can tell the time."""
    early = "its certificate is not trusted: certificate is not yet valid"
    now = situation(reached=Reached(api=ApiAnswer("tls", early), sources=(source(early), source("refused"))))
    (found,) = (item for item in judged(now) if item.id == "clock-skew")
    assert isinstance(found, Finding)
    assert found.severity == "error"
    assert found.found == (
        "this machine's clock is behind: by it, the certificate of the API server and of the download "
        "servers is not valid yet"
    )


def test_clocks_of_several_servers_outvote_a_wrong_one() -> None:
    others = tuple(replace(GOOD.sources[0], skew=skew) for skew in (0.1, 0.2, -9000.0))
    assert not [
        item for item in judged(situation(reached=replace(GOOD, sources=others))) if item.id == "clock-skew"
    ]


def test_a_dead_mirror_is_one_finding_whatever_it_was_to_serve() -> None:
    dead = tuple(
        Source((name,), f"https://mirror.example/{name}", "Connection refused", skew=0) for name in "abcdefg"
    )
    findings = [
        item for item in judged(situation(reached=replace(GOOD, sources=dead))) if isinstance(item, Finding)
    ]
    assert len(findings) == 1
    assert findings[0].found.startswith(
        "can't download a, b, c, d, e and 2 more from https://mirror.example: "
    )


def test_each_identity_is_judged_by_what_it_serves() -> None:
    mixed = {
        "azure": {
            "bootstrapToken": None,
            "tenantId": TENANT,
            "servicePrincipal": PRINCIPAL,
            "arc": {"enabled": True},
            "targetCluster": {"location": "westeurope"},
        },
        "kubernetesAuth": {"method": "servicePrincipal", "profile": "token"},
        "azureAuth": {"method": "arc"},
        "continuousMonitoring": True,
    }
    reads: dict[str, Any] = {"actions": ["*/read"]}
    acts: dict[str, Any] = {"actions": [f"{AKS}/listClusterAdminCredential/action"], "dataActions": ["*"]}

    def found(azure: Access, kubernetes: Access) -> list[str]:
        now = situation(mixed, **reached(access={"azure": azure, "kubernetes": kubernetes}))
        return [one.found for one in judged(now) if isinstance(one, Finding)]

    assert found(Access(granted=(reads,)), Access(granted=(acts,))) == []
    wrong = found(Access(principal_id="ARC", granted=(acts,)), Access(principal_id="SP", granted=(reads,)))
    assert [("ARC" in one, "SP" in one) for one in wrong] == [(True, False), (False, True), (False, True)]


@pytest.mark.parametrize(("unit", "expected"), [("kubelet", []), ("docker", ["port-in-use"])])
def test_the_ports_of_what_is_taken_over_are_no_trouble(unit: str, expected: list[str]) -> None:
    now = situation(
        {"takeover": True},
        listeners=(Listener(10250, "192.0.2.7", "1", "kubelet", 77),),
        foreign=(f"/etc/systemd/system/{unit}.service",),
    )
    assert [one.id for one in judged(now) if isinstance(one, Finding) and one.severity == "error"] == expected
