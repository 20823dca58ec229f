# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""node-problem-detector: its files, its unit, its credential."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components.every import (
    COMPONENTS,
    PREPARED,
    resources_of,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.npd.detector import arguments, unit
from ansible_collections.aks.flexnode.plugins.module_utils.node.components.npd.monitors import condition_types
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import check_available
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import KUBELET, NPD
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.units import Unit
from scripts.docs.machine import FACTS
from tests.unit.node.config.test_samples import joining
from tests.unit.node.conftest import Golden

SHA = "ab" * 32
ON = {"npd": {"version": "1.36.0", "sha256": SHA}}
TENANT = "87654321-4321-4321-4321-cba987654321"
PRINCIPAL = {
    "azure": {
        "tenantId": TENANT,
        "bootstrapToken": None,
        "servicePrincipal": {
            "clientId": TENANT,
            "clientTenant": TENANT,
            "clientSecretFile": "/home/site/secret",
        },
    },
    "kubernetesAuth": {"method": "servicePrincipal", "profile": "token"},
}
ARC = {
    "azure": {
        "tenantId": TENANT,
        "bootstrapToken": None,
        "targetCluster": {"location": "westeurope"},
        "arc": {"enabled": True},
    },
    "kubernetesAuth": {"method": "arc", "profile": "token"},
}


def configured(*changes: dict[str, Any]) -> NodeConfig:
    return parse(joining(*changes), pollable=True)


def items(*changes: dict[str, Any], component: str = "npd") -> dict[str, Resource]:
    return {item.name: item for item in resources_of([component], configured(*changes), FACTS)}


def test_it_is_off_unless_a_version_is_set() -> None:
    assert items() == {}
    assert NPD not in items(component="services")
    assert condition_types(configured()) == ()
    config = configured(ON)
    check_available(config)
    assert "npd" not in PREPARED, "it reports on a Node: an image has none"
    assert list(COMPONENTS)[-3:] == ["kubelet", "npd", "services"]


def test_its_program_is_a_member_of_a_folder_of_upstreams_archive() -> None:
    found = items(ON)
    (tree,) = (item for item in found.values() if isinstance(item, Tree))
    assert tree.artifact.url.endswith("/v1.36.0/node-problem-detector-v1.36.0-linux_amd64.tar.gz")
    assert tree.members == (("bin/node-problem-detector", "node-problem-detector"),)
    link = found["/usr/local/bin/node-problem-detector"]
    assert isinstance(link, Link)
    assert link.target == f"{tree.path}/node-problem-detector"
    assert link.restarts == (NPD,)


@pytest.mark.parametrize(
    ("url", "member"),
    [
        ("https://site.example/npd-{version}-{arch}.tgz", "bin/node-problem-detector"),
        ("https://site.example/node-problem-detector.{arch}", ""),
    ],
)
def test_an_address_of_your_own(url: str, member: str) -> None:
    found = items({"npd": {**ON["npd"], "url": url}})
    (tree,) = (item for item in found.values() if isinstance(item, Tree))
    assert tree.artifact.url == url.format(version="1.36.0", arch="amd64")
    assert tree.members == ((member, "node-problem-detector"),)


def test_services_enable_and_start_it_after_the_kubelet() -> None:
    found = items(ON, component="services")
    units = [item for item in found.values() if isinstance(item, Unit)]
    assert [item.name for item in units][-2:] == [KUBELET, NPD]
    assert units[-1].binary == "/usr/local/bin/node-problem-detector"
    assert not units[-1].last
    assert f"/etc/systemd/system/multi-user.target.wants/{NPD}" in found


def test_a_change_restarts_it_and_nothing_else() -> None:
    restarts = {unit for item in items(ON).values() for unit in item.restarts}
    assert restarts == {NPD}


def test_no_file_of_it_is_a_secret() -> None:
    """The kubeconfig names the kubelet's credential, which only root reads."""
    found = items(ON)["/etc/node-problem-detector/kubeconfig"]
    assert isinstance(found, File)
    certificate = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    (user,) = json.loads(found.content)["users"]
    assert user["user"] == {"client-certificate": certificate, "client-key": certificate}
    assert json.loads(found.content)["current-context"] == "node"


def test_in_profile_token_it_runs_the_kubelets_exec_plugin() -> None:
    found = items(ON, PRINCIPAL)["/etc/node-problem-detector/kubeconfig"]
    assert isinstance(found, File)
    (user,) = json.loads(found.content)["users"]
    assert user["user"]["exec"]["command"] == "/var/lib/kubelet/token.sh"
    assert "secret" not in found.content


@pytest.mark.parametrize(
    ("name", "changes"),
    [("", []), ("-token", [PRINCIPAL]), ("-arc", [ARC])],
)
def test_unit(golden: Golden, name: str, changes: list[dict[str, Any]]) -> None:
    golden(f"node-problem-detector{name}.service", unit(configured(ON, *changes), FACTS))


def test_its_flags_name_every_monitor_and_the_node() -> None:
    config = configured(ON, {"agent": {"nodeName": "plant-7"}})
    words = arguments(config, FACTS)
    assert "--hostname-override=plant-7" in words
    assert "--port=0" in words
    assert "--prometheus-port=0" in words
    named = {
        path for word in words if word.startswith("--config.") for path in word.partition("=")[2].split(",")
    }
    written = {name for name in items(ON) if name.endswith(".json")}
    assert named == written


def test_what_systemd_starts_waits_for_the_certificate_and_then_is_the_program() -> None:
    """A shell reads the line as systemd does, apart from the dollar signs."""
    text = unit(configured(ON), FACTS)
    line = text.partition("ExecStart=")[2].partition("\nRestart=")[0].replace("\\\n", "").replace("$$", "$")
    words = shlex.split(line)
    assert words[:2] == ["/bin/sh", "-c"]
    assert words[3] == "/var/lib/kubelet/pki/kubelet-client-current.pem"
    assert words[4:] == arguments(configured(ON), FACTS)
