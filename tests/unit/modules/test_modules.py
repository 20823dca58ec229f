# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The modules as Ansible runs them: a process, arguments as JSON, one answer. This machine stays as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.plugin_utils.on_machine import node_code
from tests.unit.controller.fake_kubelogin import FakeKubelogin
from tests.unit.node.config.test_samples import joining
from tests.unit.node.fake_api import FakeApi, a_node, a_pod
from tests.unit.node.servers import Answer, Pki, answer_json, serving

ROOT = Path(__file__).parents[3]
TOKEN = "plantd.0123456789abcdef"
PASSWORD = "Pl4nted-pr0xy-passw0rd"
DOCUMENT = joining(
    {
        "azure": {"bootstrapToken": {"token": TOKEN}},
        "proxy": {"https": f"http://user:{PASSWORD}@proxy.example:3128"},
    }
)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki.make(tmp_path_factory.mktemp("pki"))


def run(module: str, tmp_path: Path, *, check: bool = True, **arguments: Any) -> dict[str, Any]:
    """Run a module in a process of its own; its answer must be JSON, and its exit status honest."""
    file = tmp_path / "arguments.json"
    if (ROOT / f"plugins/module_utils/on_machine/{module}.py").exists():
        arguments = {"node_code": node_code(), **arguments}  # as its action plugin does
    internal = {"_ansible_check_mode": check, "_ansible_diff": True, "_ansible_remote_tmp": str(tmp_path)}
    file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": {**arguments, **internal}}))
    done = subprocess.run(
        [sys.executable, "-m", f"ansible_collections.aks.flexnode.plugins.modules.{module}", str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / ".collections"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    assert TOKEN not in done.stdout + done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    assert (done.returncode != 0) == bool(answer.get("failed")), done.stderr
    return answer


def assert_failure(answer: dict[str, Any], code: str) -> str:
    """What every failure looks like: a message, and its code as data. Nothing is said twice."""
    assert answer["failed"]
    assert re.fullmatch(code, answer["error"]["code"])
    assert answer["msg"].startswith(f"{answer['error']['code']}: ")
    assert set(answer["error"]) <= {"code", "nodes"}
    return str(answer["msg"])


@pytest.mark.parametrize("module", ["arc_info", "flexnode_node", "flexnode_reconcile"])
def test_a_module_that_is_started_without_its_code_says_so(tmp_path: Path, module: str) -> None:
    answer = run(module, tmp_path, node_code=None)
    assert answer["failed"]
    assert answer["msg"].startswith(f"aks.flexnode.{module} was started without its code")


# -- flexnode_config_fetch ---------------------------------------------------------------------------------


def test_a_document_comes_back_checked_and_without_its_secrets(tmp_path: Path) -> None:
    answer = run("flexnode_config_fetch", tmp_path, document=json.dumps(DOCUMENT))
    assert answer["config"]["azure"]["bootstrapToken"]["token"] == "<minted at apply>"
    assert answer["config"]["kubernetes"] == DOCUMENT["kubernetes"]
    assert (answer["changed"], answer["config_version"]) == (True, "")
    assert re.fullmatch(r"[0-9a-f]{16}", answer["operation"])


def test_a_bundle_is_fetched_and_what_is_given_goes_over_it(tmp_path: Path, pki: Pki) -> None:
    bundle = answer_json({"config": DOCUMENT, "configVersion": "17"})
    with serving(lambda _: bundle, pki.server_context()) as server:
        answer = run(
            "flexnode_config_fetch",
            tmp_path,
            source="url",
            url=f"{server.url}/bundle?sig={PASSWORD}",
            url_ca_cert=pki.ca_pem,
            document=json.dumps({"node": {"maxPods": 33}}),
            operation="0123",
        )
    assert (answer["config"]["node"]["maxPods"], answer["config_version"]) == (33, "17")
    assert answer["operation"] == "0123"


def test_an_address_that_lasts_can_be_followed(tmp_path: Path, pki: Pki) -> None:
    bundle = answer_json({"config": {**DOCUMENT, "continuousMonitoring": True}, "configVersion": "17"})
    with serving(lambda _: bundle, pki.server_context()) as server:
        arguments = {"source": "url", "url": f"{server.url}/b?sig={PASSWORD}", "url_ca_cert": pki.ca_pem}
        answer = run("flexnode_config_fetch", tmp_path, **arguments)
        assert "durable" in assert_failure(answer, "FLEX-1101")
        answer = run("flexnode_config_fetch", tmp_path, **arguments, durable=True)
    assert answer["config"]["continuousMonitoring"] is True


def test_nothing_is_stored_on_this_machine(tmp_path: Path) -> None:
    answer = run("flexnode_config_fetch", tmp_path, source="stored", document='{"node": {"maxPods": 33}}')
    assert_failure(answer, "FLEX-1104")


def test_all_problems_at_once(tmp_path: Path) -> None:
    document = {
        **DOCUMENT,
        "nodes": {},
        "node": {"maxPods": "many"},
        "azure": {"bootstrapToken": {"token": PASSWORD}},
    }
    answer = run("flexnode_config_fetch", tmp_path, document=json.dumps(document))
    said = assert_failure(answer, "FLEX-1101").splitlines()
    assert "  nodes: unknown key, did you mean node?" in said
    assert '  node.maxPods is "many". Set a whole number, 1 to 500' in said
    token = "a bootstrap token such as abcdef.0123456789abcdef"
    assert f"  azure.bootstrapToken.token is not valid (a secret, not shown). Set {token}" in said


def test_a_comment_is_not_json(tmp_path: Path) -> None:
    answer = run("flexnode_config_fetch", tmp_path, document='{"a": 1} // comment')
    assert "line 1, column 10" in assert_failure(answer, "FLEX-1102")


def test_an_address_that_is_gone(tmp_path: Path, pki: Pki) -> None:
    with serving(lambda _: Answer(status=410), pki.server_context()) as server:
        url = f"{server.url}/x?sig={PASSWORD}"
        answer = run("flexnode_config_fetch", tmp_path, source="url", url=url, url_ca_cert=pki.ca_pem)
    assert "expired" in assert_failure(answer, "FLEX-1103")


# -- arguments ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "arguments", "complaint"),
    [
        ("flexnode_config_fetch", {"source": "url", "document": json.dumps(DOCUMENT)}, "url"),
        ("flexnode_reconcile", {"components": ["everything"]}, "components"),
        ("flexnode_node", {"taints": [{"key": "a", "effect": "Sometimes"}]}, "effect"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, module: str, arguments: dict[str, Any], complaint: str
) -> None:
    answer = run(module, tmp_path, **arguments)
    assert answer["failed"]
    assert complaint in answer["msg"]


def test_names_of_nodes_may_be_a_text_with_commas(tmp_path: Path) -> None:
    answer = run("flexnode_proof", tmp_path, names="edge-1, edge-2,edge-1")
    assert [sentence.partition(":")[0] for sentence in answer["actions"]] == [
        "test pods on Node edge-1",
        "test pods on Node edge-2",
    ]


# -- flexnode_reconcile, flexnode_status_info --------------------------------------------------------------


def test_reconcile_without_any_configuration(tmp_path: Path) -> None:
    assert not Path("/var/lib/aks-flex-node").exists(), "not on a machine that is itself a node"
    answer = run("flexnode_reconcile", tmp_path)
    assert_failure(answer, "FLEX-1104")
    assert (answer["changed"], "rolled_back" in answer) == (False, False)


def test_reconcile_refuses_a_bad_document_or_this_platform(tmp_path: Path) -> None:
    config = {"paths": {"dataDir": str(tmp_path / "data")}, "nodes": {}}
    assert_failure(run("flexnode_reconcile", tmp_path, config=config), "FLEX-1101|FLEX-1301")
    assert not (tmp_path / "data").exists()


def test_leaving_where_nothing_was_joined_changes_nothing(tmp_path: Path) -> None:
    assert not Path("/var/lib/aks-flex-node").exists(), "not on a machine that is itself a node"
    answer = run("flexnode_reconcile", tmp_path, state="absent")
    assert (answer["changed"], answer["actions"], answer["remains"]) == (False, [], [])


def test_the_status_is_always_an_answer(tmp_path: Path) -> None:
    answer = run("flexnode_status_info", tmp_path)
    assert answer["changed"] is False
    parts = (
        "arc vpn node config versions monitoring pull rollout drift left phase reason message fix timestamp"
    )
    assert set(answer["status"]) == set(parts.split())


# -- flexnode_node -----------------------------------------------------------------------------------------


@pytest.fixture
def api(pki: Pki) -> Iterator[FakeApi]:
    nodes = {name: a_node(name) for name in ("edge-1", "edge-2")}
    with FakeApi(nodes=nodes).running(pki, client_needed=True) as running:
        yield running


@pytest.fixture
def kubeconfig(api: FakeApi, pki: Pki, tmp_path: Path) -> str:
    def encoded(text: str) -> str:
        return b64encode(text.encode()).decode()

    certificate, _, key = pki.client.read_text().partition("-----BEGIN PRIVATE KEY-----")
    cluster = {"server": api.server.url, "certificate-authority-data": encoded(pki.ca_pem)}
    user = {
        "client-certificate-data": encoded(certificate),
        "client-key-data": encoded("-----BEGIN PRIVATE KEY-----" + key),
    }
    document = {
        "current-context": "lab",
        "contexts": [
            {"name": "lab", "context": {"cluster": "lab", "user": "me"}},
            {"name": "plugin", "context": {"cluster": "lab", "user": "exec"}},
        ],
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "me", "user": user}, {"name": "exec", "user": {"exec": {"command": "kubelogin"}}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(document))  # JSON is YAML
    return str(file)


def test_nodes_are_labelled_and_a_second_time_nothing_changes(
    api: FakeApi, kubeconfig: str, tmp_path: Path
) -> None:
    wanted: dict[str, Any] = {
        "names": ["edge-1", "edge-2"],
        "labels": {"site": "lab"},
        "taints": [{"key": "gpu", "effect": "NoSchedule"}],
        "ready": True,
        "kubeconfig": kubeconfig,
    }
    planned = run("flexnode_node", tmp_path, **wanted)
    assert planned["changed"]
    assert api.nodes["edge-1"]["metadata"]["labels"] == {}
    done = run("flexnode_node", tmp_path, check=False, **wanted)
    assert (
        done["actions"]
        == planned["actions"]
        == [f"change Node {name}: label site=lab, taint gpu:NoSchedule" for name in ("edge-1", "edge-2")]
    )
    assert done["nodes"][0] == {"name": "edge-1", "ready": True, "kubeletVersion": "1.34.4"}
    assert api.nodes["edge-2"]["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule", "value": ""}]
    assert not run("flexnode_node", tmp_path, check=False, **wanted)["changed"]


def test_taints_are_set_and_removed_beside_those_of_others(
    api: FakeApi, kubeconfig: str, tmp_path: Path
) -> None:
    theirs = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}

    def taint_by_others() -> None:
        api.nodes["edge-1"]["metadata"]["resourceVersion"] = "5"
        api.nodes["edge-1"]["spec"]["taints"] += [theirs]

    api.nodes["edge-1"]["spec"]["taints"] = [{"key": "old", "value": "1", "effect": "NoSchedule"}]
    api.meanwhile = [taint_by_others]
    gpu = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    wanted: dict[str, Any] = {
        "names": ["edge-1"],
        "taints": [gpu],
        "taints_absent": [{"key": "old", "effect": "NoSchedule"}],
        "kubeconfig": kubeconfig,
    }
    done = run("flexnode_node", tmp_path, check=False, **wanted)
    assert api.nodes["edge-1"]["spec"]["taints"] == [theirs, gpu]
    assert done["actions"] == [
        "change Node edge-1: remove taint old=1:NoSchedule, taint dedicated=gpu:NoSchedule"
    ]
    assert done["diff"][0]["after"] == {
        "taints": ["node.kubernetes.io/not-ready:NoExecute", "dedicated=gpu:NoSchedule"]
    }


def test_a_pod_that_stays_is_named_with_its_budget(api: FakeApi, kubeconfig: str, tmp_path: Path) -> None:
    api.pods, api.protected = [a_pod("held")], {"held"}
    wanted: dict[str, Any] = {"names": ["edge-1"], "drain": True, "timeout": 1, "kubeconfig": kubeconfig}
    drained = run("flexnode_node", tmp_path, check=False, **wanted)
    assert drained["remains"] == ["default/held (PodDisruptionBudget keep)"]


def test_nodes_are_drained_and_deleted(api: FakeApi, kubeconfig: str, tmp_path: Path) -> None:
    api.pods = [a_pod("a")]
    drained = run("flexnode_node", tmp_path, check=False, names=["edge-1"], drain=True, kubeconfig=kubeconfig)
    assert (drained["changed"], drained["remains"], api.pods) == (True, [], [])
    gone = {"names": ["edge-1", "never-was"], "state": "absent", "kubeconfig": kubeconfig}
    assert run("flexnode_node", tmp_path, check=False, **gone)["actions"] == ["delete Node edge-1"]
    assert set(api.nodes) == {"edge-2"}


def test_a_proof_goes_through_all_clusters_and_names_each_that_fails(tmp_path: Path) -> None:
    nodes = [{"name": "edge-1", "kubeconfig": str(tmp_path / place)} for place in ("north", "south", "north")]
    said = assert_failure(run("flexnode_proof", tmp_path, check=False, nodes=nodes), "FLEX-1901")
    assert [said.count(f"({tmp_path / place})") for place in ("north", "south")] == [1, 1]
    assert run("flexnode_proof", tmp_path)["msg"] == "one of the following is required: names, nodes"


ID = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "change", [{"state": "absent"}, {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, {"drain": True}]
)
def test_a_node_of_the_same_name_that_is_another_machine_is_not_changed(
    api: FakeApi, kubeconfig: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    api.nodes["edge-1"]["status"]["nodeInfo"]["machineID"] = "f" * 32
    api.pods = [a_pod("a")]
    before = json.dumps([api.nodes, api.pods])
    wanted: dict[str, Any] = {
        "nodes": [{"name": "edge-1", "machine_id": ID, "api_server": "https://plant.example"}],
        "kubeconfig": kubeconfig,
        **change,
    }
    said = assert_failure(run("flexnode_node", tmp_path, check=False, **wanted), "FLEX-1904")
    assert api.server.url in said
    assert "https://plant.example" in said
    assert json.dumps([api.nodes, api.pods]) == before
    api.nodes["edge-1"]["status"]["nodeInfo"]["machineID"] = ID
    assert run("flexnode_node", tmp_path, check=False, **wanted)["changed"], "whatever the URL"


def test_a_node_that_is_not_in_this_cluster_may_be_in_the_machines_own(
    api: FakeApi, kubeconfig: str, tmp_path: Path
) -> None:
    gone: dict[str, Any] = {"state": "absent", "kubeconfig": kubeconfig}
    machine = {"name": "gone", "machine_id": ID, "api_server": "https://plant.example", "ca_sha256": ["1"]}
    said = assert_failure(run("flexnode_node", tmp_path, check=False, nodes=[machine], **gone), "FLEX-1904")
    assert f"this cluster has no Node gone ({api.server.url})" in said
    assert "the machine belonged to https://plant.example" in said
    same = {**machine, "api_server": api.server.url}
    assert run("flexnode_node", tmp_path, check=False, nodes=[same], **gone)["actions"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"names": ["other"]}, "FLEX-1502"),
        ({"names": ["edge-1"], "context": "none"}, "FLEX-1901"),
        ({"names": ["edge-1"], "context": "plugin"}, "FLEX-1902"),
        ({"names": ["edge-1"], "host": "https://127.0.0.1:9"}, "FLEX-1504"),
    ],
)
def test_what_can_not_be_done_to_a_node(
    kubeconfig: str, tmp_path: Path, arguments: dict[str, Any], code: str
) -> None:
    assert_failure(run("flexnode_node", tmp_path, kubeconfig=kubeconfig, **arguments), code)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    answer = run("flexnode_node", tmp_path, names=["x"], kubeconfig=str(tmp_path / "none"))
    assert f"({tmp_path / 'none'}): No such file or directory" in assert_failure(answer, "FLEX-1901")


def test_a_kubeconfig_that_signs_in_by_kubelogin(
    api: FakeApi, kubeconfig: str, pki: Pki, tmp_path: Path
) -> None:
    kubelogin = FakeKubelogin.install(tmp_path / "bin")
    (kubelogin.directory / "client.pem").write_text(pki.client.read_text())
    document = json.loads(Path(kubeconfig).read_text())
    document["users"][1]["user"] = kubelogin.user("certificate")
    Path(kubeconfig).write_text(json.dumps(document))
    wanted: dict[str, Any] = {"names": ["edge-1"], "kubeconfig": kubeconfig, "context": "plugin"}
    done = run("flexnode_node", tmp_path, check=False, **wanted, unschedulable=True)
    assert done["actions"] == ["change Node edge-1: cordon"]
    assert api.nodes["edge-1"]["spec"]["unschedulable"] is True
    document["users"][1]["user"] = kubelogin.user("refused")
    Path(kubeconfig).write_text(json.dumps(document))
    error = assert_failure(run("flexnode_node", tmp_path, **wanted), "FLEX-1902")
    assert "exit code 1" in error
    assert "kubelogin convert-kubeconfig -l azurecli" in error


def test_names_are_needed_with_a_kubeconfig(kubeconfig: str, tmp_path: Path) -> None:
    answer = run("flexnode_node", tmp_path, kubeconfig=kubeconfig)
    assert answer["failed"]
    assert "names is required" in answer["msg"]


@pytest.mark.parametrize(
    ("module", "hide"),
    [("flexnode_node", "kubernetes"), ("flexnode_proof", "kubernetes"), ("flexnode_node", "yaml")],
)
def test_a_missing_package_is_named(tmp_path: Path, module: str, hide: str) -> None:
    hidden = f"import runpy, sys; sys.modules[{hide!r}] = None; sys.argv = ['module', sys.argv[1]]; "
    hidden += (
        f"runpy.run_module('ansible_collections.aks.flexnode.plugins.modules.{module}', run_name='__main__')"
    )
    file = tmp_path / "arguments.json"
    given = {"names": ["edge-1"], "kubeconfig": "/nowhere", "_ansible_remote_tmp": str(tmp_path)}
    file.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": given}))
    done = subprocess.run(
        [sys.executable, "-c", hidden, str(file)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PYTHONPATH": str(ROOT / ".collections"), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    package = "PyYAML" if hide == "yaml" else hide
    assert f"({package})" in json.loads(done.stdout)["msg"]


@pytest.mark.parametrize(("option", "state"), [("reason", "resumed"), ("rollout", "present"), ("reason", "")])
def test_an_option_of_a_rollout_without_effect_is_refused(tmp_path: Path, option: str, state: str) -> None:
    answer = run("flexnode_rollout", tmp_path, **({"state": state} if state else {}), **{option: "x"})
    here = f"with state {state}" if state else "without state"
    assert answer["msg"].startswith(f"{option} has no effect {here}, only with stopped")
