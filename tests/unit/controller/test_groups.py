# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Action groups: every module is where it belongs, and accepts what module_defaults gives to its group."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.plugin_docs import read_docstring

from tests.unit.controller.fake_azure import CLIENT, CLUSTER, SECRET, TENANT, FakeAzure
from tests.unit.controller.fake_cluster import FakeCluster
from tests.unit.node.fake_api import a_node
from tests.unit.node.servers import Pki

ROOT = Path(__file__).parents[3]
PACKAGE = "ansible_collections.aks.flexnode.plugins"
MODULES = sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py") if path.stem != "__init__")
GROUPS: dict[str, list[str]] = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["action_groups"]
# Groups whose modules share the options of a doc fragment of the same name.
SHARING = ("azure", "kubernetes")
OBJECT = "99999999-8888-7777-6666-555555555555"
VNET = f"{CLUSTER.partition('/providers/')[0]}/providers/Microsoft.Network/virtualNetworks/plant"


class Captured(Exception):
    """The options that a module declares."""


@cache
def documented(module: str) -> dict[str, Any]:
    """The module's own documentation, without fragments."""
    found: dict[str, Any] = read_docstring(str(ROOT / f"plugins/modules/{module}.py"), verbose=False)["doc"]
    return found


def fragments(module: str) -> list[str]:
    return list(documented(module).get("extends_documentation_fragment") or ())


@cache
def fragment(name: str) -> dict[str, Any]:
    """The options of a doc fragment, such as azure or azure.preview."""
    file, _dot, part = name.removeprefix("aks.flexnode.").partition(".")
    content = importlib.import_module(f"{PACKAGE}.doc_fragments.{file}").ModuleDocFragment
    found: dict[str, Any] = yaml.safe_load(getattr(content, part.upper() or "DOCUMENTATION"))
    return dict(found.get("options") or {})


@cache
def spec(module: str) -> dict[str, Any] | None:
    """The argument spec that a module declares; None for the documentation of an action plugin."""
    code = importlib.import_module(f"{PACKAGE}.modules.{module}")
    if not hasattr(code, "main"):
        return None

    def capture(**options: Any) -> None:
        raise Captured(options["argument_spec"])

    original, code.AnsibleModule = code.AnsibleModule, capture  # type: ignore[attr-defined]
    try:
        code.main()
    except Captured as captured:
        return dict(captured.args[0])
    finally:
        code.AnsibleModule = original  # type: ignore[attr-defined]
    raise AssertionError(f"{module} declares no options")


def runs_on_the_machine(module: str) -> bool:
    return (ROOT / f"plugins/module_utils/on_machine/{module}.py").exists()


def expected_groups(module: str) -> set[str]:
    found = {group for group in SHARING if f"aks.flexnode.{group}" in fragments(module)}
    return found | ({"node"} if runs_on_the_machine(module) else set())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_is_in_its_groups(module: str) -> None:
    assert {group for group, members in GROUPS.items() if module in members} == expected_groups(module)


def test_groups_name_modules_once_and_in_order() -> None:
    for members in GROUPS.values():
        assert members == sorted(set(members))
        assert set(members) <= set(MODULES)


@pytest.mark.parametrize("group", SHARING)
def test_every_module_of_a_group_accepts_all_options_of_the_group(group: str) -> None:
    shared = set(fragment(group))
    assert shared
    for module in GROUPS[group]:
        accepted = set(spec(module) or ())
        if not accepted:  # the documentation of an action plugin
            accepted = {name for one in fragments(module) for name in fragment(one)}
        assert shared - accepted == set(), module


@pytest.mark.parametrize("module", MODULES)
def test_options_are_documented_as_they_are_declared(module: str) -> None:
    declared = spec(module)
    if declared is None:
        return
    told: dict[str, Any] = {}
    for one in fragments(module):
        told |= fragment(one)
    for name, option in (documented(module).get("options") or {}).items():
        told[name] = {**told.get(name, {}), **option}
    assert set(told) == set(declared)
    for name, option in declared.items():
        _compare(f"{module}: {name}", told[name], option)


def _compare(where: str, told: dict[str, Any], option: dict[str, Any]) -> None:
    assert told.get("description"), where
    assert told.get("type", "str") == option.get("type", "str"), where
    for key in ("elements", "default", "required"):
        assert told.get(key) == option.get(key), f"{where}: {key}"
    for key in ("choices", "aliases"):
        assert sorted(told.get(key) or []) == sorted(option.get(key) or []), f"{where}: {key}"
    assert set(told.get("suboptions") or {}) == set(option.get("options") or {}), where
    for name, inner in (option.get("options") or {}).items():
        _compare(f"{where}.{name}", told["suboptions"][name], inner)


# -- as Ansible does it ------------------------------------------------------------------------------------

ARC_MACHINE = f"{CLUSTER.partition('/providers/')[0]}/providers/Microsoft.HybridCompute/machines/edge-1"
CALLS: dict[str, dict[str, Any]] = {
    "flexnode_access_token": {},
    "flexnode_arc_machine": {"machines": [{"name": "edge-1", "machine_id": ARC_MACHINE, "vm_id": "v"}]},
    "flexnode_bootstrap_data": {"cluster_id": CLUSTER, "pool": "edge"},
    "flexnode_bootstrap_token": {"cluster_id": CLUSTER, "nodes": [{"name": "edge-2"}]},
    "flexnode_cluster_info": {"cluster_ids": [CLUSTER]},
    "flexnode_config": {"cluster_id": CLUSTER, "nodes": [{"name": "edge-1"}]},
    "flexnode_config_info": {"cluster_id": CLUSTER},
    "flexnode_identity_binding": {
        "cluster_id": CLUSTER,
        "nodes": [{"name": "edge-1", "principal_id": OBJECT}],
    },
    "flexnode_machine": {"cluster_id": CLUSTER, "pool": "edge", "machines": [{"name": "edge-1"}]},
    "flexnode_node": {"cluster_id": CLUSTER, "names": ["edge-1"]},
    "flexnode_pool": {"cluster_id": CLUSTER, "pool": "edge"},
    "flexnode_pool_info": {"cluster_id": CLUSTER},
    "flexnode_role_assignment": {
        "cluster_id": CLUSTER,
        "nodes": [{"name": "edge-1", "principal_id": OBJECT}],
    },
    "flexnode_rollout": {"cluster_id": CLUSTER},
    "flexnode_token": {"cluster_id": CLUSTER, "names": ["edge-1"]},
    "flexnode_vpn_gateway": {"vnet_id": VNET, "directory": "vpn", "passphrase": "planted passphrase"},
    "flexnode_vpn_gateway_info": {"vnet_id": VNET, "directory": "vpn"},
}


def played(tmp_path: Path, defaults: dict[str, Any], calls: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What each module answered, with defaults for its group."""
    tasks = [
        {"name": name, f"aks.flexnode.{name}": options, "ignore_errors": True}
        for name, options in calls.items()
    ]
    play = {
        "name": "Test",
        "hosts": "localhost",
        "gather_facts": False,
        "module_defaults": defaults,
        "tasks": tasks,
    }
    book, record = tmp_path / "book.yml", tmp_path / "record"
    book.write_text(yaml.safe_dump([play]))
    record.touch()
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "testbed/callback_plugins"),
        "ANSIBLE_CALLBACKS_ENABLED": "record",
        "FLEXNODE_RECORD": str(record),
        "LC_ALL": "C.UTF-8",
    }
    chosen = ["-e", f"ansible_python_interpreter={sys.executable}"]
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "playbook", "-i", "localhost,", "-c", "local", *chosen, str(book)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=tmp_path,
    )
    found = [json.loads(line) for line in record.read_text().splitlines()]
    assert {one["task"] for one in found} == set(calls), done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    return {one["task"]: one["result"] for one in found}


def test_defaults_of_the_azure_group(azure: FakeAzure, tmp_path: Path) -> None:
    login = {
        "tenant": TENANT,
        "client_id": CLIENT,
        "secret": SECRET,
        "ca_bundle": azure.ca,
        "authority": azure.server.url,
        "resource_manager_endpoint": azure.server.url,
    }
    assert set(GROUPS["azure"]) - set(CALLS) <= {name for name in GROUPS["azure"] if spec(name) is None}
    answers = played(tmp_path, {"group/aks.flexnode.azure": login}, CALLS)
    for name, answer in answers.items():
        if answer.get("failed"):
            assert answer["error"]["code"].startswith("FLEX-17"), (name, answer["msg"])
            assert answer["error"]["code"] != "FLEX-1701", (name, answer["msg"])
    assert "censored" in answers["flexnode_access_token"], "it has a token, which no output shows"
    assert [node["name"] for node in answers["flexnode_config_info"]["nodes"]] == ["edge-1"]


def test_defaults_of_the_kubernetes_group(pki: Pki, tmp_path: Path) -> None:
    calls: dict[str, Any] = {
        "flexnode_node": {"names": ["edge-9"], "state": "absent"},
        "flexnode_pool_info": {"cluster_id": CLUSTER, "auth_source": "env"},
        "flexnode_proof": {"names": []},
        "flexnode_rollout": {"state": "present"},
        "flexnode_bootstrap_token": {"nodes": [{"name": "edge-1"}]},
        "flexnode_identity_binding": {"nodes": [{"name": "edge-1", "principal_id": OBJECT}]},
    }
    with FakeCluster(nodes={"edge-1": a_node()}).running(pki) as cluster:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(cluster.kubeconfig(pki)))
        defaults = {"group/aks.flexnode.kubernetes": {"kubeconfig": str(kubeconfig), "context": "lab"}}
        answers = played(tmp_path, defaults, calls)
    assert set(GROUPS["kubernetes"]) == set(calls)
    failed = {name: answer["error"]["code"] for name, answer in answers.items() if "error" in answer}
    assert failed == {"flexnode_pool_info": "FLEX-1701"}, "it signs in to Azure first"
