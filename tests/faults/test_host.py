# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Each effect, killed between any two of its system calls: it leaves the old or the new, and can be repeated.

All operations are made of these. So the gate kills them between their effects, and here within each.
"""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.journal import Journal
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import TEMPORARY, Host
from tests.faults.dying import LOOKING, Watch, changing
from tests.unit.node.fakes import Machine

Seen = dict[str, tuple[Any, ...]]
ALWAYS, UNFINISHED, NOT_BEGUN = "always", "unless it is complete", "as long as nothing is changed"
LONG = b"new" * 100_000  # more than a buffer holds


@dataclass(frozen=True)
class Act:
    """A call of one of Host's methods. `steps`: it changes several things, or one in several calls."""

    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)
    steps: bool = False
    again: str = ALWAYS  # when it can be repeated
    other_disk: bool = False  # what it moves is on another file system

    def on(self, root: Path) -> object:
        """Do it."""
        return getattr(Host(str(root)), self.method)(*self.arguments, **self.options)


ACTS = {
    "write, new": Act("write", ("/d/new", LONG, 0o644), {"uid": 1, "gid": 2}),
    "write, over a file": Act("write", ("/d/file", LONG, 0o600), {"mtime_ns": 1_557_126_489_123_456_789}),
    "write, over a link": Act("write", ("/d/link", b"new", 0o600)),
    "write, not durable": Act("write", ("/d/file", b"new", 0o600), {"durable": False}),
    "append, new": Act("append", ("/d/new", b"line\n"), again=UNFINISHED),
    "append": Act("append", ("/d/file", b"line\n"), again=UNFINISHED),
    "set_value": Act("set_value", ("/d/file", "1")),
    "link, new": Act("link", ("/d/new", "target")),
    "link, over a file": Act("link", ("/d/file", "target")),
    "link, over a link": Act("link", ("/d/link", "target")),
    "make_directory": Act("make_directory", ("/d/new", 0o2750), {"uid": 1, "gid": 2}, steps=True),
    "make_directory, there": Act("make_directory", ("/d/tree", 0o700), {"uid": 1, "gid": 2}, steps=True),
    "make_directories": Act("make_directories", ("/d/new/er/est", 0o700), steps=True),
    "set_access": Act("set_access", ("/d/file", 0o604, 3, 4), steps=True),
    "move, new": Act("move", ("/d/file", "/d/new"), again=UNFINISHED),
    "move, over a file": Act("move", ("/d/file", "/d/tree/one"), again=UNFINISHED),
    "move, a directory": Act("move", ("/d/tree", "/d/new"), again=UNFINISHED),
    "move, from another disk": Act(
        "move", ("/d/file", "/d/tree/one"), steps=True, again=UNFINISHED, other_disk=True
    ),
    "move, a directory from another disk": Act(
        "move", ("/d/tree", "/d/new"), steps=True, again=NOT_BEGUN, other_disk=True
    ),
    "remove": Act("remove", ("/d/file",)),
    "remove, a link": Act("remove", ("/d/link",)),
    "remove_directory": Act("remove_directory", ("/d/empty",)),
    "remove_directory, not empty": Act("remove_directory", ("/d/tree",)),
    "remove_tree": Act("remove_tree", ("/d/tree",), steps=True),
    "remove_tree, all but": Act("remove_tree", ("/d/tree", frozenset({"/d/tree/sub/two"})), steps=True),
    "sync_directory": Act("sync_directory", ("/d/tree",)),
    "sync_tree": Act("sync_tree", ("/d/tree",)),
}


def test_every_method_of_the_host_either_looks_or_changes() -> None:
    effects = {act.method for act in ACTS.values()}
    assert changing() == effects, "is it an effect? add it here; does it only look? add it to dying.LOOKING"
    assert not LOOKING & effects


def furnished(root: Path) -> Path:
    """A directory with a bit of everything."""
    for name, content in {"file": b"old", "tree/one": b"1", "tree/sub/two": b"2", "tree/sub/3": b"3"}.items():
        place = root / "d" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(0o640)
        os.utime(place, ns=(1, 1))
    (root / "d/link").symlink_to("somewhere")
    (root / "d/tree/link").symlink_to("one")
    (root / "d/empty").mkdir()
    return root


def seen(root: Path) -> Seen:
    """What stands below a root; half-written files of a killed process have a name that nobody reads."""
    found: Seen = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if any(TEMPORARY.fullmatch(part) for part in name.split("/")):
            continue
        state = path.lstat()
        access = (state.st_mode, state.st_uid, state.st_gid)
        if path.is_symlink():
            found[name] = (os.readlink(path), *access)
        elif path.is_dir():
            found[name] = ("a directory", *access)
        else:
            found[name] = (path.read_bytes(), *access)
    return found


def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is beside each other is on one disk."""
    replace = os.replace

    def on_one_disk(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target) or source.endswith("/tree"):
            raise OSError(errno.EXDEV, "another disk")
        replace(source, target)

    monkeypatch.setattr(os, "replace", on_one_disk)


@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_killed_within_an_effect_and_repeated(
    act: Act, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if act.other_disk:
        split(monkeypatch)
    root = furnished(tmp_path / "machine")
    old, left = seen(root), []

    def happens(number: int, where: str) -> None:
        copy = tmp_path / f"killed-{number}"
        subprocess.run(["cp", "-a", str(root), str(copy)], check=True)
        left.append((where, copy))

    watch = Watch(happens)
    with watch.system_calls():
        act.on(root)
    new = seen(root)
    assert watch.moments or act.method == "set_value", "it is not seen what it does"
    assert not list(root.rglob(".*")), "it leaves nothing half-written"
    for where, copy in left:
        found = seen(copy)
        if act.steps:
            contents = {name: {was[name][0] for was in (old, new) if name in was} for name in old | new}
            assert found.keys() <= contents.keys(), where
            assert [name for name, (content, *_) in found.items() if content not in contents[name]] == [], (
                where
            )
            assert old.keys() & new.keys() <= found.keys(), where
        else:
            assert found in (old, new), where
        if act.again == ALWAYS or found == old or (act.again == UNFINISHED and found != new):
            act.on(copy)
            assert seen(copy) == new, where


def test_of_a_line_that_was_cut_off_anywhere_nothing_is_read(tmp_path: Path) -> None:
    """The one change that can be half done: the journal's last lines, at every byte of them."""
    machine, place = Machine.at(tmp_path), "/var/lib/aks-flex-node"
    line = (
        '{{"key": "file:/etc/{0}", "mark": "new", "of": [], "origin": {{"is": "absent"}}, "was": "absent"}}\n'
    )
    before, appended = line.format("one"), line.format("two") + line.format("three")
    for cut in range(len(appended) + 1):
        path = machine.put(f"{place}/journal", before + appended[:cut], 0o600)
        journal = Journal(machine.host, place)
        whole = ["file:/etc/one", "file:/etc/two", "file:/etc/three"][: 1 + appended[:cut].count("\n")]
        assert [entry.key for entry in journal.entries()] == whole, cut
        journal.release(["file:/etc/one"])
        assert [entry.key for entry in journal.entries()] == whole[1:], cut
        assert all(text.startswith("{") and text.endswith("}") for text in path.read_text().splitlines()), cut
