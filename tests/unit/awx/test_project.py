# SPDX-License-Identifier: GPL-3.0-or-later
"""The project that users copy: it installs this collection, its playbooks and inventories are usable."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.controller.azure.settings import ENVIRONMENT
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import machine_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.secrets import (
    OTHER_SECRETS,
    SECRETS,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.available import check_available
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from scripts.docs.awx import awx_data

ROOT = Path(__file__).parents[3]
PROJECT = ROOT / "awx" / "project"
COMMANDS = Path(sys.executable).parent
WORKFLOWS = awx_data("workflows")["awx_workflows"]


def inventory() -> dict[str, Any]:
    command = [COMMANDS / "ansible-inventory", "-i", PROJECT / "inventory", "--list"]
    shown = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True, timeout=120)
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_the_project_installs_this_version_of_the_collection() -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    wanted = [{"name": "aks.flexnode", "version": version}]
    project = yaml.safe_load((PROJECT / "collections/requirements.yml").read_text())
    assert project["collections"] == wanted
    image = yaml.safe_load((ROOT / "awx/execution-environment.yml").read_text())
    assert image["dependencies"]["galaxy"]["collections"] == wanted
    named = awx_data("organization")["awx_execution_environment"]["image"]
    assert named.endswith(f":{version}")
    navigator = yaml.safe_load((PROJECT / "ansible-navigator.yml").read_text())["ansible-navigator"]
    assert navigator["execution-environment"]["image"] == named


def test_groups_of_the_example_inventory_are_those_that_workflows_name() -> None:
    groups = inventory()
    assert groups["ring_canary"]["hosts"] == ["edge-1"]
    assert groups["ring_rest"]["hosts"] == ["edge-2", "edge-3"]
    assert groups["site_lab_2"]["hosts"] == ["edge-3"]
    limits = {node.get("limit", "") for one in WORKFLOWS for node in one["workflow_nodes"]}
    named = {name for limit in limits for name in re.findall(r"\w+", limit)}
    assert named <= set(groups)
    secrets = {*SECRETS, *OTHER_SECRETS}
    for variables in groups["_meta"]["hostvars"].values():
        assert not secrets & set(variables)


def test_the_azure_inventory_uses_options_that_its_plugin_has(collections: Path) -> None:
    plugins = collections / "ansible_collections/azure/azcollection/plugins"
    texts = [(plugins / part).read_text() for part in ("doc_fragments/azure_rm.py", "inventory/azure_rm.py")]
    file = PROJECT / "inventory_azure/flexnode.azure_rm.yml"
    config = yaml.safe_load(file.read_text())
    assert file.name.endswith("azure_rm.yml")
    for option in config:
        assert any(re.search(rf"^ +{option}:", text, re.MULTILINE) for text in texts), option
    assert set(config["conditional_groups"]) == {"aks_flexnode"}
    assert [group["prefix"] for group in config["keyed_groups"]] == ["ring", "site"]


def test_its_machines_have_documents_that_are_accepted() -> None:
    """What Azure adds is a whole document; the machine's own goes over it."""
    whole = json.loads((ROOT / "docs/examples/node.json").read_text())
    document = merge(whole.get("config", whole), {"azure": {"targetCluster": {"location": "westeurope"}}})
    for host, variables in inventory()["_meta"]["hostvars"].items():
        machine = machine_of(host, variables, lambda path: {})
        assert machine.source == "cluster"
        assert machine.cluster_id
        check_available(parse(merge(document, machine.document)))


def test_what_the_azure_credential_of_awx_injects_is_read_and_passed_on() -> None:
    """The variables that AWX's own type Microsoft Azure Resource Manager sets for a service principal."""
    injected = {"AZURE_TENANT", "AZURE_CLIENT_ID", "AZURE_SECRET", "AZURE_SUBSCRIPTION_ID"}
    assert injected <= {name for names in ENVIRONMENT.values() for name in names}
    navigator = yaml.safe_load((PROJECT / "ansible-navigator.yml").read_text())["ansible-navigator"]
    assert set(navigator["execution-environment"]["environment-variables"]["pass"]) == injected
    page = (ROOT / "docs/awx.md").read_text()
    assert all(f"`{name}`" in page for name in injected)


def test_its_playbooks_find_the_collection(tmp_path: Path) -> None:
    playbooks = sorted(set(PROJECT.glob("*.yml")) - {PROJECT / "ansible-navigator.yml"})
    environment = {
        **os.environ,
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
        "ANSIBLE_LOCAL_TEMP": str(tmp_path),
    }
    done = subprocess.run(
        [COMMANDS / "ansible-playbook", "--syntax-check", "-i", "localhost,", *playbooks],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
