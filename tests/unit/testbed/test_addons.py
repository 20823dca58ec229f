# SPDX-License-Identifier: GPL-3.0-or-later
"""What the testbed's cluster brings to its nodes."""

from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from testbed.cluster import addons
from testbed.images.oci import Image, digest
from testbed.images.packed import packed
from testbed.layout.plan import DNS_SERVICE_IP, Plan
from testbed.machine.container import routes

PLAN = Plan(IPv4Network("10.213.7.0/24"))
OBJECTS = dict(addons.objects("https://10.213.7.2:6443", "registry/kube-proxy:v1", "registry/coredns:1"))


def test_every_object_lies_where_its_name_says() -> None:
    for path, document in OBJECTS.items():
        assert path.endswith(f"/{document['metadata']['name']}")
    assert {document["kind"] for document in OBJECTS.values()} >= {"DaemonSet", "Deployment", "Service"}


def test_kube_proxy_runs_everywhere_and_needs_no_service_to_start() -> None:
    pod = OBJECTS[f"{addons.APPS}/daemonsets/kube-proxy"]["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    assert pod["tolerations"] == [{"operator": "Exists"}]
    config = OBJECTS[f"{addons.CORE}/configmaps/kube-proxy"]["data"]
    assert json.loads(config["kubeconfig"])["clusters"][0]["cluster"]["server"] == "https://10.213.7.2:6443"
    assert json.loads(config["config.json"])["mode"] == "nftables"


def test_dns_is_where_nodes_look_for_it_and_leaves_a_drained_node() -> None:
    assert OBJECTS[f"{addons.CORE}/services/kube-dns"]["spec"]["clusterIP"] == DNS_SERVICE_IP
    pod = OBJECTS[f"{addons.APPS}/deployments/coredns"]["spec"]["template"]["spec"]
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["edge"]


def test_a_machine_knows_the_way_to_the_pods_of_all_others() -> None:
    ways = dict(PLAN.pod_routes(PLAN.node(20)))
    assert ways[PLAN.pod_cidr(21)] == PLAN.node(21)
    assert PLAN.pod_cidr(20) not in ways
    lines = routes([("10.244.21.0/24", "10.213.7.21")])["etc/testbed/routes"].content
    assert lines == b"route replace 10.244.21.0/24 via 10.213.7.21\n"


def test_image_is_packed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = []

    def make() -> Image:
        made.append(True)
        return Image("thing", "1", b"layer", entrypoint=("/thing",))

    first = packed("thing", "1", "amd64", ("abc",), make)
    assert packed("thing", "1", "amd64", ("abc",), make) == first
    assert len(made) == 1
    assert packed("thing", "1", "amd64", ("def",), make) != first
    assert packed("thing", "1", "arm64", ("abc",), make).directory != first.directory
    manifest = json.loads(first.manifest())
    config, layer = first.blobs()
    assert manifest["config"]["digest"] == digest(config)
    assert manifest["layers"][0]["digest"] == digest(layer)
