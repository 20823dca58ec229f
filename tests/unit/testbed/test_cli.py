# SPDX-License-Identifier: GPL-3.0-or-later
"""The testbed's command line: what it passes on, and the inventories that it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from testbed import cli, document
from testbed.layout.plan import Plan
from testbed.layout.site import Site
from testbed.machine.container import ContainerMachine
from testbed.playbooks import IN_AZURE, SOURCES, complete_inventory

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("argv", "own", "rest"),
    [
        (["kubectl", "-n", "kube-system", "get", "pods"], ["kubectl"], ["-n", "kube-system", "get", "pods"]),
        (["kubectl", "--help"], ["kubectl"], ["--help"]),
        (["kubectl"], ["kubectl"], []),
        (["--name", "kubectl", "kubectl", "-A"], ["--name", "kubectl", "kubectl"], ["-A"]),
        (["--name=e2e", "ssh", "edge-1", "ls", "-l"], ["--name=e2e", "ssh"], ["edge-1", "ls", "-l"]),
        (["node", "add", "kubectl"], ["node", "add", "kubectl"], []),
        (["inventory", "--source", "rp"], ["inventory", "--source", "rp"], []),
        ([], [], []),
    ],
)
def test_what_follows_kubectl_and_ssh_is_theirs(argv: list[str], own: list[str], rest: list[str]) -> None:
    assert cli.split(argv) == (own, rest)


def test_kubectl_gets_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    cluster = SimpleNamespace(kubectl_argv=lambda: ["kubectl", "--kubeconfig=admin"])
    monkeypatch.setattr(cli, "Testbed", lambda name: SimpleNamespace(name=name, cluster=cluster))
    monkeypatch.setattr(cli, "_replace_process", lambda argv: started.append(list(argv)) or 0)
    assert cli.main(["--name", "e2e", "kubectl", "-n", "kube-system", "get", "pods"]) == 0
    assert started == [["kubectl", "--kubeconfig=admin", "-n", "kube-system", "get", "pods"]]


# --- inventories --------------------------------------------------------------------------------------------


class Bed:
    """A testbed that runs nothing."""

    name = "unit"
    ca_pem = "-----BEGIN CERTIFICATE-----\nunit\n"

    def __init__(self, directory: Path, *names: str) -> None:
        self.site = Site("unit", directory, Plan(IPv4Network("10.213.7.0/24")), "tb-unit-0")
        self.names = names
        self.tokens: list[str] = []
        self.published: dict[str, Any] = {}
        self.cluster = SimpleNamespace(bootstrap_token=self.bootstrap_token)
        pools = SimpleNamespace(ensure=lambda: {"name": "aksflexnodes"})
        self.azure = SimpleNamespace(cluster_id="/subscriptions/s/managedClusters/plant", pools=pools)
        self.blob = SimpleNamespace(account_url="https://10.213.7.9:10000/blobs", account_key="a2V5")

    def bootstrap_token(self) -> str:
        self.tokens.append(f"abcde{len(self.tokens)}.0123456789abcdef")
        return self.tokens[-1]

    def inventory(self) -> dict[str, Any]:
        here = self.site.directory / "ssh"
        machines = [
            ContainerMachine(
                name=name,
                ip=f"10.213.7.{20 + index}",
                platform="debian12",
                pod_cidr=f"10.244.{20 + index}.0/24",
                ssh_key=here / "id_ed25519",
                known_hosts=here / "known_hosts",
                site=self.site,
            )
            for index, name in enumerate(self.names)
        ]
        return document.inventory(machines, flexnode_kubeconfig=str(self.site.directory / "admin.kubeconfig"))

    def node_document(self) -> dict[str, Any]:
        parts: dict[str, Any] = {part: {"version": "1"} for part in document.SITE}
        return {
            **parts,
            "azure": {"tenantId": "t"},
            "mirror": {"url": "https://10.213.7.6", "caCert": self.ca_pem},
        }

    def publish(self, name: str, data: bytes) -> str:
        self.published[name] = json.loads(data)
        return f"https://10.213.7.6/published/{name}"


@pytest.fixture
def bed(tmp_path: Path) -> Bed:
    return Bed(tmp_path, "edge-1", "edge-2")


@pytest.mark.parametrize("source", SOURCES)
def test_an_inventory_is_complete(bed: Bed, source: str) -> None:
    found = complete_inventory(bed, source)["all"]  # type: ignore[arg-type]
    assert found["vars"]["flexnode_config_source"] == source
    assert found["vars"]["flexnode_kubeconfig"].endswith("admin.kubeconfig")
    assert set(found["children"]["aks_flexnode"]["hosts"]) == set(found["hosts"]) == {"edge-1", "edge-2"}
    for host in found["hosts"].values():
        assert host["ansible_host"].startswith("10.213.7.")
        assert host["ansible_ssh_private_key_file"].endswith("id_ed25519")
    if source != "url":
        assert found["vars"]["flexnode_config"]["mirror"]["caCert"] == bed.ca_pem
        assert found["hosts"]["edge-2"]["flexnode_host_config"] == {"cni": {"podCIDR": "10.244.21.0/24"}}


def test_source_inline_holds_one_token(bed: Bed) -> None:
    found = complete_inventory(bed, "inline")["all"]  # type: ignore[arg-type]
    assert found["vars"]["flexnode_config"]["azure"]["bootstrapToken"] == {"token": bed.tokens[0]}
    assert len(bed.tokens) == 1


def test_source_url_publishes_a_document_per_machine(bed: Bed) -> None:
    found = complete_inventory(bed, "url")["all"]  # type: ignore[arg-type]
    assert found["vars"]["flexnode_config_url_ca_cert"] == bed.ca_pem
    for name, host in found["hosts"].items():
        assert host["flexnode_config_url"] == f"https://10.213.7.6/published/config-{name}.json"
        assert "flexnode_host_config" not in host
    config = bed.published["config-edge-2.json"]["config"]
    assert config["cni"]["podCIDR"] == "10.244.21.0/24"
    assert config["azure"]["bootstrapToken"]["token"] in bed.tokens
    assert len(set(bed.tokens)) == 2


@pytest.mark.parametrize("source", IN_AZURE)
def test_sources_in_azure_know_the_cluster_and_no_token(bed: Bed, source: str) -> None:
    found = complete_inventory(bed, source)["all"]["vars"]  # type: ignore[arg-type]
    assert found["flexnode_cluster_id"] == bed.azure.cluster_id
    assert set(found["flexnode_config"]) == set(document.SITE)
    assert bed.tokens == []
    assert ("flexnode_blob_account_key" in found) == (source == "blob")
    assert ("flexnode_config_url_ca_cert" in found) == (source in ("rp", "blob"))
    assert found.get("flexnode_pool") == ("aksflexnodes" if source == "machines" else None)


@pytest.mark.parametrize("source", SOURCES)
def test_ansible_reads_what_is_printed(
    bed: Bed, source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "Testbed", lambda name: bed)
    assert cli.main(["inventory", "--source", source]) == 0
    printed = capsys.readouterr().out
    assert ("python -m testbed --name unit azure" in printed) == (source in IN_AZURE)
    file = tmp_path / "edge_hosts"
    file.write_text(printed)
    shown = subprocess.run(
        [Path(sys.executable).parent / "ansible-inventory", "-i", file, "--list"],
        cwd=ROOT,
        env={**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answer = json.loads(shown.stdout)
    assert answer["aks_flexnode"]["hosts"] == ["edge-1", "edge-2"]
    assert answer["_meta"]["hostvars"]["edge-1"]["flexnode_config_source"] == source


def test_no_machines_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "Testbed", lambda name: Bed(tmp_path))
    assert cli.main(["inventory"]) == 0
    printed = capsys.readouterr()
    assert "node add" in printed.err
    assert yaml.safe_load(printed.out)["all"]["hosts"] == {}
