# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documents that other tests start from, in the seeds' field names; and that each of them is accepted."""

from __future__ import annotations

from base64 import b64encode
from copy import deepcopy
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge, unwrap
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ConfigInvalid

SUBSCRIPTION = "12345678-1234-1234-1234-123456789abc"
TENANT = "87654321-4321-4321-4321-cba987654321"
CLIENT = "11111111-2222-3333-4444-555555555555"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg"
CLUSTER = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"
TOKEN = "abcdef.0123456789abcdef"
SHA = "ab" * 32
# The smallest DER sequence: enough for what the standard library lets us check.
DER = b64encode(bytes([0x30, 3, 2, 1, 1])).decode()
PEM = f"-----BEGIN CERTIFICATE-----\n{DER}\n-----END CERTIFICATE-----\n"
CA_DATA = b64encode(PEM.encode()).decode()
PRINCIPAL = {"clientId": CLIENT, "clientSecret": "s3cret-of-the-principal", "clientTenant": TENANT}

PREPARE: dict[str, Any] = {"kubernetes": {"version": "1.34.4"}}
TOKEN_JOIN: dict[str, Any] = {
    "azure": {"targetCluster": {"resourceId": CLUSTER}, "bootstrapToken": {"token": TOKEN}},
    "kubernetes": {"version": "1.34.4"},
    "node": {"kubelet": {"serverURL": "https://plant.hcp.westeurope.azmk8s.io:443", "caCertData": CA_DATA}},
}
MONITORED_BUNDLE: dict[str, Any] = {
    "configVersion": "1708123456",
    "config": {
        "continuousMonitoring": True,
        "azure": {
            "subscriptionId": SUBSCRIPTION,
            "tenantId": TENANT,
            "servicePrincipal": PRINCIPAL,
            "targetCluster": {"resourceId": CLUSTER, "location": "westeurope"},
        },
        "kubernetesAuth": {"useAzureAuth": True},
        "kubernetes": {"version": "1.31.0"},
        "containerd": {"version": "1.7.20"},
        "node": {
            "maxPods": 50,
            "labels": {"environment": "prod"},
            "kubelet": {
                "dnsServiceIP": "10.0.0.10",
                "serverURL": "https://plant.hcp.westeurope.azmk8s.io",
                "caCertData": CA_DATA,
            },
        },
    },
}
EARLY: dict[str, Any] = {
    "azure": {
        "subscriptionId": SUBSCRIPTION,
        "tenantId": TENANT,
        "location": "westeurope",
        "resourceGroup": "edge-rg",
        "arc": {"autoRegister": True, "targetCluster": {"name": "plant", "resourceGroup": "rg"}},
        "vpn": {
            "enabled": True,
            "autoProvision": True,
            "p2sGatewayCIDR": "192.168.100.0/24",
            "gatewaySKU": "VpnGw2AZ",
        },
    },
    "node": {
        "labels": {"node-type": "edge", "location": "edge-site-1"},
        "kubelet": {"serverURL": "https://plant.private:443", "caCertData": CA_DATA},
    },
    "agent": {"logLevel": "info", "logFile": "/var/log/aks-flex-node/agent.log"},
    "paths": {
        "configDir": "/etc/aks-flex-node",
        "dataDir": "/var/lib/aks-flex-node",
        "logDir": "/var/log/aks-flex-node",
        "kubernetes": {"configDir": "/etc/kubernetes", "kubeletDir": "/var/lib/kubelet"},
        "cni": {"binDir": "/opt/cni/bin", "confDir": "/etc/cni/net.d", "libDir": "/var/lib/cni"},
    },
    "containerd": {
        "version": "1.7.20",
        "pauseImage": "mcr.microsoft.com/oss/kubernetes/pause:3.6",
        "metricsAddress": "0.0.0.0:10257",
    },
    "kubernetes": {
        "version": "1.32.7",
        "urlTemplate": "https://mirror.example/kubernetes/v%s/binaries/kubernetes-node-linux-%s.tar.gz",
        "sha256": SHA,
    },
    "runc": {"version": "1.1.12", "url": "https://mirror.example/runc/v1.1.12/runc.amd64"},
}


def at(path: str, value: object) -> dict[str, Any]:
    """Return a document that holds one value at a dotted path."""
    document: Any = value
    for key in reversed(path.split(".")):
        document = {key: document}
    assert isinstance(document, dict)
    return document


def joining(*changes: dict[str, Any]) -> dict[str, Any]:
    """Return the token document with changes merged over it."""
    document = deepcopy(TOKEN_JOIN)
    for change in changes:
        document = merge(document, change)
    return document


def problems_of(document: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return the problems of a document that must be refused, by path."""
    with pytest.raises(ConfigInvalid) as caught:
        parse(document, **options)
    return {problem.path: problem for problem in caught.value.problems}


def test_the_token_document_is_accepted() -> None:
    config = parse(TOKEN_JOIN)
    assert config.cluster_id.name == "plant"
    assert config.api_server.url == "https://plant.hcp.westeurope.azmk8s.io:443"
    assert config.api_server.ca.base64 == CA_DATA
    assert config.azure.subscription_id == SUBSCRIPTION
    assert config.node_name is None


def test_the_bundle_of_the_provider_is_accepted() -> None:
    document, version = unwrap(MONITORED_BUNDLE)
    config = parse(document)
    assert version == "1708123456"
    assert (config.kubernetes_auth.method, config.azure_auth.method) == (
        "servicePrincipal",
        "servicePrincipal",
    )
    assert config.node.max_pods == 50


def test_the_early_form_is_accepted() -> None:
    config = parse(EARLY)
    assert config.cluster_id.canonical() == CLUSTER
    assert (config.azure.arc.resource_group, config.azure.arc.location) == ("edge-rg", "westeurope")
    assert config.azure_auth.method == "arc"
    assert config.log_file == "/var/log/aks-flex-node/agent.log"


def test_prepare_needs_only_a_version() -> None:
    config = parse(PREPARE, purpose="prepare")
    assert str(config.kubernetes.version) == "1.34.4"
    assert config.kubernetes_auth.method is None
    with pytest.raises(ConfigInvalid, match="resourceId"):
        _ = config.cluster_id
    with pytest.raises(ConfigInvalid, match="serverURL"):
        _ = config.api_server


def test_what_a_join_requires_is_named_at_once() -> None:
    assert set(problems_of({})) == {
        "azure.targetCluster.resourceId",
        "kubernetes.version",
        "node.kubelet.serverURL",
        "node.kubelet.caCertData",
        "kubernetesAuth.method",
    }
