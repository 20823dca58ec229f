# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The modules as Ansible runs them: a process each, arguments as JSON, Azure in memory, one answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.controller.azure.aks.test_cluster import MANAGED
from tests.unit.controller.fake_azure import CLIENT, CLUSTER, OBJECT, SECRET, TENANT, FakeAzure
from tests.unit.controller.fake_blob import KEY, FakeBlob
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.controller.fake_kubelogin import FakeKubelogin
from tests.unit.node.config.test_samples import TOKEN, TOKEN_JOIN
from tests.unit.node.fake_api import a_node
from tests.unit.node.servers import Pki

ROOT = Path(__file__).parents[3]
NODE_SECRET = "Pl4nted-node-s3cret"
PRINCIPAL = {"clientId": CLIENT, "clientSecret": NODE_SECRET, "clientTenant": TENANT}
DOCUMENT = {"azure": {"servicePrincipal": PRINCIPAL}, "kubernetes": {"version": "1.34.4"}}
PLANTED = (SECRET, NODE_SECRET, TOKEN, KEY)
# What a module writes to the system's log goes to stderr, where a test can look for secrets. A package can be
# hidden, whatever is installed: what a user without it sees.
WATCHED = """
import runpy, sys, syslog
syslog.syslog = lambda *given: sys.stderr.write(f"LOG {{given[-1]}}\\n")
sys.modules["systemd"] = None
if {hide!r}:
    sys.modules[{hide!r}] = None
sys.argv = ["module", {file!r}]
runpy.run_module("ansible_collections.aks.flexnode.plugins.modules.{module}", run_name="__main__")
"""


def run(
    module: str,
    tmp_path: Path,
    environment: dict[str, str] | None = None,
    *,
    check: bool = False,
    hide: str = "",
    **arguments: Any,
) -> dict[str, Any]:
    """Run a module; its answer must be JSON, its exit status honest, and no planted secret anywhere in it."""
    file = tmp_path / "arguments.json"
    internal = {
        "_ansible_check_mode": check,
        "_ansible_diff": True,
        "_ansible_remote_tmp": str(tmp_path),
        "_ansible_verbosity": 3,
    }
    file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, **internal}}))
    base = {"PYTHONPATH": str(ROOT / ".collections"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", WATCHED.format(hide=hide, file=str(file), module=module)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env={**base, **(environment or {})},
    )
    assert [secret for secret in PLANTED if secret in done.stdout + done.stderr] == []
    assert done.stdout, done.stderr
    assert "LOG " in done.stderr, "it logs how it was called"
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode != 0) == bool(answer.get("failed")), done.stderr
    return answer


# -- flexnode_config, flexnode_config_info, flexnode_token --------------------------------------------------


def test_the_life_of_a_configuration(azure: FakeAzure, tmp_path: Path) -> None:
    wanted: dict[str, Any] = {"cluster_id": CLUSTER, "nodes": [{"name": "edge-1", "document": DOCUMENT}]}

    def config(*, check: bool = False, **more: Any) -> dict[str, Any]:
        return run("flexnode_config", tmp_path, azure.environment, check=check, **{**wanted, **more})

    planned = config(check=True)
    assert (planned["changed"], azure.nodes) == (True, {})
    assert planned["nodes"][0]["config_url"] == "<minted at apply>"
    assert planned["diff"][0]["after"]["azureAuth"]["servicePrincipal"]["clientId"] == CLIENT
    created = config()
    assert created["actions"] == planned["actions"] == ["create flexNodeConfig edge-1 (it does not exist)"]
    # What a caller needs survives to the registered variable.
    assert "sig=s1gnature" in created["nodes"][0]["config_url"]
    assert azure.nodes["edge-1"]["azureAuth"]["servicePrincipal"]["clientSecret"] == NODE_SECRET

    assert config()["nodes"][0]["action"] == "regenerated"
    azure.ready = {"edge-1"}
    settled = config()
    assert (settled["changed"], settled["actions"], settled["nodes"][0]["action"]) == (False, [], "unchanged")
    assert config(update_secret="always")["nodes"][0]["reasons"] == ["update_secret is always"]

    told = run("flexnode_config_info", tmp_path, azure.environment, cluster_id=CLUSTER)
    assert [(node["name"], node["ready"]) for node in told["nodes"]] == [("edge-1", True)]
    one = run(
        "flexnode_config_info", tmp_path, azure.environment, cluster_id=CLUSTER, names=["edge-1", "edge-9"]
    )
    assert one["nodes"][0]["config"]["azure"]["servicePrincipal"]["clientId"] == CLIENT
    assert one["missing"] == ["edge-9"]

    issued = run("flexnode_token", tmp_path, azure.environment, cluster_id=CLUSTER, names=["edge-1"])
    assert issued["nodes"][0]["config_url"] != created["nodes"][0]["config_url"]

    assert config(state="absent", check=True)["changed"]
    assert config(state="absent")["nodes"][0]["action"] == "deleted"
    assert not config(state="absent")["changed"]


def test_a_missing_permission_is_one_message_with_the_command(azure: FakeAzure, tmp_path: Path) -> None:
    azure.forbidden = "PUT"
    nodes = [{"name": f"edge-{n}", "document": DOCUMENT} for n in range(3)]
    answer = run("flexnode_config", tmp_path, azure.environment, cluster_id=CLUSTER, nodes=nodes)
    assert answer["error"]["code"] == "FLEX-1702"
    assert answer["msg"].count("az role assignment create") == 1
    assert f"--assignee-object-id {OBJECT}" in answer["msg"]
    assert "nodes" not in answer, "what is not whole is not handed on"


def test_options_go_before_the_environment(azure: FakeAzure, tmp_path: Path) -> None:
    environment = {**azure.environment, "AZURE_SECRET": "wrong", "AZURE_CLIENT_ID": "wrong"}
    given: dict[str, Any] = {"secret": SECRET, "client_id": CLIENT, "cluster_id": CLUSTER}
    assert run("flexnode_config_info", tmp_path, environment, **given)["nodes"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"cluster_id": CLUSTER, "nodes": [{"name": "Edge_1"}]}, "FLEX-1101", "nodes[0].name"),
        ({"nodes": [{"name": "edge-1"}]}, "FLEX-1101", "nodes[0].cluster_id"),
        (
            {"cluster_id": CLUSTER, "nodes": [{"name": "edge-1", "document": {"node": {"maxPods": 0}}}]},
            "FLEX-1101",
            "edge-1.node.maxPods",
        ),
        (
            {"cluster_id": CLUSTER, "nodes": [{"name": "edge-1"}], "auth_source": "env"},
            "FLEX-1701",
            "AZURE_SECRET",
        ),
    ],
)
def test_what_is_wrong_is_found_before_anything_is_asked(
    tmp_path: Path, arguments: dict[str, Any], code: str, text: str
) -> None:
    variables = {"AZURE_TENANT": TENANT, "AZURE_CLIENT_ID": CLIENT}
    if code == "FLEX-1101":
        variables["AZURE_SECRET"] = SECRET
    answer = run("flexnode_config", tmp_path, variables, **arguments)
    assert answer["error"]["code"] == code
    assert text in answer["msg"]


@pytest.mark.parametrize(
    ("module", "hide", "package"),
    [
        ("flexnode_config", "azure.identity", "azure-identity"),
        ("flexnode_config", "azure.mgmt.core", "azure-mgmt-core"),
        ("flexnode_cluster_info", "azure.mgmt.containerservice", "azure-mgmt-containerservice"),
        ("flexnode_bootstrap_token", "azure.mgmt.containerservice", "azure-mgmt-containerservice"),
        ("flexnode_bootstrap_token", "yaml", "PyYAML"),
        ("flexnode_bootstrap_token", "kubernetes", "kubernetes"),
        ("flexnode_config_blob", "azure.storage.blob", "azure-storage-blob"),
    ],
)
def test_a_missing_package_is_named(tmp_path: Path, module: str, hide: str, package: str) -> None:
    arguments: dict[str, Any] = {"nodes": [{"name": "edge-1"}], "cluster_id": CLUSTER}
    if module == "flexnode_cluster_info":
        arguments = {"cluster_ids": [CLUSTER]}
    if module == "flexnode_config_blob":
        arguments = {"nodes": [{"name": "edge-1"}]}
    answer = run(module, tmp_path, hide=hide, **arguments)
    assert answer["failed"]
    assert f"({package})" in answer["msg"]


# -- flexnode_cluster_info, flexnode_bootstrap_token --------------------------------------------------------


@pytest.fixture
def cluster(pki: Pki) -> Iterator[FakeCluster]:
    with FakeCluster(nodes={"edge-1": a_node("edge-1")}).running(pki) as running:
        yield running


def test_a_cluster_by_azure(azure: FakeAzure, cluster: FakeCluster, pki: Pki, tmp_path: Path) -> None:
    admin = cluster.kubeconfig(pki)
    azure.cluster = MANAGED
    azure.kubeconfigs = {"listClusterUserCredential": yaml.safe_dump(admin)}
    found = run("flexnode_cluster_info", tmp_path, azure.environment, cluster_ids=[CLUSTER, CLUSTER.upper()])
    (only,) = found["clusters"]
    assert only["document"]["node"]["kubelet"]["serverURL"] == cluster.server.url
    assert not found["changed"]


@pytest.mark.parametrize("local_accounts", [True, False])
def test_tokens_by_azure(
    azure: FakeAzure, cluster: FakeCluster, pki: Pki, tmp_path: Path, local_accounts: bool
) -> None:
    admin = cluster.kubeconfig(pki)
    people = {**admin, "users": [{"name": "me", "user": {"exec": {"command": "kubelogin"}}}]}
    azure.kubeconfigs = {"listClusterUserCredential": yaml.safe_dump(people)}
    if local_accounts:
        azure.kubeconfigs["listClusterAdminCredential"] = yaml.safe_dump(admin)
    nodes = [{"name": "edge-1"}, {"name": "edge-2"}]
    given: dict[str, Any] = {"cluster_id": CLUSTER, "nodes": nodes}
    minted = run("flexnode_bootstrap_token", tmp_path, azure.environment, **given)
    assert [node["joined"] for node in minted["nodes"]] == [True, False]
    assert minted["nodes"][1]["token"].startswith(cluster.tokens["edge-2"])
    assert ("Bearer admin-token" in cluster.bearers) == local_accounts
    gone = run("flexnode_bootstrap_token", tmp_path, azure.environment, state="absent", **given)
    assert (gone["changed"], cluster.tokens) == (True, {})


def test_a_node_by_azure(azure: FakeAzure, cluster: FakeCluster, pki: Pki, tmp_path: Path) -> None:
    azure.kubeconfigs = {"listClusterAdminCredential": yaml.safe_dump(cluster.kubeconfig(pki))}
    wanted: dict[str, Any] = {"names": ["edge-1"], "cluster_id": CLUSTER}
    seen = run("flexnode_node", tmp_path, azure.environment, **wanted)
    assert (seen["changed"], seen["nodes"][0]["name"]) == (False, "edge-1")
    assert cluster.bearers == {"Bearer admin-token"}
    unnamed = run("flexnode_node", tmp_path, azure.environment, cluster_id=CLUSTER)
    assert "names is required" in unnamed["msg"]


def test_tokens_by_a_kubeconfig_need_no_azure(cluster: FakeCluster, pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(cluster.kubeconfig(pki)))
    given: dict[str, Any] = {"kubeconfig": str(file), "nodes": [{"name": "edge-2"}]}
    assert (
        run("flexnode_bootstrap_token", tmp_path, check=True, **given)["nodes"][0]["token"]
        == "<minted at apply>"
    )
    minted = run("flexnode_bootstrap_token", tmp_path, hide="azure", **given)
    assert list(cluster.tokens) == ["edge-2"]
    assert minted["nodes"][0]["cluster_id"] == ""
    missing = run("flexnode_bootstrap_token", tmp_path, **{**given, "kubeconfig": str(tmp_path / "none")})
    assert missing["error"]["code"] == "FLEX-1901"
    assert f"({tmp_path / 'none'}): No such file or directory" in missing["msg"]


def test_the_environment_names_a_cluster_only_where_the_task_does_not(
    azure: FakeAzure, cluster: FakeCluster, pki: Pki, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(cluster.kubeconfig(pki)))
    environment = {"K8S_AUTH_KUBECONFIG": str(file), "AZURE_TENANT": TENANT, "AZURE_CLIENT_ID": CLIENT}
    nodes = [{"name": "edge-2"}]
    assert run("flexnode_bootstrap_token", tmp_path, environment, nodes=nodes)["changed"]
    assert list(cluster.tokens) == ["edge-2"]
    by_azure: dict[str, Any] = {"nodes": nodes, "cluster_id": CLUSTER, "auth_source": "env"}
    answer = run("flexnode_bootstrap_token", tmp_path, environment, **by_azure)
    assert answer["error"]["code"] == "FLEX-1701", "Azure is asked, not the cluster of the environment"


def test_tokens_by_a_kubeconfig_with_kubelogin(cluster: FakeCluster, pki: Pki, tmp_path: Path) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin", token=SECRET)
    kubeconfig = cluster.kubeconfig(pki)
    kubeconfig["users"][0]["user"] = kubelogin.user()
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig))
    done = run("flexnode_bootstrap_token", tmp_path, kubeconfig=str(file), nodes=[{"name": "edge-2"}])
    assert done["actions"][-1] == "create a bootstrap token for edge-2"
    assert cluster.bearers == {f"Bearer {SECRET}"}


# -- flexnode_config_blob ----------------------------------------------------------------------------------


@pytest.fixture
def blob(pki: Pki) -> Iterator[FakeBlob]:
    with FakeBlob().running(pki) as running:
        yield running


def test_the_life_of_a_bundle(blob: FakeBlob, azure: FakeAzure, tmp_path: Path) -> None:
    environment = {"REQUESTS_CA_BUNDLE": azure.ca, "AZURE_STORAGE_KEY": KEY}
    wanted: dict[str, Any] = {"account_url": blob.url, "nodes": [{"name": "edge-1", "document": TOKEN_JOIN}]}

    def bundle(*, check: bool = False, **more: Any) -> dict[str, Any]:
        answer = run("flexnode_config_blob", tmp_path, environment, check=check, **{**wanted, **more})
        assert not answer.get("failed"), answer["msg"]
        return answer

    planned = bundle(check=True)
    assert (planned["nodes"][0]["url"], blob.blobs) == ("<minted at apply>", {})
    assert planned["diff"][0]["after"]["config"]["azure"]["bootstrapToken"]["token"] == "<minted at apply>"
    created = bundle()
    assert created["nodes"][0]["url"].startswith(f"{blob.url}/flexnode-edge-1/config.json?")
    again = bundle()
    assert not again["changed"]
    assert [again["nodes"][0][key] for key in ("url", "etag", "config_version")] == [
        created["nodes"][0][key] for key in ("url", "etag", "config_version")
    ]
    assert bundle(token="remove")["nodes"][0]["reasons"] == ["the token"]
    assert bundle(state="tombstone")["nodes"][0]["action"] == "tombstoned"
    assert bundle(state="absent")["nodes"][0]["action"] == "deleted"
    assert not bundle(state="absent")["changed"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "FLEX-1708"),
        (
            {
                "account_url": "https://plant.example",
                "account_key": KEY,
                "nodes": [{"name": "e", "document": {}}],
            },
            "FLEX-1101",
        ),
        ({"account_url": "http://plant.example", "account_key": KEY}, "FLEX-1708"),
    ],
)
def test_a_bundle_that_can_not_be_written(tmp_path: Path, arguments: dict[str, Any], code: str) -> None:
    nodes = [{"name": "edge-1", "document": TOKEN_JOIN}]
    answer = run("flexnode_config_blob", tmp_path, **{"nodes": nodes, **arguments})
    assert answer["error"]["code"] == code


def test_a_secret_of_the_credential_file_is_masked(azure: FakeAzure, tmp_path: Path) -> None:
    names = ("AZURE_TENANT", "AZURE_CLIENT_ID", "AZURE_SECRET")
    variables = {name: value for name, value in azure.environment.items() if name not in names}
    (tmp_path / ".azure").mkdir()
    lines = f"[site]\ntenant = {TENANT}\nclient_id = {CLIENT}\nsecret = {SECRET}\n"
    (tmp_path / ".azure" / "credentials").write_text(lines)
    options: dict[str, Any] = {"cluster_id": CLUSTER, "profile": "site"}
    assert run("flexnode_config_info", tmp_path, variables, **options)["nodes"] == []
    answer = run("flexnode_config_info", tmp_path, variables, cluster_id=CLUSTER, profile="lab")
    assert answer["error"]["code"] == "FLEX-1701"
    assert "it has: site" in answer["msg"]
