# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removing trees: never into a mount, never through a link."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ReadOnlyTarget
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine import removal
from tests.unit.node.fakes import Machine


def names(machine: Machine, path: str) -> list[str]:
    return sorted(os.listdir(machine.path(path)))


def test_removing_what_is_not_there_is_done(machine: Machine) -> None:
    machine.host.remove("/nothing")
    assert machine.host.remove_directory("/nothing")
    assert machine.host.remove_tree("/nothing") == []


def test_a_directory_that_is_not_empty_stays(machine: Machine) -> None:
    machine.put("/directory/inside")
    assert not machine.host.remove_directory("/directory")
    assert machine.path("/directory/inside").exists()


def test_a_tree_goes_without_following_links(machine: Machine) -> None:
    machine.put("/precious/file", "keep me")
    machine.put("/tree/a/b/file")
    machine.path("/tree/a/out").symlink_to(machine.path("/precious"))
    machine.path("/tree/file-out").symlink_to(machine.path("/precious/file"))
    assert machine.host.remove_tree("/tree") == []
    assert not machine.path("/tree").exists()
    assert machine.text("/precious/file") == "keep me"


def test_a_link_in_place_of_a_tree_goes_alone(machine: Machine) -> None:
    machine.put("/precious/file", "keep me")
    machine.path("/tree").symlink_to(machine.path("/precious"))
    assert machine.host.remove_tree("/tree") == []
    assert names(machine, "/") == ["precious"]
    assert machine.text("/precious/file") == "keep me"


def test_a_mount_is_never_entered_and_is_named(machine: Machine) -> None:
    machine.put("/tree/pods/1/volume/data", "keep me")
    machine.put("/tree/pods/1/other")
    machine.put("/tree/Gerät/data", "keep me too")
    machine.put("/tree/gone")
    machine.mount("/", "/tree/pods/1/volume", "/tree/Gerät")
    assert sorted(machine.host.remove_tree("/tree")) == ["/tree/Gerät", "/tree/pods/1/volume"]
    assert machine.text("/tree/pods/1/volume/data") == "keep me"
    assert machine.text("/tree/Gerät/data") == "keep me too"
    assert names(machine, "/tree") == ["Gerät", "pods"]
    assert names(machine, "/tree/pods/1") == ["volume"]


def test_a_mount_is_not_entered_by_another_name(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel says what is mounted: names differ where a directory above is a link, for example."""
    machine.put("/tree/pods/volume/data", "keep me")
    machine.put("/tree/pods/other")
    volume = os.stat(machine.path("/tree/pods/volume")).st_ino
    monkeypatch.setattr(
        removal,
        "mount_of",
        lambda directory: (8, "mnt_id: 2" if os.fstat(directory).st_ino == volume else ""),
    )
    assert machine.host.remove_tree("/tree") == ["/tree/pods/volume"]
    assert machine.text("/tree/pods/volume/data") == "keep me"
    assert names(machine, "/tree/pods") == ["volume"]


def test_what_stays_can_be_shown_in_any_encoding(machine: Machine) -> None:
    name = os.fsdecode(b"donn\xe9es")
    machine.put(f"/tree/{name}/data", "keep me")
    mounted = os.fsencode(f"20 1 8:1 / /tree/{name} rw - ext4 /dev/sda1 rw\n")
    machine.path("/proc/self").mkdir(parents=True, exist_ok=True)
    machine.path("/proc/self/mountinfo").write_bytes(mounted)
    assert machine.host.remove_tree("/tree") == [r"/tree/donn\xe9es"]
    assert machine.path(f"/tree/{name}/data").exists()


def test_a_directory_knows_its_mount() -> None:
    here, proc = os.open(".", os.O_RDONLY), os.open("/proc", os.O_RDONLY)
    try:
        assert removal.mount_of(here)[1].startswith("mnt_id:")
        assert removal.mount_of(here) != removal.mount_of(proc)
    finally:
        os.close(here)
        os.close(proc)


def test_a_directory_that_may_not_be_removed_is_an_error_with_a_code(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def immutable(path: str) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path)

    machine.path("/directory").mkdir()
    monkeypatch.setattr(os, "rmdir", immutable)
    with pytest.raises(ReadOnlyTarget, match="/directory"):
        machine.host.remove_directory("/directory")


def test_a_mounted_file_stays_too(machine: Machine) -> None:
    machine.put("/tree/bound", "keep me")
    machine.mount("/tree/bound")
    assert machine.host.remove_tree("/tree") == ["/tree/bound"]
    assert machine.text("/tree/bound") == "keep me"


def test_a_tree_on_a_disk_of_its_own_is_emptied(machine: Machine) -> None:
    machine.put("/tree/file")
    machine.mount("/tree")
    assert machine.host.remove_tree("/tree") == []
    assert names(machine, "/tree") == []


def test_what_was_there_before_is_kept(machine: Machine) -> None:
    machine.put("/tree/theirs/file", "keep me")
    machine.put("/tree/ours/theirs")
    assert machine.host.remove_tree("/tree", keep=frozenset(("/tree/theirs",))) == []
    assert names(machine, "/tree") == ["theirs"]
    assert machine.text("/tree/theirs/file") == "keep me"


@pytest.mark.parametrize("few", [True, False], ids=["few files open", "many"])
def test_a_tree_of_any_depth_is_removed(machine: Machine, few: bool) -> None:
    machine.put("/tree/first")
    put_deep(machine.path("/tree"), levels=3000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = len(os.listdir("/proc/self/fd")) + 8 if few else before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        assert machine.host.remove_tree("/tree") == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert names(machine, "/") == []


def test_what_is_kept_deep_in_a_tree_stays_and_all_around_it_goes(machine: Machine) -> None:
    deep = "/tree" + "/d" * 100
    machine.put(f"{deep}/theirs/file", "keep me")
    machine.put(f"{deep}/mounted/file", "keep me too")
    machine.put(f"{deep}/ours")
    machine.put("/tree/d/ours/deep")
    machine.mount(f"{deep}/mounted")
    assert machine.host.remove_tree("/tree", keep=frozenset((f"{deep}/theirs",))) == [f"{deep}/mounted"]
    assert names(machine, deep) == ["mounted", "theirs"]
    assert names(machine, "/tree/d") == ["d"]
    assert machine.text(f"{deep}/theirs/file") == "keep me"


def test_an_immutable_file_stays_is_named_and_the_rest_goes(machine: Machine) -> None:
    def refuse(path: str, *, dir_fd: int | None = None) -> None:
        if path == "immutable":
            raise PermissionError(errno.EPERM, "Operation not permitted")
        real(path, dir_fd=dir_fd)

    machine.put("/tree/a/immutable")
    machine.put("/tree/a/file")
    machine.put("/tree/b/file")
    real = os.unlink
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert machine.host.remove_tree("/tree") == ["/tree/a/immutable"]
    assert names(machine, "/tree") == ["a"]
    assert names(machine, "/tree/a") == ["immutable"]


def put_deep(directory: Path, levels: int) -> None:
    """Directories in directories, deeper than a path can be long, with a file in the last one."""
    current = os.open(directory, os.O_RDONLY)
    for _level in range(levels):
        os.mkdir("nested", dir_fd=current)
        child = os.open("nested", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = child
    os.close(os.open("file", os.O_CREAT, dir_fd=current))
    os.close(current)
