# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules of the controller run there, whatever host a task is for, and show no secret."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.players import PLAYERS

ROOT = Path(__file__).parents[3]
RUNTIME = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())
# An SSH server that is not there, become, and a Python that is not the controller's.
ELSEWHERE = {
    "ansible_host": "127.0.0.1",
    "ansible_port": 9,
    "ansible_become": True,
    "ansible_python_interpreter": "/nonexistent/python",
}
STUB = """#!/usr/bin/python
# WANT_JSON
import json, os, sys
print(json.dumps({answer}))
"""


def run(tmp_path: Path, module: str, answer: str, *options: str, **task: Any) -> tuple[int, str]:
    """One task for a machine that can't be reached, with a module that returns an expression of Python."""
    collection = tmp_path / "ansible_collections/aks/flexnode"
    (collection / "plugins/modules").mkdir(parents=True)
    for part in ("galaxy.yml", "meta", "plugins/action", "plugins/module_utils", "plugins/plugin_utils"):
        (collection / part).symlink_to(ROOT / part)
    (collection / f"plugins/modules/{module}.py").write_text(STUB.replace("{answer}", answer))
    step = {"name": "Run it", f"aks.flexnode.{module}": {}, "register": "answer", **task}
    shown = {
        "name": "Show it",
        "ansible.builtin.debug": {"msg": "answer is {{ answer.shown | default('-') }}"},
    }
    step = {key: value for key, value in step.items() if value is not None}
    book = [{"hosts": "all", "collections": ["aks.flexnode"], "gather_facts": False, "tasks": [step, shown]}]
    (tmp_path / "book.yml").write_text(yaml.safe_dump(book))
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"edge-1": ELSEWHERE}}}))
    arguments = ("-i", "hosts.yml", "book.yml", *options)
    return PLAYERS.play(tmp_path, *arguments, ANSIBLE_NOCOLOR="1")


ROUTED = sorted(
    name
    for name, route in RUNTIME["plugin_routing"]["modules"].items()
    if route == {"action_plugin": "aks.flexnode.flexnode_cluster_info"}
)
HAS_SECRETS = ["flexnode_access_token", "flexnode_bootstrap_token", "flexnode_config", "flexnode_config_blob"]


def test_it_needs_no_delegation_and_runs_with_the_controllers_python(tmp_path: Path) -> None:
    answer = "{'shown': f'{sys.executable} {os.getuid()}'}"
    status, output = run(tmp_path, "flexnode_cluster_info", answer)
    assert status == 0, output
    assert f"answer is {sys.executable} {os.getuid()}" in output


@pytest.mark.parametrize("module", [*HAS_SECRETS, "flexnode_token"])
def test_a_result_with_secrets_is_hidden_at_every_verbosity(tmp_path: Path, module: str) -> None:
    status, output = run(tmp_path, module, "{'token': 'abcdef.planted', 'shown': 'usable'}", "-vvv")
    assert status == 0, output
    assert "abcdef.planted" not in output
    assert "answer is usable" in output, "the next task can use it"


@pytest.mark.parametrize("module", HAS_SECRETS)
def test_its_errors_are_not(tmp_path: Path, module: str) -> None:
    status, output = run(tmp_path, module, "{'failed': True, 'msg': 'FLEX-1702: not allowed'}")
    assert status != 0
    assert "FLEX-1702: not allowed" in output


@pytest.mark.parametrize(("options", "local"), [({"kubeconfig": "/k"}, True), ({}, False)])
def test_a_node_is_read_by_kubeconfig_here_and_by_the_kubelet_there(
    tmp_path: Path, options: dict[str, str], local: bool
) -> None:
    status, output = run(
        tmp_path, "flexnode_node", "{'shown': 'here'}", **{"aks.flexnode.flexnode_node": options}
    )
    assert (status == 0, "answer is here" in output, "UNREACHABLE" in output) == (local, local, not local)


def test_what_a_module_waits_for_is_shown(tmp_path: Path) -> None:
    file = "open(json.load(open(sys.argv[1]))['progress_file'], 'a')"
    answer = f"[{{'shown': 'done'}} for _ in [{file}.write('edge: waiting\\n')]][0]"
    status, output = run(tmp_path, "flexnode_machine", answer)
    assert status == 0, output
    assert output.index("\nedge: waiting\n") < output.index("answer is done")


def test_a_short_name_is_the_same_module(tmp_path: Path) -> None:
    short = {"aks.flexnode.flexnode_token": None, "flexnode_token": {}}
    status, output = run(
        tmp_path, "flexnode_token", "{'token': 'abcdef.planted', 'shown': 'usable'}", "-v", **short
    )
    assert status == 0, output
    assert "abcdef.planted" not in output


def test_the_shell_of_the_machine_is_not_the_controllers(tmp_path: Path) -> None:
    options = ("-e", "ansible_shell_executable=/opt/edge/bash")
    status, output = run(tmp_path, "flexnode_cluster_info", "{'shown': 'here'}", *options)
    assert status == 0, output


def test_a_delegated_task_goes_where_it_is_sent(tmp_path: Path) -> None:
    status, output = run(tmp_path, "flexnode_cluster_info", "{}", delegate_to="edge-1")
    assert status != 0
    assert "UNREACHABLE" in output


def test_every_module_that_asks_azure_is_routed() -> None:
    azure = {
        path.stem
        for path in (ROOT / "plugins/modules").glob("*.py")
        if "aks.flexnode.azure" in path.read_text() and not (ROOT / "plugins/action" / path.name).exists()
    }
    assert azure <= set(ROUTED), sorted(azure - set(ROUTED))
