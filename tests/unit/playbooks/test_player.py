# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs playbooks for the other tests: nothing of a run is left out, and nothing waits for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.unit.playbooks import player
from tests.unit.playbooks.players import PLAYERS, started
from tests.unit.playbooks.stage import Stage

SHELL = "/bin/sh -c {}"


@pytest.fixture
def commands(tmp_path: Path) -> dict[str, str]:
    """The commands for a module that the installed Ansible gives to its connection, as it writes them."""
    from ansible.plugins.shell.sh import ShellModule

    shell = ShellModule()
    made = f"{tmp_path}/ansible-tmp-1-2-3"
    lines = {
        "mkdir": shell.mkdtemp(basefile="ansible-tmp-1-2-3", tmpdir=str(tmp_path)),
        "chmod": shell.chmod([f"{made}/", f"{made}/module.py"], "u+rwx"),
        "run": f"{sys.executable} {made}/module.py {made}/args",
        "rm": shell.remove(f"{made}/", recurse=True),
    }
    return {name: SHELL.format(shell.quote(f"{line} && sleep 0")) for name, line in lines.items()}


@pytest.mark.parametrize("how", ["short", "shell"])
def test_a_module_is_run_as_by_a_shell(how: str, tmp_path: Path, commands: dict[str, str]) -> None:
    def run(name: str) -> tuple[int, bytes]:
        if how == "short":
            answer = player.short(commands[name])
            assert answer, f"another shell command than was known: {commands[name]}"
            return answer[0], answer[1]
        done = subprocess.run(["/bin/sh", "-c", commands[name]], capture_output=True, check=False)
        return done.returncode, done.stdout

    made = tmp_path / "ansible-tmp-1-2-3"
    assert run("mkdir") == (0, f"{made.name}={made}\n".encode())
    assert made.stat().st_mode & 0o777 == 0o700
    module = made / "module.py"
    module.write_text(f"#!{sys.executable}\n# WANT_JSON\nimport sys\nprint(sys.argv)\nsys.exit(3)\n")
    assert run("chmod") == (0, b"")
    assert os.access(module, os.X_OK)
    assert run("run") == (3, f"{[str(module), f'{made}/args']}\n".encode())
    assert run("rm") == (0, b"")
    assert not made.exists()


def test_other_commands_are_left_to_a_shell(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("#!/usr/bin/python\nprint(1)\n")
    for line in ("echo ~ && sleep 0", f"{sys.executable} {tmp_path}/module.py x && sleep 0", "true"):
        assert player.short(SHELL.format(f"'{line}'")) is None


def test_a_run_that_hangs_is_ended_and_the_next_one_works(stage: Stage) -> None:
    book = stage.directory / "book.yml"
    wait = {"name": "Wait", "ansible.builtin.command": "sleep 300"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": [wait]}
    book.write_text(yaml.safe_dump([play]))
    with pytest.raises(RuntimeError, match=r"a run took longer than 0\.5 s and was ended"):
        PLAYERS.play(stage.directory, "-i", "localhost,", str(book), seconds=0.5, ANSIBLE_NOCOLOR="1")
    status, output = PLAYERS.play(stage.directory, "--version", ANSIBLE_NOCOLOR="1")
    assert (status, output.startswith("ansible-playbook [core ")) == (0, True), output


def test_why_the_process_ended_is_said(stage: Stage) -> None:
    made = started({**os.environ})
    (made.place / "errors").write_text("the reason")
    made.process.kill()
    made.process.wait()
    with pytest.raises(RuntimeError, match="ended with status -9:\nthe reason"):
        made.play(stage.directory, ["--version"], {}, 60)
