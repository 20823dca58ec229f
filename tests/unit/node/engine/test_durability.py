# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A power cut at any moment: what a link points to is on the disk before the link is."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.fetch import Fetcher
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.journal import Journal
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import AGENT_DIR, PROGRAM_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.http_client import HttpClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import Program
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree, place_of
from tests.unit.node.engine.an_app import run
from tests.unit.node.fakes import Machine
from tests.unit.node.servers import Answer, serving


@dataclass
class Disk:
    """What would survive a power cut: files, by inode, in the state in which they were last synced."""

    machine: Machine
    synced: dict[int, tuple[int, ...]] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    @staticmethod
    def state(seen: os.stat_result) -> tuple[int, ...]:
        """What a sync writes: content (by its time), mode, owner."""
        return (seen.st_mtime_ns, seen.st_mode, seen.st_uid, seen.st_gid)

    def is_synced(self, path: str) -> bool:
        seen = os.lstat(path)
        return self.synced.get(seen.st_ino) == self.state(seen)

    def sync(self, descriptor: int) -> None:
        seen = os.fstat(descriptor)
        self.synced[seen.st_ino] = self.state(seen)

    def link(self, target: str) -> None:
        """Check everything in the version that a link points to, and the directory that it is in."""
        if not target.startswith(PROGRAM_DIR):
            return
        self.links.append(target)
        version = str(self.machine.path(os.path.dirname(target)))
        checked = [os.path.dirname(version)]
        for directory, _names, files in os.walk(version):
            checked += [directory, *(f"{directory}/{name}" for name in files)]
        self.lost += [f"{target}: {path}" for path in checked if not self.is_synced(path)]


@contextmanager
def watched(machine: Machine, patch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """See every fsync and every link, as strace would."""
    disk = Disk(machine)

    def before(name: str, see: Callable[..., None]) -> None:
        call = getattr(os, name)

        def seen(*arguments: Any, **options: Any) -> Any:
            see(*arguments)
            return call(*arguments, **options)

        patch.setattr(os, name, seen)

    with patch.context() as patch:
        before("fsync", disk.sync)
        before("symlink", lambda target, _place: disk.link(target))
        yield disk


def an_archive() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name in ("one", "two"):
            info = tarfile.TarInfo(f"bin/{name}")
            info.size = 3
            tar.addfile(info, io.BytesIO(name.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)


ARCHIVE, BINARY = an_archive(), b"binary"
FILES = {"run": b"#!/bin/true\n", "lib/a.py": b"a", "lib/sub/b.py": b"b"}


def versions(url: str) -> list[Resource]:
    """A tree from an archive, one from a binary, a program; and a link to each."""
    pack = Artifact("pack", "1.0.0", "amd64", f"{url}/pack", hashlib.sha256(ARCHIVE).hexdigest(), "tar.gz")
    tool = Artifact("tool", "1.0.0", "amd64", f"{url}/tool", hashlib.sha256(BINARY).hexdigest(), "binary")
    program = Program(AGENT_DIR, FILES, "run")
    return [
        Directory("/opt", 0o755),
        Tree(place_of(pack), pack, (("bin/one", "one"), ("bin/two", "two"))),
        Tree(place_of(tool), tool, (("", "tool"),)),
        program,
        Link("/usr/bin/one", f"{place_of(pack)}/one"),
        Link("/usr/bin/two", f"{place_of(pack)}/two"),
        Link("/usr/bin/tool", f"{place_of(tool)}/tool"),
        Link("/usr/bin/run", f"{program.path}/run"),
    ]


def test_every_version_is_on_the_disk_before_a_link_points_to_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.path("/usr/bin").mkdir(parents=True)
    with serving(lambda request: Answer(ARCHIVE if request.path == "/pack" else BINARY)) as server:
        resources = versions(server.url)
        stager = Fetcher(machine.host, HttpClient(clock=machine.clock), machine.store.cache)
        with watched(machine, monkeypatch) as disk:
            run(machine, resources, stager=stager)
        assert len(disk.links) == 4
        assert disk.lost == []
        # The same for a repair, with the links there already.
        for link in ("/usr/bin/one", "/usr/bin/tool", "/usr/bin/run"):
            machine.put(os.readlink(machine.path(link)), "damaged", 0o755)
            machine.path(link).unlink()
        with watched(machine, monkeypatch) as repaired:
            repaired.synced.update(disk.synced)
            run(machine, resources, stager=stager)
        assert len(repaired.links) == 3
        assert repaired.lost == []


def test_a_durable_write_is_on_the_disk_with_its_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.path("/etc/app").mkdir(parents=True)
    with watched(machine, monkeypatch) as disk:
        machine.host.write("/etc/app/config", b"x", 0o640, uid=1, gid=2)
        assert disk.is_synced(str(machine.path("/etc/app/config")))
        assert disk.is_synced(str(machine.path("/etc/app")))
        machine.host.append("/etc/app/journal", b"x")
        assert disk.is_synced(str(machine.path("/etc/app/journal")))
        assert disk.is_synced(str(machine.path("/etc/app")))


def test_a_line_that_is_appended_is_on_the_disk(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal's: what it says of an original must outlive the change of it."""
    machine.host.append("/journal", b"first\n")
    journal = str(machine.path("/journal"))
    os.utime(journal, ns=(1, 1))  # two changes within one tick of the clock have one time
    with watched(machine, monkeypatch) as disk:
        machine.host.append("/journal", b"second\n")
        assert disk.is_synced(journal)
        os.utime(journal, ns=(1, 1))
        machine.host.append("/journal", b"third\n", durable=False)
        assert not disk.is_synced(journal)


def test_an_original_is_on_the_disk_before_it_is_replaced(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the journal says of it, and its content: a power cut after the change must not take them."""
    journal = Journal(machine.host, "/var/lib/app")
    machine.put("/etc/a", "theirs")
    machine.put("/etc/b", "theirs too")
    with watched(machine, monkeypatch) as disk:
        for number, name in enumerate("ab", 1):
            journal.record([File(f"/etc/{name}", "ours")])
            places = [path for path in machine.path("/var/lib/app").rglob("*") if path.is_file()]
            assert len(places) == 1 + number, "the lines, and a content for each"
            assert [str(path) for path in places if not disk.is_synced(str(path))] == []
            os.utime(machine.path("/var/lib/app/journal"), ns=(1, 1))


def test_a_write_that_need_not_last_is_not_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(machine, monkeypatch) as disk:
        machine.host.write("/token", b"x", 0o600, durable=False)
    assert disk.synced == {}
