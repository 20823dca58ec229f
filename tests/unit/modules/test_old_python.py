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


# Says that it is an old Python: for where none is installed.
PRETENDS = """
import collections, sys
sys.version_info = collections.namedtuple("v", "major minor micro releaselevel serial")(3, 9, 2, "final", 0)
"""
PRETENDED = "pretended"


def interpreters() -> list[str]:
    """Old Pythons of this machine, of the system or of pyenv; and one that pretends, which is everywhere."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    places = ([Path("/usr/bin", f"python{one}"), *sorted(pyenv.glob(f"{one}.*/bin/python3"))] for one in OLD)
    found = (next((str(path) for path in paths if path.exists()), "") for paths in places)
    return [PRETENDED, *filter(None, found)]


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


@pytest.mark.parametrize("python", interpreters())
def test_a_module_on_such_a_machine_says_so(tmp_path: Path, python: str) -> None:
    """It said `zip() takes no keyword arguments`, or that an ABCMeta object is not subscriptable."""
    if python == PRETENDED:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib/sitecustomize.py").write_text(PRETENDS)
        wrapper = tmp_path / "python3"
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/lib exec {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
        python = str(wrapper)
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
        assert answer["msg"].startswith(("FLEX-1301: Python 3.8.", "FLEX-1301: Python 3.9."))
        assert "node_code" not in str(answer)
