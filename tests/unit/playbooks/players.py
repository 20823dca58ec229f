# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes that run playbooks for the tests of this one (`player.py`): one for each set of settings."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
# The default, 0.001 s, keeps a core busy with looking; there is no variable for it.
SETTINGS = "[defaults]\ninternal_poll_interval = 0.01\n"
LONGEST = 600  # seconds; a run takes one or two where the machine is not busy


@dataclass
class Player:
    """One process that has Ansible loaded. Nobody else uses it, so it needs no turns."""

    place: Path
    process: subprocess.Popen[str]

    def play(
        self, directory: Path, arguments: list[str], environment: dict[str, str], seconds: float
    ) -> tuple[int, str]:
        """The exit status of a run, and what it said."""
        said = [self.place / name for name in ("stdout", "stderr")]
        run = {
            "directory": str(directory),
            "arguments": arguments,
            "environment": environment,
            "stdout": str(said[0]),
            "stderr": str(said[1]),
            "seconds": seconds,
        }
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(run) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise self.ended() from None
        answer = self.answer()
        output = "".join(path.read_text() for path in said)
        if "error" in answer:
            raise RuntimeError(f"{answer['error']}:\n{output}")
        return int(answer["status"]), output

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise self.ended()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ended(self) -> RuntimeError:
        status = self.process.wait()
        why = (self.place / "errors").read_text()
        shutil.rmtree(self.place, ignore_errors=True)
        return RuntimeError(f"the process that runs playbooks ended with status {status}:\n{why}")

    def close(self) -> None:
        """It ends with its input, and takes its directory with it."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone
            self.process.stdin.close()
        self.process.wait()


@dataclass
class Players:
    """Started when they are needed first; ended with this process."""

    running: dict[tuple[tuple[str, str], ...], Player] = field(default_factory=dict)

    def play(
        self, directory: Path, *arguments: str, seconds: float = LONGEST, **environment: str
    ) -> tuple[int, str]:
        """Run ansible-playbook in a directory that has its collections."""
        named = {**os.environ, **environment}
        settings = tuple(sorted(item for item in named.items() if item[0].startswith("ANSIBLE_")))
        player = self.running.get(settings)
        if player is None or player.process.poll() is not None:
            player = self.running[settings] = started(named)
        named |= settings_of(player.place)
        return player.play(directory, list(arguments), named, seconds)


def settings_of(place: Path) -> dict[str, str]:
    """Where a run finds what the process has read already."""
    return {
        "ANSIBLE_COLLECTIONS_PATH": str(place / "current"),
        "ANSIBLE_CONFIG": str(place / "ansible.cfg"),
        "ANSIBLE_LOCAL_TEMP": str(place / "tmp"),
    }


def started(environment: dict[str, str]) -> Player:
    place = Path(tempfile.mkdtemp(prefix="player-"))
    collection = place / "any/ansible_collections/aks/flexnode"  # what it imports before its first run
    collection.parent.mkdir(parents=True)
    collection.symlink_to(ROOT)
    (place / "current").symlink_to(place / "any")
    (place / "ansible.cfg").write_text(SETTINGS)
    with (place / "errors").open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("player.py")), str(place)],
            cwd=place,
            env={**environment, **settings_of(place)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    player = Player(place, process)
    player.answer()
    atexit.register(player.close)
    return player


PLAYERS = Players()
