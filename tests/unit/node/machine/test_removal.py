# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Removing trees: never into a mount, never through a link."""

from __future__ import annotations

import os

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
