# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines whose Python is too old for the node's code, such as Ubuntu 20.04 and Debian 11."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils import node_code, zip_importer
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import UnsupportedPlatform

ROOT = Path(__file__).parents[3]
# ansible-core 2.19 itself needs 3.8 on a machine.
OLD = ("3.8", "3.9")


def interpreter(version: str) -> str:
    """A Python of this version on this machine: of the system, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [Path("/usr/bin", f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python3"))]
    return next((str(path) for path in found if path.exists()), "")


@pytest.mark.parametrize(
    ("version", "refused"),
    [((3, 6, 15), True), ((3, 8, 18), True), ((3, 9, 2), True), ((3, 10, 0), False), ((3, 13, 1), False)],
)
def test_which_python_is_too_old(version: tuple[int, ...], refused: bool) -> None:
    assert bool(node_code.too_old(version, "/usr/bin/python3")) is refused


def test_the_message_says_what_was_found_what_is_needed_and_what_to_do() -> None:
    text = node_code.too_old((3, 9, 2), "/opt/python3")
    assert text.startswith(f"{UnsupportedPlatform.code}: Python 3.9.2 is too old (/opt/python3)")
    assert "needs Python 3.10 or newer" in text
    fix = text.partition("\nfix: ")[2]
    assert "Ubuntu 22.04 or 24.04, Debian 12 or 13" in fix
    assert "ansible_python_interpreter" in fix


@pytest.mark.parametrize(
    "module", [node_code, zip_importer], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_old_python_can_read_what_checks_it(module: object) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(), feature_version=(3, 6))  # type: ignore[attr-defined]
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert "__future__" not in imported  # annotations are not known to Python 3.6


@pytest.mark.parametrize("version", OLD)
def test_a_module_on_such_a_machine_says_so(tmp_path: Path, version: str) -> None:
    """It said `zip() takes no keyword arguments`, or that an ABCMeta object is not subscriptable."""
    python = interpreter(version)
    if not python:
        pytest.skip(f"there is no Python {version} here")
    names = ("flexnode_preflight_info", "flexnode_reconcile", "flexnode_status_info", "arc_info")
    tasks = [
        {"name": "Ask", f"aks.flexnode.{name}": {}, "register": f"answer_{name}", "ignore_errors": True}
        for name in names
    ]
    shown = "{{ [" + ", ".join(f"answer_{name}" for name in names) + "] | to_json }}"
    copied = {"name": "Keep", "ansible.builtin.copy": {"content": shown, "dest": str(tmp_path / "answers")}}
    book = tmp_path / "book.yml"
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [*tasks, copied]}]))
    command = [sys.executable, "-m", "ansible", "playbook", "--connection=local", "--inventory=localhost,"]
    done = subprocess.run(
        [*command, f"--extra-vars=ansible_python_interpreter={python}", str(book)],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"),
            "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for answer in json.loads((tmp_path / "answers").read_text()):
        assert answer["failed"]
        assert answer["error"] == {"code": UnsupportedPlatform.code}
        assert answer["msg"].startswith(f"FLEX-1301: Python {version}.")
        assert "node_code" not in str(answer)
