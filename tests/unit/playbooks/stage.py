# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks and roles as Ansible runs them, with modules that only write down what they are asked for."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.unit.playbooks.players import PLAYERS

ROOT = Path(__file__).parents[3]
CLUSTER = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.ContainerService/managedClusters/plant"
NO_TAINTS = {"taints": {"set": [], "remove": []}}
# A module that writes down what it is asked for. The temporary directory tells on which machine it runs.
STUB = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
with open(sys.argv[1]) as file:
    given = json.load(file)
given.pop("node_code", None)
host = given["_ansible_remote_tmp"].rpartition("/")[2]
with open(os.environ["CALLS"], "a") as file:
    file.write(json.dumps(["{name}", {"host": host, **given}]) + "\\n")
answers = json.loads({answers}.replace("{host}", host))
answer = answers.get(host, answers["*"])
{code}
print(json.dumps(answer))
"""
NAMED = ("-e", "flexnode_hosts=all", "-e", "flexnode_serial=100%")


@dataclass
class Stage:
    """A collection with the roles and playbooks of this one, and no module that does anything."""

    directory: Path
    status: int = 0
    output: str = ""
    verbosity: int = 0

    def answer(self, **answers: Any) -> None:
        """What modules return; arc_info says the same as arc_register, unless it is named."""
        if "arc_register" in answers:
            answers.setdefault("arc_info", answers["arc_register"])
        if "flexnode_reconcile" in answers:
            answers["flexnode_reconcile"] = {**NO_TAINTS, **answers["flexnode_reconcile"]}
        for name, answer in answers.items():
            self.answer_by_host(name, answer)

    def answer_by_host(
        self, module: str, default: dict[str, Any] | None = None, **by_host: dict[str, Any]
    ) -> None:
        """What a module returns: `default`, or what stands for one of `machines`."""
        self._write(module, {"*": default or {}, **by_host})

    def answer_by_code(self, module: str, code: str, default: dict[str, Any] | None = None) -> None:
        """A module that runs lines of Python, which know what was `given` and may change the `answer`."""
        self._write(module, {"*": default or {}}, code)

    def _write(self, module: str, answers: dict[str, Any], code: str = "") -> None:
        text = STUB.replace("{name}", module).replace("{answers}", repr(json.dumps(answers)))
        (self.collection / f"plugins/modules/{module}.py").write_text(text.replace("{code}", code))

    def machines(self, *names: str, **variables: Any) -> dict[str, dict[str, Any]]:
        """Hosts that modules can tell apart."""
        return {
            name: {"ansible_remote_tmp": str(self.directory / "tmp" / name), **variables} for name in names
        }

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

    def play(
        self, playbook: str, hosts: dict[str, dict[str, Any]], *arguments: str, **variables: Any
    ) -> None:
        """Run a playbook of the collection, or one in a file, with arguments of the command line."""
        groups = variables.pop("groups", {})
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = self.directory / "hosts.yml"
        always = {**local, "ansible_become": False, **variables}
        named = {name: {**self.machines(name)[name], **given} for name, given in hosts.items()}
        inventory.write_text(yaml.safe_dump({"all": {"hosts": named, "vars": always, "children": groups}}))
        loud = ["-" + "v" * self.verbosity] if self.verbosity else []
        self.status, self.output = PLAYERS.play(
            self.directory,
            *("-i", str(inventory), playbook, *arguments, *loud),
            ANSIBLE_NOCOLOR="1",
            CALLS=str(self.directory / "calls"),
        )


# --- what modules return -----------------------------------------------------------------------------------

READY = {
    "name": "",
    "status": "Ready",
    "ready": True,
    "kubeletVersion": "1.34.4",
    "containerRuntime": "containerd 2.3.4",
}
BAD = {
    "failed": True,
    "changed": True,
    "rolled_back": True,
    "msg": "FLEX-1501: kubelet does not run",
    "error": {"code": "FLEX-1501"},
}
LEFT = {"changed": True, "remains": [], "node_name": "x", "node_remains": ""}
GROUP = CLUSTER.partition("/providers/")[0].replace("/s/", "/12345678-1234-1234-1234-123456789abc/")
IN_ARC = {
    "changed": False,
    "installed": True,
    "resource_id": f"{GROUP}/providers/Microsoft.HybridCompute/machines/{{host}}",  # each is what it is named
    "principal_id": "",
    "registered_by_us": True,
    "vm_id": "v1",
    "missing_roles": [{"kind": "kubernetes", "role": "system:node-bootstrapper", "command": "kubectl ..."}],
}
AKS = f"{GROUP}/providers/Microsoft.ContainerService/managedClusters/plant"


def hosts(*names: str, source: str) -> dict[str, dict[str, Any]]:
    return {name: {"flexnode_config_source": source, "flexnode_cluster_id": CLUSTER} for name in names}


def arc_hosts(*names: str, source: str = "inline", **of_arc: Any) -> dict[str, dict[str, Any]]:
    azure = {"arc": {"enabled": True, **of_arc}, "targetCluster": {"location": "westeurope"}}
    return {
        name: {
            "flexnode_config_source": source,
            "flexnode_cluster_id": AKS,
            "flexnode_config_url": "https://example.com/bundle",
            "flexnode_config": {"azure": azure},
        }
        for name in names
    }


def touched(stage: Stage) -> int:
    return len([name for name, _params in stage.calls if name == "flexnode_reconcile"])


def done(summary: str = "unchanged", version: str = "1.34.5", **more: Any) -> dict[str, Any]:
    """What flexnode_reconcile returns."""
    return {
        "changed": summary != "unchanged",
        "summary": summary,
        "drains": False,
        "actions": [],
        "timings": {"fetch": 1.2, "apply": 1.0, "gate": 2.0},
        "node": {**READY, "kubeletVersion": version},
        **NO_TAINTS,
        **more,
    }


def hook(stage: Stage, name: str, **task: Any) -> str:
    file = stage.directory / name
    file.write_text(yaml.safe_dump([{"name": f"Task of {name}", **task}]))
    return name


class Fleet:
    """Machines of a play, with an answer of each module per machine."""

    def __init__(self, stage: Stage, *names: str, **variables: Any) -> None:
        self.stage = stage
        self.hosts = stage.machines(*names, **variables)
        stage.answer_by_host(
            "flexnode_status_info",
            **{name: {"status": {"phase": "NodeJoined", "node": {**READY, "name": name}}} for name in names},
        )

    def update(self, *arguments: str, serial: int | str = "100%", **variables: Any) -> str:
        """Run the playbook; returns its output with single spaces."""
        options = ("-e", f"flexnode_serial={serial}", *arguments)
        self.stage.play("aks.flexnode.update", self.hosts, *options, **variables)
        return " ".join(self.stage.output.replace("\\n", " ").split())

    @property
    def updated(self) -> list[str]:
        return sorted(params["host"] for name, params in self.stage.calls if name == "flexnode_reconcile")

    @property
    def table(self) -> dict[str, list[str]]:
        """The cells of the table's rows, by host."""
        lines = re.findall(r'^\s+"?((?:HOST|[a-z][\w-]*)  .*?)"?,?$', self.stage.output, re.MULTILINE)
        assert sum(line.startswith("HOST") for line in lines) == 1, self.stage.output
        rows = lines[next(i for i, line in enumerate(lines) if line.startswith("HOST")) :]
        return {row.split()[0]: re.split(r"\s{2,}", row)[1:] for row in rows}
