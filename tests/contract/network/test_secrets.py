# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keys, the passphrase and the signed URL of a profile: in no output, no command line, no readable file."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.layout.identifiers import CLUSTER_ID
from tests.contract.modules.conftest import ROOT, Person
from tests.contract.network.conftest import PASSPHRASE, PlainAzure

PLAY: list[dict[str, Any]] = [
    {
        "name": "Get profiles",
        "hosts": "all",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Get profiles",
                "aks.flexnode.flexnode_vpn_gateway": {
                    "cluster_id": CLUSTER_ID,
                    "directory": "{{ inventory_dir }}/vpn",
                    "machines": ["edge-1"],
                    "passphrase": "{{ lookup('env', 'PLANTED_PASSPHRASE') }}",
                    "poll_interval": 1,
                },
                "register": "vpn",
            },
            {
                "name": "Keep the profile for the test",
                "ansible.builtin.copy": {
                    "content": "{{ vpn.machines[0].profile }}",
                    "dest": "{{ inventory_dir }}/profile",
                    "mode": "0600",
                },
                "no_log": True,
            },
        ],
    }
]


@contextlib.contextmanager
def command_lines(found: set[str]) -> Iterator[None]:
    """All command lines on this computer, as often as they can be read."""
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    found.add(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
def home(keeper: Person) -> Path:
    directory = keeper.directory
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {"edge-1": local}}}))
    (directory / "play.yml").write_text(yaml.safe_dump(PLAY))
    return directory


@pytest.mark.exhaustive  # it looks at all command lines as often as it can, which keeps a processor busy
def test_no_secret_is_shown_or_left_behind(azure: PlainAzure, keeper: Person, home: Path) -> None:
    lines: set[str] = set()
    with command_lines(lines):
        done = subprocess.run(
            [sys.executable, "-m", "ansible", "playbook", "-vvv", "--diff", "-i", "hosts.yml", "play.yml"],
            cwd=home,
            env={
                **keeper.environment,
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
                "PLANTED_PASSPHRASE": PASSPHRASE,
                "TMPDIR": str(home),
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    text = (home / "profile").read_text()
    key = text.partition("<key>\n")[2].splitlines()[1:-2]
    tls = azure.vpn()["server"]["tlsAuthKey"].splitlines()[1:-1]
    assert len(key) > 10
    secrets = [PASSPHRASE, *key, *tls]
    assert [line for line in secrets if line in output] == []
    assert "sig=" not in output
    assert [line for line in secrets if any(line in one for one in lines)] == []
    (home / "profile").unlink()
    files = [path for path in home.rglob("*") if path.is_file()]
    assert any(path.parent.name == "vpn" for path in files)
    for path in files:
        content = path.read_bytes().decode(errors="replace")
        assert [line for line in secrets if line in content] == [], path
    assert list(home.glob("flexnode-progress-*")) == []


def test_what_fails_shows_no_secret_either(azure: PlainAzure, keeper: Person) -> None:
    options: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "directory": str(keeper.directory / "vpn"),
        "poll_interval": 0,
    }
    azure.settings(gateway_failure="InternalServerError")
    answer = keeper.run(
        "flexnode_vpn_gateway", machines=["edge-1"], passphrase=PASSPHRASE, operation_timeout=60, **options
    )
    assert answer["failed"]
    said = json.dumps(answer)
    assert PASSPHRASE not in said
    assert "PRIVATE" not in said
    assert os.environ.get("FLEXNODE_VPN_PASSPHRASE") is None
