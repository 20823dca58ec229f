# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The bootstrap data of a pool becomes a document; what is unknown is noted, what is missing is named."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge, secrets_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.bootstrap_data import (
    NEEDED,
    document_from,
    server_url,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.errors import BootstrapDataUnusable
from tests.unit.node.config.test_samples import CA_DATA, CLUSTER

TOKEN = "abcdef.0123456789abcdef"


def data(change: dict[str, Any] | None = None) -> dict[str, Any]:
    """What listBootstrapData answers."""
    plain = {
        "azure": {
            "resourceManagerEndpoint": "https://management.azure.com/",
            "targetCluster": {"resourceId": CLUSTER},
            "targetAgentPoolName": "edge",
            "bootstrapToken": {"token": TOKEN},
        },
        "components": {"kubernetes": "1.34.4", "containerd": "2.3.4", "runc": "1.4.3"},
        "networking": {"dnsServiceIP": "10.0.0.10", "cniVersion": "v1.9.1"},
        "node": {
            "maxPods": 75,
            "labels": {"site": "lab-1", "kubernetes.azure.com/managed": "false"},
            "taints": ["site=lab-1:NoSchedule"],
            "kubelet": {"clusterFQDN": "plant-1.hcp.westeurope.azmk8s.io", "caCertData": CA_DATA},
        },
    }
    return laid_over(plain, change or {})


def laid_over(base: Any, change: Any) -> Any:
    """Like merge, for what is not a document; None removes a key."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    merged = {key: laid_over(base.get(key), value) for key, value in change.items()}
    return {key: value for key, value in {**base, **merged}.items() if value is not None}


def test_every_field_finds_its_place() -> None:
    document, notes = document_from(data())
    assert notes == []
    assert document == {
        "azure": {
            "resourceManagerEndpoint": "https://management.azure.com/",
            "targetCluster": {"resourceId": CLUSTER},
            "targetAgentPoolName": "edge",
            "bootstrapToken": {"token": TOKEN},
        },
        "kubernetes": {"version": "1.34.4"},
        "containerd": {"version": "2.3.4"},
        "runc": {"version": "1.4.3"},
        "cni": {"version": "1.9.1"},
        "node": {
            "maxPods": 75,
            "labels": {"site": "lab-1"},
            "taints": ["site=lab-1:NoSchedule"],
            "kubelet": {
                "dnsServiceIP": "10.0.0.10",
                "serverURL": "https://plant-1.hcp.westeurope.azmk8s.io:443",
                "caCertData": CA_DATA,
            },
        },
    }
    assert parse(document).azure.target_agent_pool_name == "edge"
    assert secrets_of(document) == [TOKEN]


def test_unknown_fields_are_noted_and_never_refused() -> None:
    unknown = {"bootstrap": {"ociImage": "x"}, "node": {"kubelet": {"rotateCertificates": True}}, "v": 2}
    document, notes = document_from(data(unknown))
    assert document == document_from(data())[0]
    assert notes == [
        "the bootstrap data has fields that are not used: bootstrap, node.kubelet.rotateCertificates, v"
    ]


def test_fields_of_early_versions_are_read() -> None:
    tenant = "99999999-2222-3333-4444-555555555555"
    old = {"azure": {"resourceManagerEndpoint": None, "tenantId": tenant, "cloud": "AzureChinaCloud"}}
    document, notes = document_from(data(old))
    assert notes == []
    azure = parse(document).azure
    assert (azure.tenant_id, azure.resource_manager) == (tenant, "https://management.chinacloudapi.cn")


def test_a_cloud_that_is_not_known_is_noted() -> None:
    document, notes = document_from(data({"azure": {"cloud": "AzureMoonCloud"}}))
    assert "cloud" not in document["azure"]
    assert "AzureMoonCloud" in notes[0]


def test_versions_are_those_that_the_pool_names() -> None:
    """Whether a machine can verify them is its own matter (test_pool_versions.py)."""
    change = {"components": {"containerd": "v2.0.99"}, "networking": {"cniVersion": None}}
    document, notes = document_from(data(change))
    assert (document["containerd"], "cni" in document, notes) == ({"version": "2.0.99"}, False, [])


@pytest.mark.parametrize("path", NEEDED)
def test_a_missing_field_is_named(path: str) -> None:
    """FLEX-1113."""
    change: Any = None
    for key in reversed(path.split(".")):
        change = {key: change}
    with pytest.raises(BootstrapDataUnusable) as caught:
        document_from(data(change))
    assert caught.value.why == f"{path} is missing"


def test_every_missing_field_is_named_in_one_error() -> None:
    with pytest.raises(BootstrapDataUnusable) as caught:
        document_from({}, pool="edge")
    assert all(path in caught.value.why for path in NEEDED)
    assert caught.value.where == "edge"


def test_optional_fields_may_be_missing() -> None:
    change = {
        "azure": {"resourceManagerEndpoint": None, "targetCluster": None, "targetAgentPoolName": None},
        "components": {"containerd": None, "runc": None},
        "networking": None,
        "node": {"maxPods": None, "labels": None, "taints": None},
    }
    document, notes = document_from(data(change), cluster=CLUSTER, pool="edge")
    assert notes == []
    config = parse(document)
    assert str(config.cluster_id) == CLUSTER
    assert config.azure.target_agent_pool_name == "edge"
    assert config.node.max_pods == 110


def test_data_about_another_pool_or_cluster_is_refused() -> None:
    document_from(data(), cluster=CLUSTER.upper(), pool="edge")
    with pytest.raises(BootstrapDataUnusable, match="it names edge"):
        document_from(data(), cluster=CLUSTER, pool="other")
    with pytest.raises(BootstrapDataUnusable, match="it names /subscriptions"):
        document_from(data(), cluster=f"{CLUSTER}2", pool="edge")


@pytest.mark.parametrize(
    ("fqdn", "url"),
    [
        ("plant.test", "https://plant.test:443"),
        ("plant.test:6443", "https://plant.test:6443"),
        ("https://plant.test", "https://plant.test"),
    ],
)
def test_the_api_server(fqdn: str, url: str) -> None:
    assert server_url(fqdn) == url


def test_settings_of_the_user_go_over_it() -> None:
    document, _notes = document_from(data())
    merged = merge(document, {"kubernetes": {"version": "1.34.3"}, "node": {"labels": {"rack": "7"}}})
    assert merged["kubernetes"] == {"version": "1.34.3"}
    assert merged["node"]["labels"] == {"rack": "7", "site": "lab-1"}
