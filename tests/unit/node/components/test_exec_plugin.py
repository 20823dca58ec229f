# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The kubelet's exec plugin: who needs it, what it holds, and what its script does when things go wrong."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components import exec_plugin
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.model import NodeConfig
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.choice import method_for, source_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.agent import Registration
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.choice import (
    installer_token,
    requested_registration,
)
from tests.unit.node.config.test_samples import CLIENT, PRINCIPAL, SUBSCRIPTION, TENANT, joining
from tests.unit.node.fakes import Machine

AT = {"targetCluster": {"location": "westeurope"}}
METHODS: dict[str, dict[str, Any]] = {
    "servicePrincipal": {"servicePrincipal": PRINCIPAL, "tenantId": TENANT},
    "managedIdentity": {"managedIdentity": {"clientId": CLIENT}, "tenantId": TENANT},
    "arc": {"arc": {"enabled": True}, "tenantId": TENANT, **AT},
}


def configured(method: str, profile: str = "certificate", **more: Any) -> NodeConfig:
    azure = {"bootstrapToken": None, **METHODS[method]}
    return parse(joining({"azure": azure, "kubernetesAuth": {"profile": profile}, **more}))


def test_a_bootstrap_token_needs_no_plugin() -> None:
    config = parse(joining())
    assert exec_plugin.identity_method(config) is None
    assert not exec_plugin.uses_tokens(config)
    assert exec_plugin.resources(config, ()) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("profile", ["certificate", "token"])
def test_an_azure_identity_needs_it(method: str, profile: str) -> None:
    config = configured(method, profile)
    assert exec_plugin.identity_method(config) == method
    assert exec_plugin.uses_tokens(config) == (profile == "token")
    files = {item.name: item for item in exec_plugin.resources(config, ("kubelet.service",))}
    assert {name: getattr(item, "mode") for name, item in files.items()} == {  # noqa: B009
        "/var/lib/kubelet/token-identity.json": 0o600,
        "/var/lib/kubelet/token.sh": 0o700,
    }


@pytest.mark.parametrize("method", METHODS)
def test_the_kubeconfig_user(method: str) -> None:
    plugin = exec_plugin.user(configured(method))["exec"]
    environment = {pair["name"]: pair["value"] for pair in plugin.pop("env")}
    assert plugin == {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/var/lib/kubelet/token.sh",
        "interactiveMode": "Never",
        "provideClusterInfo": False,
    }
    assert ("IDENTITY_ENDPOINT" in environment) == (method == "arc")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "more", [{}, {"proxy": {"https": "http://user:pa55@proxy:3128", "no": ["corp"]}}], ids=["direct", "proxy"]
)
def test_the_identity_file_is_a_configuration_that_means_the_same(
    machine: Machine, method: str, more: dict[str, Any]
) -> None:
    config = configured(method, **more)
    again = parse(json.loads(exec_plugin.identity_document(config)), purpose="prepare", pollable=True)
    assert method_for(again, "kubernetes") == method
    first, second = (source_of(method, one, machine.host, {}) for one in (config, again))
    assert (first.key, first.name) == (second.key, second.name)
    assert again.proxy == config.proxy


def test_no_other_secret_is_in_it() -> None:
    azure = {**METHODS["servicePrincipal"], "managedIdentity": {}}
    auth = {"kubernetesAuth": {"method": "managedIdentity"}, "azureAuth": {"method": "servicePrincipal"}}
    config = parse(joining({"azure": azure, **auth}))
    document = exec_plugin.identity_document(config)
    assert PRINCIPAL["clientSecret"] not in document
    assert "abcdef.0123456789abcdef" not in document


@pytest.mark.parametrize(
    ("command", "status", "out", "err"),
    [
        ("echo '{}'; exit 0", 0, "{}\n", ""),
        ("echo FLEX-1804: down >&2; exit 1", 1, "", "FLEX-1804: down\n"),
        ("sleep 5", 124, "", "no token within 1 s"),
        ("trap '' TERM; sleep 1.5; sleep 10", 137, "", "no token within 1 s"),
    ],
    ids=["token", "error", "slow", "stuck"],
)
def test_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int, out: str, err: str
) -> None:
    monkeypatch.setattr(exec_plugin, "BIN_DIR", str(tmp_path))
    monkeypatch.setattr(exec_plugin, "SECONDS", 1)
    program, script = tmp_path / "aks-flex-node", tmp_path / "token.sh"
    program.write_text(f"#!/bin/sh\n{command}\n")
    text = exec_plugin.script(configured("arc"))
    assert "--identity /var/lib/kubelet/token-identity.json" in text
    script.write_text(text.replace("--kill-after=5", "--kill-after=1"))
    for file in (program, script):
        file.chmod(0o700)
    done = subprocess.run([str(script)], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (status, out)
    assert err in done.stderr


# -- what the configuration wants of Azure Arc -------------------------------------------------------------


def test_what_is_left_out_is_the_clusters() -> None:
    order = requested_registration(configured("arc"), "edge-1")
    assert order.registration.resource_id == (
        f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.HybridCompute/machines/edge-1"
    )
    assert (order.tenant_id, order.location, order.cloud) == (TENANT, "westeurope", "AzurePublicCloud")


def test_a_registered_machine_keeps_its_name_unless_it_is_given_another() -> None:
    known = Registration("s", "g", "of-the-playbook")
    order = requested_registration(configured("arc"), "edge-1", known)
    assert (order.registration.machine_name, order.registration.resource_group) == ("of-the-playbook", "rg")


def test_what_is_given_counts(machine: Machine) -> None:
    arc = {
        "enabled": True,
        "machineName": "m",
        "resourceGroup": "g",
        "location": "eastus",
        "tags": {"a": "b"},
    }
    config = parse(joining({"azure": {"arc": arc, "tenantId": TENANT, **AT}}))
    order = requested_registration(config, "edge-1", Registration("s", "g", "known"))
    assert order.registration.resource_id.endswith("/g/providers/Microsoft.HybridCompute/machines/m")
    assert (order.location, order.tags) == ("eastus", {"a": "b"})
    assert installer_token(config, machine.host) is None
