# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a power cut would take: SIGKILL keeps what is written, a power cut only what was synced.

Whole operations are watched: what undoes a change is on the disk before the change, what a link leads to
before the link, and every change before the record of it is removed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from tests.faults.crashes import LEAVE, Command
from tests.faults.dying import Watch
from tests.faults.lab import Lab, World

DATA = "var/lib/aks-flex-node"
JOURNAL, RECORD = f"{DATA}/journal", f"{DATA}/transaction.json"
# Where nothing is to outlive a boot, where a loss costs nothing, and what a kubelet writes.
LOSES_NOTHING = (
    "proc",
    "run",
    "sys",
    "var/log/aks-flex-node",
    "var/lib/prometheus",
    "var/lib/kubelet/pki",
    "var/lib/kubelet/kubeconfig",
)
CHANGES = ("write", "link", "move", "remove", "remove_tree", "set_value")
OF_RUN = (DATA, "run", "opt/aks-flex-node", "var/log/aks-flex-node")  # changed without being undone


@dataclass
class Disk:
    """What is on the disk: contents of files by inode, and what stands in directories."""

    root: Path
    contents: dict[int, tuple[int, int]] = field(default_factory=dict)  # size and time
    entries: dict[int, frozenset[tuple[str, int]]] = field(default_factory=dict)

    def everything(self) -> None:
        """All of it is, as after a boot or a sync of the file system."""
        for directory, _names, names in os.walk(self.root):
            self.of(os.lstat(directory), directory)
            for name in names:
                self.of(os.lstat(f"{directory}/{name}"), "")

    def of(self, state: os.stat_result, directory: str | int) -> None:
        """One file or directory is."""
        if stat.S_ISDIR(state.st_mode):
            self.entries[state.st_ino] = standing(directory)
        else:
            self.contents[state.st_ino] = (state.st_size, state.st_mtime_ns)

    def sync(self, descriptor: int) -> None:
        """fsync. New directories above are on the disk with it: ext4, xfs and btrfs see to that."""
        state = os.fstat(descriptor)
        self.of(state, descriptor)
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        for below, above in pairwise(
            [place, *place.parents] if stat.S_ISDIR(state.st_mode) else place.parents
        ):
            if self.root in above.parents or above == self.root:
                inode = above.stat().st_ino
                self.entries[inode] = self.entries.get(inode, frozenset()) | {
                    (below.name, below.stat().st_ino)
                }

    def lost(self, below: str = "") -> list[str]:
        """What a power cut would take of a file or a tree, or of the names above it."""
        place = self.root / below
        if not os.path.lexists(place):
            return []
        above = [self.root / part for part in list(Path(below).parents)[::-1]] if below else []
        wanted = {place, *place.rglob("*")} if place.is_dir() and not place.is_symlink() else {place}
        lost = []
        for path in sorted({*wanted, *above} - {self.root}):
            name = str(path.relative_to(self.root))
            if name.startswith(LOSES_NOTHING):
                continue
            state = path.lstat()
            if (path.name, state.st_ino) not in self.entries.get(path.parent.stat().st_ino, ()):
                lost.append(f"the name {name}")
            kept = self.contents.get(state.st_ino)
            if path.is_file() and not path.is_symlink() and kept != (state.st_size, state.st_mtime_ns):
                lost.append(f"the content of {name}")
        return lost

    def came_back(self) -> list[str]:
        """What was removed, and would stand there again."""
        found = []
        for directory, _names, _files in os.walk(self.root):
            here = os.path.relpath(directory, self.root)
            gone = self.entries.get(os.stat(directory).st_ino, frozenset()) - standing(directory)
            found += [f"{here}/{name}" for name, _inode in sorted(gone)]
        return [name for name in found if not name.startswith((*LOSES_NOTHING, *OF_RUN))]


def standing(directory: str | int) -> frozenset[tuple[str, int]]:
    """The names in a directory, each with what it stands for."""
    with os.scandir(directory) as entries:
        return frozenset((entry.name, entry.inode()) for entry in entries)


@contextmanager
def a_disk(world: World, patch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """The disk of a machine: what is there now is on it."""
    disk = Disk(world.machine.root)
    disk.everything()

    def sync(*_arguments: str) -> str:
        disk.everything()
        return ""

    vars(world.machine.commands)["_sync"] = sync
    with patch.context() as patch:
        patch.setattr(os, "fsync", disk.sync)
        yield disk


def carried_out(
    world: World,
    command: Command,
    patch: pytest.MonkeyPatch,
    sees: Callable[[Disk, str], None],
    ends: int = 0,
) -> None:
    """Run a command; `sees` is told of the moments before and after each effect."""
    with a_disk(world, patch) as disk:

        def happens(_number: int, where: str) -> None:
            sees(disk, where)

        world.watched(Watch(happens), *command, ends=ends, system_calls=False)


@dataclass
class Rules:
    """What must be on the disk when, and how often there was something to see."""

    broken: list[str] = field(default_factory=list)
    changes: int = 0
    links: int = 0
    ends: int = 0

    def see(self, disk: Disk, where: str) -> None:
        """A moment before or after an effect."""
        when, verb, *_path = where.split(" ")
        place = where.partition("/")[2]
        if when == "before" and verb in CHANGES and not place.startswith(OF_RUN):
            self.changes += 1
            there = (disk.root / JOURNAL).exists() or self.ends  # unbootstrap removes it as the last
            self._demand(where, [] if there else ["there is no journal"])
            self._demand(where, disk.lost(JOURNAL) + disk.lost(f"{DATA}/origins"))
        if (when, verb) == ("after", "link"):
            target = os.readlink(disk.root / place)
            if target.startswith("/opt/aks-flex-node/"):
                self.links += 1
                self._demand(where, disk.lost(os.path.dirname(target).lstrip("/")))
        if (
            when == "before"
            and verb == "remove"
            and place in (RECORD, JOURNAL)
            and (disk.root / place).exists()
        ):
            self.ends += 1
            self._demand(where, disk.lost() + disk.came_back())

    def _demand(self, where: str, lost: list[str]) -> None:
        self.broken += [f"{where}: {item}" for item in lost]


@pytest.fixture
def joined(lab: Lab) -> World:
    """A node on a machine with a past."""
    world = lab.lived_in()
    assert world.command(*lab.join)[0] == 0
    return world


@pytest.mark.parametrize("operation", ["join", "update", "rollback", "unbootstrap"])
def test_what_a_power_cut_would_take_is_not_needed(
    lab: Lab, joined: World, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, command, ends = {
        "join": (lab.lived_in(), lab.join, 0),
        "update": (joined, lab.update, 0),
        "rollback": (joined, lab.broken, 1),
        "unbootstrap": (joined, LEAVE, 0),
    }[operation]
    rules = Rules()
    carried_out(world, command, monkeypatch, rules.see, ends)
    assert rules.broken == []
    assert rules.changes > 10
    assert rules.ends
    assert rules.links or operation != "join"
