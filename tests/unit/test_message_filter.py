# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The filter `message`, printed by Ansible itself: a line of a table stays one line, whatever its length."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONG = "edge-2  Ready  " + "the last configuration was refused " * 5 + "end"


def printed(lines: list[str], form: str, directory: Path) -> str:
    """What a person sees, with results in YAML or JSON."""
    done = subprocess.run(
        [
            str(Path(sys.executable).parent / "ansible"),
            *(
                "localhost",
                "--inventory=localhost,",
                "--connection=local",
                "--module-name=ansible.builtin.debug",
            ),
            f"--args=msg={{{{ {lines!r} | aks.flexnode.message }}}}",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(directory),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
            "ANSIBLE_CALLBACK_RESULT_FORMAT": form,
            "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
            "ANSIBLE_STDOUT_CALLBACK": "default",
        },
    )
    return done.stdout


@pytest.mark.parametrize("lines", [["HOST    STATUS", LONG], [LONG]])
def test_yaml_shows_lines(lines: list[str], tmp_path: Path) -> None:
    shown = [line.strip() for line in printed(lines, "yaml", tmp_path).splitlines()]
    assert shown[-len(lines) :] == [line.strip() for line in lines]


def test_json_shows_items(tmp_path: Path) -> None:
    shown = [
        line.strip().rstrip(",") for line in printed(["HOST    STATUS", LONG], "json", tmp_path).splitlines()
    ]
    assert f'"{LONG}"' in shown
    assert f'"msg": "{LONG}"' in printed([LONG], "json", tmp_path)
