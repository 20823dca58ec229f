# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rules between fields, and which credential is chosen from what is present."""
# ruff: noqa: E501 - a table reads best with one case a line

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from tests.unit.node.config.test_samples import (
    CA_DATA,
    CLIENT,
    CLUSTER,
    PREPARE,
    PRINCIPAL,
    SHA,
    TENANT,
    TOKEN,
    at,
    joining,
    problems_of,
)
from tests.unit.node.tunnels import a_profile

TARBALL = "https://m.test/v%s/kubernetes-node-linux-%s.tar.gz"
IN_FILE = {"clientId": CLIENT, "clientSecretFile": "/etc/sp", "tenantId": TENANT}
ARC = {"azure": {"tenantId": TENANT, "arc": {"enabled": True}, "targetCluster": {"location": "westeurope"}}}
NO_TOKEN: dict[str, Any] = {"azure": {"bootstrapToken": None}}

BROKEN: list[tuple[str, dict[str, Any], str]] = [
    ("principal without secret", at("azure.servicePrincipal", {"clientId": CLIENT, "clientTenant": TENANT}), "azure.servicePrincipal"),
    ("principal with two secrets", at("azure.servicePrincipal", {**PRINCIPAL, "clientSecretFile": "/etc/sp"}), "azure.servicePrincipal"),
    ("principal without id", at("azure.servicePrincipal", {"clientSecret": "x", "clientTenant": TENANT}), "azure.servicePrincipal.clientId"),
    ("principal without tenant", at("azure.servicePrincipal", {"clientId": CLIENT, "clientSecret": "x"}), "azure.servicePrincipal.clientTenant"),
    ("empty token", at("azure.bootstrapToken", {"token": None}), "azure.bootstrapToken.token"),
    ("no credential", NO_TOKEN, "kubernetesAuth.method"),
    ("token refused by choice", {**NO_TOKEN, "kubernetesAuth": {"useAzureAuth": False}}, "kubernetesAuth.method"),
    ("method without its credential", at("kubernetesAuth.method", "servicePrincipal"), "azure.servicePrincipal"),
    ("azure method without its credential", {"azure": {"tenantId": TENANT}, "azureAuth": {"method": "arc"}}, "azure.arc.enabled"),
    ("method says token, there is none", {"azure": {"bootstrapToken": None, "managedIdentity": {}, "tenantId": TENANT}, "kubernetesAuth": {"method": "bootstrapToken"}}, "azure.bootstrapToken.token"),
    ("two identities", {"azure": {"servicePrincipal": PRINCIPAL, "managedIdentity": {}}}, "azureAuth.method"),
    ("useAzureAuth and token", {"kubernetesAuth": {"useAzureAuth": True, "method": "bootstrapToken"}}, "kubernetesAuth.useAzureAuth"),
    ("no useAzureAuth and Azure method", {"azure": {"servicePrincipal": PRINCIPAL}, "kubernetesAuth": {"useAzureAuth": False, "method": "servicePrincipal"}}, "kubernetesAuth.useAzureAuth"),
    ("profile token with a bootstrap token", at("kubernetesAuth.profile", "token"), "kubernetesAuth.profile"),
    ("identity without tenant", at("azure.managedIdentity", {}), "azure.tenantId"),
    ("arc without region", {"azure": {"tenantId": TENANT, "arc": {"enabled": True}}}, "azure.targetCluster.location"),
    ("too many tags", at("azure.arc.tags", {f"tag{n}": "x" for n in range(51)}), "azure.arc.tags"),
    ("monitoring with a token alone", at("continuousMonitoring", True), "continuousMonitoring"),
    ("vpn without profile", at("azure.vpn.enabled", True), "azure.vpn.profile"),
    ("vpn with a path", at("azure.vpn", {"enabled": True, "profile": "/etc/openvpn/azure.ovpn"}), "azure.vpn.profile"),
    ("vpn with half a profile", at("azure.vpn", {"enabled": True, "profile": "client\nremote gateway.example\n"}), "azure.vpn.profile"),
    ("vpn over services", {"azure": {"vpn": {"enabled": True, "autoProvision": True, "p2sGatewayCIDR": "10.0.1.0/24"}}, "network": {"serviceCIDR": "10.0.0.0/16"}}, "azure.vpn.p2sGatewayCIDR"),
    ("vpn over the default range", {"azure": {"vpn": {"enabled": True, "autoProvision": True}}, "network": {"podCIDR": "192.168.0.0/16"}}, "azure.vpn.p2sGatewayCIDR"),
    ("pods over services", at("network", {"serviceCIDR": "10.0.0.0/16", "podCIDR": "10.0.128.0/17"}), "network.podCIDR"),
    ("VNet over services", at("network", {"serviceCIDR": "10.0.0.0/16", "vnetCIDRs": ["172.16.0.0/16", "10.0.0.0/8"]}), "network.vnetCIDRs[1]"),
    ("bridge over VNet", {"cni": {"mode": "bridge", "podCIDR": "10.1.2.0/24"}, "network": {"vnetCIDRs": ["10.1.0.0/16"]}}, "cni.podCIDR"),
    ("bridge without range", at("cni.mode", "bridge"), "cni.podCIDR"),
    ("range without bridge", at("cni.podCIDR", "10.244.1.0/24"), "cni.podCIDR"),
    ("DNS outside services", {"network": {"serviceCIDR": "10.96.0.0/16"}, "node": {"kubelet": {"dnsServiceIP": "10.0.0.10"}}}, "node.kubelet.dnsServiceIP"),
    ("thresholds upside down", at("node.kubelet", {"imageGCHighThreshold": 70}), "node.kubelet.imageGCLowThreshold"),
    ("two client CAs", at("node.kubelet", {"clientCAFile": "/etc/ca.crt", "clientCAData": CA_DATA}), "node.kubelet.clientCAFile"),
    ("taint twice", at("node.taints", ["a=b:NoSchedule", "a=c:NoSchedule"]), "node.taints[1]"),
    ("tarball without digest", at("kubernetes.urlTemplate", TARBALL), "kubernetes.sha256"),
    ("tarball with digests of programs", at("kubernetes", {"urlTemplate": TARBALL, "sha256": {"kubelet": SHA}}), "kubernetes.sha256"),
    ("one digest for three programs", at("kubernetes.sha256", SHA), "kubernetes.sha256"),
    ("npd without digest", at("npd.version", "0.8.20"), "npd.sha256"),
    ("digest of no npd", at("npd.sha256", SHA), "npd.version"),
    ("address of no npd", at("npd.url", "https://site.example/npd.tar.gz"), "npd.version"),
    ("state in a directory that is emptied", {"paths": {"dataDir": "/var/lib/kubelet/flex"}}, "paths.dataDir"),
    ("state above one", {"paths": {"dataDir": "/srv/x", "cni": {"libDir": "/srv/x/cni"}}}, "paths.dataDir"),
    ("state in a fixed one", {"paths": {"dataDir": "/opt/aks-flex-node/state"}}, "paths.dataDir"),
    ("two log directories", {"agent": {"logDir": "/data/a"}, "paths": {"logDir": "/data/b"}}, "paths.logDir"),
    ("log file elsewhere", at("agent", {"logDir": "/data/a", "logFile": "/data/b/x.log"}), "agent.logFile"),
    ("pull without repository", at("pull.ref", "main"), "pull.repository"),
    ("settings of machines without a pool", at("azure.machines.apply", "at-once"), "azure.targetAgentPoolName"),
    ("name that no machine can have", {**at("azure.targetAgentPoolName", "edge"), "agent": {"nodeName": "edge-1.lab"}}, "agent.nodeName"),
    ("kind of the kubelet's file", at("kubelet.configOverrides", {"kind": "Pod"}), "kubelet.configOverrides.kind"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "path"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_broken_rule_is_one_problem(change: dict[str, Any], path: str) -> None:
    assert list(problems_of(joining(change))) == [path]


KEPT: list[tuple[str, dict[str, Any]]] = [
    ("node's pods within the cluster's", {"cni": {"mode": "bridge", "podCIDR": "10.244.7.0/24"}, "network": {"podCIDR": "10.244.0.0/16"}}),
    ("VNet prefixes may repeat", at("network.vnetCIDRs", ["10.1.0.0/16", "10.1.0.0/16"])),
    ("vpn off, default range unused", at("network.podCIDR", "192.168.0.0/16")),
    ("IPv6 beside IPv4", at("network", {"serviceCIDR": "10.0.0.0/16", "podCIDR": "fd00::/56"})),
    ("vpn with profile", at("azure.vpn", {"enabled": True, "profile": a_profile()})),
    ("vpn to be provisioned", at("azure.vpn", {"enabled": True, "autoProvision": True})),
    ("tarball with digest", at("kubernetes", {"urlTemplate": TARBALL, "sha256": {"amd64": SHA}})),
    ("npd with digest", at("npd", {"version": "0.8.20", "sha256": SHA})),
    ("npd in the mirror", {"npd": {"version": "0.8.20"}, "mirror": {"catalogue": {"npd": {"0.8.20": {"amd64": SHA}}}}}),
    ("same taint, other effect", at("node.taints", ["a=b:NoSchedule", "a=b:NoExecute"])),
    ("secret in a file", at("azure.servicePrincipal", IN_FILE)),
    ("both log keys agree", {"agent": {"logDir": "/var/log/a", "logFile": "/var/log/a/x.log"}, "paths": {"logDir": "/var/log/a"}}),
]  # fmt: skip


@pytest.mark.parametrize("change", [case[1] for case in KEPT], ids=[case[0] for case in KEPT])
def test_kept_rule(change: dict[str, Any]) -> None:
    parse(joining(change))


METHODS: list[tuple[str, dict[str, Any], str | None, str | None]] = [
    ("token", {}, "bootstrapToken", None),
    ("token to join, Arc to poll", ARC, "bootstrapToken", "arc"),
    ("principal", {"azure": {"bootstrapToken": None, "servicePrincipal": PRINCIPAL}}, "servicePrincipal", "servicePrincipal"),
    ("system-assigned identity", {"azure": {"bootstrapToken": None, "managedIdentity": {}, "tenantId": TENANT}}, "managedIdentity", "managedIdentity"),
    ("Arc, registered by a principal", {"azure": {**ARC["azure"], "bootstrapToken": None, "servicePrincipal": PRINCIPAL}}, "arc", "arc"),
    ("token and principal, useAzureAuth", {"azure": {"servicePrincipal": PRINCIPAL}, "kubernetesAuth": {"useAzureAuth": True}}, "servicePrincipal", "servicePrincipal"),
    ("token and principal", {"azure": {"servicePrincipal": PRINCIPAL}}, "bootstrapToken", "servicePrincipal"),
    ("explicit among several", {"azure": {"servicePrincipal": PRINCIPAL, "managedIdentity": {}}, "azureAuth": {"method": "managedIdentity"}}, "bootstrapToken", "managedIdentity"),
    ("explicit kubelet among several", {"azure": {"servicePrincipal": PRINCIPAL, "managedIdentity": {}}, "kubernetesAuth": {"method": "servicePrincipal"}}, "servicePrincipal", "servicePrincipal"),
    ("explicit identity needs no section", {"azure": {"tenantId": TENANT}, "kubernetesAuth": {"method": "managedIdentity"}}, "managedIdentity", "managedIdentity"),
    ("Arc for Azure, principal for the kubelet", {"azure": {**ARC["azure"], "servicePrincipal": PRINCIPAL}, "azureAuth": {"method": "arc"}, "kubernetesAuth": {"method": "servicePrincipal"}}, "servicePrincipal", "arc"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "kubelet", "azure"), [case[1:] for case in METHODS], ids=[case[0] for case in METHODS]
)
def test_method_is_chosen_from_what_is_present(
    change: dict[str, Any], kubelet: str | None, azure: str | None
) -> None:
    config = parse(joining(change))
    assert (config.kubernetes_auth.method, config.azure_auth.method) == (kubelet, azure)


def test_a_pollable_source_allows_monitoring_without_an_identity() -> None:
    assert parse(joining(at("continuousMonitoring", True)), pollable=True).continuous_monitoring


def test_prepare_checks_what_is_given_but_asks_for_no_credential() -> None:
    parse({**PREPARE, "azure": {"targetCluster": {"resourceId": CLUSTER}}}, purpose="prepare")
    assert "cni.podCIDR" in problems_of({**PREPARE, "cni": {"mode": "bridge"}}, purpose="prepare")


@pytest.mark.parametrize(
    ("cni", "sentence"),
    [
        (
            {"mode": "bridge"},
            "cni.podCIDR is missing: cni.mode bridge needs it. Set a CIDR that no other node uses",
        ),
        (
            {"mode": "none", "podCIDR": "10.244.20.0/24"},
            "cni.podCIDR is 10.244.20.0/24, but cni.mode is none. "
            "Set cni.mode: bridge, or remove cni.podCIDR",
        ),
    ],
)
def test_a_problem_says_what_to_set(cni: dict[str, Any], sentence: str) -> None:
    assert str(problems_of({**PREPARE, "cni": cni}, purpose="prepare")["cni.podCIDR"]) == sentence


def test_an_empty_principal_is_not_ignored() -> None:
    found = problems_of(joining(at("azure.servicePrincipal", {})))
    assert set(found) == {"azure.servicePrincipal.clientId", "azure.servicePrincipal.clientTenant"}


def test_a_wrong_token_does_not_also_count_as_missing() -> None:
    assert list(problems_of(joining(at("azure.bootstrapToken.token", TOKEN.upper())))) == [
        "azure.bootstrapToken.token"
    ]


SHARED = [
    "/",
    "/srv",
    "/etc",
    "/usr",
    "/var/lib",
    "/usr/local/bin",
    "/etc/ssl/certs",
    "/etc/ssh",
    "/etc/apt",
    "/var/lib/docker",
    "/var/lib/containerd",
    "/var/spool/cron",
    *(f"/{top}{below}" for top in ("home", "root") for below in ("", "/kube", "/edge/kubelet")),
    "/boot/efi",
    "/run/kubelet",
    "/var/run/kubelet",
    "/tmp/kubelet",
    "/var/tmp/kubelet",
    "/dev/shm",
    "/proc/1",
    "/usr/lib/systemd",
]


@pytest.mark.parametrize("directory", SHARED)
def test_a_directory_that_others_use_is_not_ours(directory: str) -> None:
    for path in ("paths.dataDir", "paths.kubernetes.kubeletDir"):
        (problem,) = problems_of(joining(at(path, directory))).values()
        assert (problem.path, problem.accepted.startswith("a dedicated directory")) == (path, True)
