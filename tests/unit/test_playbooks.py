# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks and roles as Ansible runs them, with modules that only write down what they are asked for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
CLUSTER = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
STUB = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
with open(sys.argv[1]) as file:
    given = json.load(file)
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(["{name}", given]) + "\\n")
print('''{answer}''')
"""


@dataclass
class Stage:
    """A collection with the roles and playbooks of this one, and no module that does anything."""

    directory: Path
    status: int = 0
    output: str = ""

    def answer(self, **answers: Any) -> None:
        """What modules return."""
        for name, answer in answers.items():
            text = STUB.replace("{name}", name).replace("{answer}", json.dumps(answer))
            (self.collection / "plugins/modules" / f"{name}.py").write_text(text)

    @property
    def collection(self) -> Path:
        return self.directory / "ansible_collections/aks/flexnode"

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Each module that was run, with its arguments."""
        log = self.directory / "calls"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def asked(self, module: str) -> list[list[str]]:
        """The names of the nodes in each call of a module."""
        return [
            given.get("names") or [node["name"] for node in given["nodes"]]
            for name, given in self.calls
            if name == module
        ]

    def play(self, playbook: str, hosts: dict[str, dict[str, Any]], **variables: Any) -> None:
        """Run a playbook of the collection, or one in a file."""
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = self.directory / "hosts.yml"
        always = {**local, "ansible_become": False, **variables}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": always}}))
        environment = {
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(self.directory),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "CALLS": str(self.directory / "calls"),
        }
        command = [sys.executable, "-m", "ansible", "playbook", "-i", str(inventory), playbook]
        done = subprocess.run(
            command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False
        )
        self.status, self.output = done.returncode, done.stdout + done.stderr


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path)
    (made.collection / "plugins/modules").mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "roles", "playbooks", "plugins/filter", "plugins/module_utils"):
        (made.collection / part).symlink_to(ROOT / part)
    made.answer(**{module.stem: {} for module in (ROOT / "plugins/modules").glob("*.py")})
    made.answer(arc_register={"installed": False})
    return made


def hosts(*names: str, source: str) -> dict[str, dict[str, Any]]:
    return {name: {"flexnode_config_source": source, "flexnode_cluster_id": CLUSTER} for name in names}


def test_what_had_to_stay_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    left = {"remains": ["file:/etc/x: someone changed it"], "node_name": "gone", "node_remains": "refused"}
    stage.answer(
        flexnode_reconcile={"changed": True, **left},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert stage.asked("flexnode_node") == [["gone", "gone"]]
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(
            rf"fatal: \[{host}\].*no longer a node, but this had to stay:.*changed it", stage.output
        )


def test_trouble_in_azure_arc_keeps_nothing_from_being_cleaned_up(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"},
        arc_register={"failed": True, "msg": "FLEX-1814: azcmagent show gives no answer"},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.play("aks.flexnode.unbootstrap", hosts("a", "b", source="blob"), flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b"]], stage.output
    assert stage.asked("flexnode_node") == [["gone", "gone"]]
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(rf"fatal: \[{host}\].*this had to stay:.*in Azure Arc: FLEX-1814", stage.output)


def test_nodes_that_nobody_could_delete_are_named(stage: Stage) -> None:
    left = {"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"}
    stage.answer(flexnode_reconcile=left)
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="inline"))
    assert stage.status != 0
    assert "Nodes that still exist (give flexnode_kubeconfig" in stage.output
    assert "Node gone" in stage.output


def test_machines_that_left_nothing_behind_are_fine(stage: Stage) -> None:
    stage.answer(flexnode_reconcile={"changed": True, "remains": [], "node_name": "a", "node_remains": ""})
    stage.play("aks.flexnode.unbootstrap", hosts("a", source="inline"))
    assert stage.status == 0, stage.output


def test_only_machines_with_a_flexnodeconfig_get_new_tokens(stage: Stage) -> None:
    stage.answer(flexnode_token={"nodes": []})
    fleet = {name: hosts(name, source=name)[name] for name in ("rp", "url", "cluster", "blob", "inline")}
    stage.play("aks.flexnode.config_tokens", fleet)
    assert stage.asked("flexnode_token") == [["rp", "url"]], stage.output


@pytest.mark.parametrize("entry", ["joined", "delete"])
def test_why_storage_failed_is_told_though_its_addresses_are_not(stage: Stage, entry: str) -> None:
    stage.answer(
        flexnode_bootstrap_token={"nodes": []},
        flexnode_config_blob={"failed": True, "msg": "FLEX-1708: the storage account refuses this"},
    )
    book = stage.directory / "book.yml"
    role = {"name": "aks.flexnode.source", "tasks_from": entry}
    task = {"name": "Run it", "ansible.builtin.import_role": role}
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    stage.play(str(book), hosts("a", source="blob"))
    assert stage.status != 0
    assert re.search("fatal: .*FLEX-1708", stage.output)


def test_a_batch_resolves_its_own_machines(stage: Stage) -> None:
    stage.answer(flexnode_config={"nodes": []})
    book = stage.directory / "book.yml"
    play = {"hosts": "all", "gather_facts": False, "serial": 1, "roles": ["aks.flexnode.source"]}
    book.write_text(yaml.safe_dump([play]))
    stage.play(str(book), hosts("a", "b", source="rp"))
    assert stage.asked("flexnode_config") == [["a"], ["b"]], stage.output
