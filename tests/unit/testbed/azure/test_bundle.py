# SPDX-License-Identifier: GPL-3.0-or-later
"""What the provider gives to a node is a configuration that the node takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import loads, unwrap
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from testbed.azure.provider import bundle
from testbed.azure.provider.bundle import Invalid
from testbed.azure.serving.place import BlobAccount, Kubernetes, Place
from testbed.layout.identifiers import CLUSTER_ID, LOCATION, NODE_RESOURCE_GROUP, SUBSCRIPTION_ID, TENANT_ID
from testbed.layout.pki import Authority

TOKEN = "abcdef.0123456789abcdef"
PRINCIPAL = {"clientId": TENANT_ID, "clientSecret": "hidden", "clientTenant": TENANT_ID}
SERVICE_PRINCIPAL = {"method": "servicePrincipal", "servicePrincipal": PRINCIPAL}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    authority = Authority(tmp_path_factory.mktemp("pki"), "ca", "unit CA")
    authority.ensure()
    kubernetes = Kubernetes(
        version="1.34.4",
        server="https://10.213.7.2:6443",
        ca_pem=authority.pem,
        service_cidr="10.0.0.0/16",
        pod_cidr="10.244.0.0/16",
        dns_service_ip="10.0.0.10",
    )
    return Place(
        origin="https://10.213.7.8",
        tenant_id=TENANT_ID,
        subscription_id=SUBSCRIPTION_ID,
        cluster_id=CLUSTER_ID,
        location=LOCATION,
        node_resource_group=NODE_RESOURCE_GROUP,
        control_key="key",
        kubernetes=kubernetes,
        blob=BlobAccount("https://10.213.7.9:10000/aksconfigs", "aksconfigs", "a2V5"),
    )


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"nodeConfig": {"maxPods": 50, "labels": {"site": "lab"}, "taints": ["edge=true:NoSchedule"]}},
        {"nodeConfig": {"kubelet": {"imageGCHighThreshold": 90, "verbosity": 4}}},
        {"versions": {"kubernetes": "1.33.6", "containerd": "2.3.4", "runc": "1.4.3", "cni": "1.9.1"}},
        {"continuousMonitoring": True, "azureAuth": SERVICE_PRINCIPAL},
        {"azureAuth": SERVICE_PRINCIPAL, "kubernetesAuth": {"method": "bootstrapToken"}},
        {"azureAuth": {"method": "managedIdentity", "managedIdentity": {}}},
        {"azureAuth": {"method": "arc"}, "continuousMonitoring": True},
    ],
)
def test_a_node_takes_every_bundle(place: Place, properties: dict[str, Any]) -> None:
    config = bundle.document(place, "edge-1", bundle.parse(properties), TOKEN)
    document, version = unwrap(loads(bundle.text(config, 1708123456)))
    parsed = parse(document)
    assert version == "1708123456"
    assert parsed.agent.node_name == "edge-1"
    assert parsed.azure.bootstrap_token is not None


@pytest.mark.parametrize("auth", [{"useAzureAuth": True}, {"method": "servicePrincipal"}])
def test_a_node_takes_a_bundle_without_a_token(place: Place, auth: dict[str, Any]) -> None:
    properties = bundle.parse({"azureAuth": SERVICE_PRINCIPAL, "kubernetesAuth": auth})
    assert bundle.needs_azure(properties)
    assert parse(bundle.document(place, "edge-1", properties, None)).azure.bootstrap_token is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "no 'properties'"),
        ([], "must be an object"),
        ({"nodeconfig": {}}, "'nodeconfig' on object 'properties'"),
        ({"nodeConfig": {"kubelets": {}}}, "'kubelets' on object 'properties.nodeConfig'"),
        ({"azureAuth": {"method": "token"}}, "it takes servicePrincipal"),
        ({"azureAuth": {"method": "servicePrincipal"}}, "servicePrincipal.clientId"),
        ({"continuousMonitoring": True}, "azureAuth.method"),
    ],
)
def test_properties_that_are_not_taken(given: Any, says: str) -> None:
    with pytest.raises(Invalid, match=says):
        bundle.parse(given)


def test_secrets_are_left_out_at_any_depth(place: Place) -> None:
    properties = bundle.parse({"azureAuth": SERVICE_PRINCIPAL})
    shown = json.dumps(bundle.without_secrets([bundle.document(place, "n", properties, TOKEN), properties]))
    assert "hidden" not in shown
    assert TOKEN not in shown
    assert "clientTenant" in shown


def test_a_place_is_read_as_it_was_written(place: Place, tmp_path: Any) -> None:
    (tmp_path / "place.json").write_text(place.text())
    assert Place.load(tmp_path) == place
    assert (place.resource_group, place.cluster_name) == ("testbed", "testbed")
