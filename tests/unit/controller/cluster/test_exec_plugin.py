# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Exec plugins of kubeconfigs, as real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.errors import ExecPluginFailed
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.exec_plugin import (
    Credentials,
    run_plugin,
)
from ansible_collections.aks.flexnode.plugins.module_utils.controller.cluster.kubeconfig import (
    Access,
    plugin_of,
)
from tests.unit.controller.fake_kubelogin import V1, FakeKubelogin
from tests.unit.node.servers import Pki

ACCESS = Access("https://plant.example:443", "PEM")


@pytest.fixture
def kubelogin(tmp_path: Path) -> FakeKubelogin:
    return FakeKubelogin.install(tmp_path / "bin", token="entra-token")


def run(user: dict[str, Any], directory: str = "", seconds: float = 20) -> Credentials:
    return run_plugin(plugin_of(user["exec"], directory), ACCESS, seconds)


def failure(user: dict[str, Any], **options: Any) -> ExecPluginFailed:
    with pytest.raises(ExecPluginFailed) as caught:
        run(user, **options)
    assert caught.value.code == "FLEX-1902"
    return caught.value


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
def test_a_token_with_its_expiry(kubelogin: FakeKubelogin, version: str) -> None:
    (kubelogin.directory / "expires").write_text("1970-01-01T01:00:00Z")
    found = run(kubelogin.user(apiVersion=version))
    assert (found.token.reveal(), found.expires) == ("entra-token", 3600)
    assert "entra-token" not in repr(found)
    (call,) = [json.loads(line) for line in kubelogin.calls]
    assert call["arguments"][0] == "get-token"
    assert call["info"] == {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}


def test_a_certificate(kubelogin: FakeKubelogin, pki: Pki) -> None:
    (kubelogin.directory / "client.pem").write_text(pki.client.read_text())
    found = run(kubelogin.user("certificate"))
    assert not found.token
    assert found.certificate + found.key.reveal() == pki.client.read_text()


def test_a_relative_path_starts_at_the_kubeconfig(kubelogin: FakeKubelogin, tmp_path: Path) -> None:
    user = kubelogin.user(command="./bin/kubelogin")
    assert run(user, directory=str(tmp_path)).token


def test_the_cluster_is_told_only_if_the_kubeconfig_says_so(kubelogin: FakeKubelogin) -> None:
    run(kubelogin.user(provideClusterInfo=True))
    cluster = json.loads(kubelogin.calls[0])["info"]["spec"]["cluster"]
    assert cluster == {"server": ACCESS.server, "certificate-authority-data": "UEVN"}


def test_a_command_that_is_not_installed(tmp_path: Path) -> None:
    user = {"exec": {"command": "kubelogin", "env": [{"name": "PATH", "value": str(tmp_path)}]}}
    error = failure(user)
    assert "kubelogin" in error.what
    assert "not installed" in error.why
    assert "az aks install-cli" in error.fix
    assert "kubelogin convert-kubeconfig -l azurecli" in error.fix
    hint = {"exec": {"command": "gke-auth", "installHint": "apt install gke-auth", **user["exec"]}}
    hint["exec"]["command"] = "gke-auth"
    assert failure(hint).fix == "apt install gke-auth"
    assert "can't be started" in failure({"exec": {"command": "/nowhere/kubelogin"}}).why


def test_a_command_that_fails(kubelogin: FakeKubelogin) -> None:
    error = failure(kubelogin.user("refused"))
    assert error.why.startswith("exit code 1: Error: failed to get token: AADSTS7000215")
    assert "kubelogin convert-kubeconfig -l azurecli" in error.fix


def test_a_command_that_waits_for_a_person(kubelogin: FakeKubelogin) -> None:
    error = failure(kubelogin.user("devicecode"), seconds=2)
    assert "did not finish within 2 s" in error.why
    assert "microsoft.com/devicelogin" in error.why
    assert "waiting for a person" in error.fix
    assert "terminal" in failure(kubelogin.user(interactiveMode="Always")).why


def test_an_output_that_is_no_credential_is_not_quoted(kubelogin: FakeKubelogin) -> None:
    error = failure(kubelogin.user("garbage"))
    assert "not an ExecCredential" in error.why
    assert "eyJ" not in str(error)
    assert "neither a token" in failure(kubelogin.user("nothing")).why
    assert "v1alpha1 is not supported" in failure(kubelogin.user(apiVersion=f"{V1}alpha1")).why
    older = kubelogin.user()
    older["exec"]["env"].append({"name": "KUBELOGIN_VERSION", "value": V1})
    assert "wants ExecCredential of client.authentication.k8s.io/v1beta1" in failure(older).why
