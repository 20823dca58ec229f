# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The node's code comes to a machine as one archive: packed once, whole, and shown nowhere."""

from __future__ import annotations

import base64
import io
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.program import sources
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import digest_of
from ansible_collections.aks.flexnode.plugins.plugin_utils import on_machine

ROOT = Path(__file__).parents[3]
MODULE_UTILS = ROOT / "plugins/module_utils"
ROUTES = yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["plugin_routing"]["modules"]
# Modules whose whole work is done on the machine; flexnode_node works from the controller as well.
MODULES = sorted(
    path.stem
    for path in (ROOT / "plugins/modules").glob("*.py")
    if (MODULE_UTILS / "on_machine" / path.name).exists() and path.stem != "flexnode_node"
)
# The module, what it imports for its options and its start, and the folders above.
MOST_FILES = 10


def archived() -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(zlib.decompress(on_machine.packed()))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_archive_holds_the_rooms_of_the_machine_and_nothing_else() -> None:
    expected = {
        f"aks_flexnode/{path.relative_to(MODULE_UTILS)}": path.read_bytes()
        for room in ("node", "on_machine")
        for path in (MODULE_UTILS / room).rglob("*.py")
    }
    assert archived() == {"aks_flexnode/__init__.py": b"", **expected}


def test_the_same_files_are_the_same_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their times, and whatever Python and editors left beside them."""
    before = on_machine.packed()
    copied = shutil.copytree(
        MODULE_UTILS,
        tmp_path / "module_utils",
        copy_function=shutil.copyfile,
        ignore=shutil.ignore_patterns("__pycache__"),  # other tests write there meanwhile
    )
    (copied / "node/__pycache__").mkdir()
    (copied / "node/__pycache__/errors.py").write_text("old")
    (copied / "node/errors.py.orig").write_text("old")
    monkeypatch.setattr(on_machine, "MODULE_UTILS", copied)
    assert on_machine.packed() == before


def test_the_command_that_a_join_installs_is_the_same_from_the_archive(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(zlib.decompress(on_machine.packed()))
    code = (
        "import sys; sys.path.insert(0, 'archive'); "
        "from aks_flexnode.node.machine.program import sources; "
        "from aks_flexnode.node.resources.program import digest_of; print(digest_of(sources()))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == digest_of(sources())


PACKING = """
import base64, io, json, re, sys, zipfile
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([])
from ansible.executor.module_common import modify_module
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

found = {}
for module in sys.argv[2:]:
    built = modify_module(
        module_name=f"aks.flexnode.{module}",
        module_path=f"{sys.argv[1]}/ansible_collections/aks/flexnode/plugins/modules/{module}.py",
        module_args={},
        templar=Templar(DataLoader()),
        task_vars={"ansible_python_interpreter": "/usr/bin/python3"},
        module_compression="ZIP_DEFLATED",
    )
    sent = built[0] if isinstance(built, tuple) else built.b_module_data  # a tuple in older releases
    packed = base64.b64decode(max(re.findall(rb"[A-Za-z0-9+/=]{2000,}", sent), key=len))
    found[module] = zipfile.ZipFile(io.BytesIO(packed)).namelist()
print(json.dumps(found))
"""


def test_ansible_itself_packs_few_files_of_ours() -> None:
    """What Ansible packs it parses first: a second or two, if it were the node's code."""
    path = str(ROOT / ".collections")
    done = subprocess.run(
        [sys.executable, "-c", PACKING, path, *MODULES],
        env={**os.environ, "ANSIBLE_COLLECTIONS_PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    assert sorted(found) == MODULES
    for module, files in found.items():
        ours = [name for name in files if "/aks/flexnode/" in name]
        assert f"ansible_collections/aks/flexnode/plugins/modules/{module}.py" in ours
        assert [name for name in ours if "/node/" in name or "/on_machine/" in name] == []
        assert len(ours) <= MOST_FILES


def test_workers_of_a_run_pack_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = tmp_path / "times"

    def packed() -> bytes:
        with times.open("a") as file:
            file.write("once\n")
        return b"archive"

    monkeypatch.setattr(on_machine.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    monkeypatch.setattr(on_machine, "packed", packed)
    with multiprocessing.get_context("fork").Pool(8) as workers:
        texts = workers.starmap(on_machine.node_code, [()] * 16)
    assert {base64.b64decode(text) for text in texts} == {b"archive"}
    assert times.read_text() == "once\n"
    (kept,) = (path for path in tmp_path.iterdir() if path.suffix == ".node_code")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_every_module_of_the_machine_is_routed() -> None:
    """flexnode_reconcile has the action plugin of its name."""
    routed = {name for name, route in ROUTES.items() if route["action_plugin"].endswith("flexnode_reconcile")}
    assert routed == set(MODULES) - {"flexnode_reconcile"}


PREFLIGHT: dict[str, Any] = {"document": "{}", "stage": "host"}


def play(tmp_path: Path, *options: str, **environment: str) -> str:
    """A task on this machine by Ansible: all that anybody sees, and the log."""
    task = {"name": "Check", "aks.flexnode.flexnode_preflight_info": PREFLIGHT, "register": "answer"}
    shown = {"name": "Show", "ansible.builtin.debug": {"var": "answer"}}
    later = {**task, "async": 60, "poll": 1, "when": "not ansible_check_mode"}
    wrong = {
        **task,
        "aks.flexnode.flexnode_preflight_info": {**PREFLIGHT, "stage": "moon"},
        "failed_when": "'value of stage' not in answer.msg",
    }
    tasks = [task, shown, later, shown, wrong, shown]
    (tmp_path / "book.yml").write_text(
        yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": tasks}])
    )
    for directory in ("tmp", "remote", "async"):
        (tmp_path / directory).mkdir()
    command = [sys.executable, "-m", "ansible", "playbook", "--connection=local", "--inventory=localhost,"]
    done = subprocess.run(
        [*command, f"--extra-vars=ansible_python_interpreter={sys.executable}", "book.yml", *options],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_ASYNC_DIR": str(tmp_path / "async"),
            "ANSIBLE_INJECT_INVOCATION": "1",
            "ANSIBLE_LOG_PATH": str(tmp_path / "log"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_REMOTE_TEMP": str(tmp_path / "remote"),
            "TMPDIR": str(tmp_path / "tmp"),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    return output + (tmp_path / "log").read_text()


def assert_not_shown(output: str) -> None:
    text = on_machine.node_code()
    assert text[:60] not in output
    assert text[-60:] not in output
    assert max(map(len, re.findall(r"[A-Za-z0-9+/=]+", output))) < 1000


@pytest.mark.parametrize("options", [(), ("--check", "--diff")], ids=["applied", "check mode"])
def test_a_module_runs_on_the_machine_and_nothing_of_the_archive_is_seen(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    output = play(tmp_path, "-vvv", *options)
    assert "error_count" in output
    assert_not_shown(output)
    # `invocation` names the options of the task, and not the one that the collection adds.
    assert "token_expires" in output
    assert "node_code" not in output
    assert list((tmp_path / "tmp").iterdir()) == []
    if options:  # a task in the background removes its own directory, a moment after its result
        assert list((tmp_path / "remote").iterdir()) == []


def test_not_even_the_debug_log_of_ansible_shows_the_archive(tmp_path: Path) -> None:
    """It shows the arguments of every module."""
    output = play(tmp_path, "--check", ANSIBLE_DEBUG="1")
    assert "'node_code': '...'" in output
    assert_not_shown(output)


def test_a_module_that_is_cut_short_says_what_the_machine_said(tmp_path: Path) -> None:
    """As on a machine whose disk can't be read any more: Python ends before there is a result."""
    interpreter = tmp_path / "python3"
    interpreter.write_text(
        "#!/bin/sh\necho 'Could not find platform libraries' >&2\necho 'Input/output error' >&2\nexit 5\n"
    )
    interpreter.chmod(0o755)
    command = [
        sys.executable,
        "-m",
        "ansible",
        "adhoc",
        "localhost",
        "--connection=local",
        "--inventory=localhost,",
    ]
    done = subprocess.run(
        [
            *command,
            f"--extra-vars=ansible_python_interpreter={interpreter}",
            "--module-name=aks.flexnode.flexnode_status_info",
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_NOCOLOR": "1",
            "ANSIBLE_PIPELINING": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "the module was cut short on this machine (exit status 5): Input/output error" in done.stdout
    assert "dmesg | tail" in done.stdout
