# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Every file system that was changed is found, once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.journal import Entry
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.places import (
    changed_paths,
    one_of_each,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import store_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import Completed
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from tests.unit.node.fakes import Machine


class ManyDisks(Host):
    """A host with a file system mounted at each of these places, and one at /. It notes which are synced."""

    mounted: tuple[str, ...] = ()
    links: Mapping[str, str] = {}
    synced: list[set[int]]

    def free_space(self, path: str) -> tuple[int, int]:
        assert os.path.isdir(self.path(path)), path
        real = f"{path}/"
        for link, target in self.links.items():
            real = real.replace(f"{link}/", f"{target}/", 1)
        return max((n for n, at in enumerate(self.mounted, 1) if real.startswith(f"{at}/")), default=0), 0

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        if argv[0] == "sync":
            assert argv[1:3] == ["--file-system", "--"]
            self.synced.append({self.free_space(place)[0] for place in argv[3:]})
        return super().run(argv, **options)


def many_disks(machine: Machine, *mounted: str) -> ManyDisks:
    host = ManyDisks(str(machine.root), machine.commands, machine.clock)
    host.mounted, host.synced = mounted, []
    return host


PATHS = ("/etc/a/file", "/usr/local/bin/tool", "/data/cni/bin", "/var/lib/containerd", "/srv/x/flex")
DISKS = {
    "one for all": ((), {"/"}),
    "of their own": (
        ("/usr/local", "/data", "/var/lib/containerd", "/srv"),
        {"/", "/usr/local/bin", "/data", "/var/lib/containerd", "/srv"},
    ),
}


@pytest.mark.parametrize(("mounted", "places"), DISKS.values(), ids=DISKS)
def test_each_file_system_is_named_once_by_a_directory_that_exists(
    machine: Machine, mounted: tuple[str, ...], places: set[str]
) -> None:
    for directory in ("/usr/local/bin", "/data", "/var/lib/containerd", "/srv"):
        machine.path(directory).mkdir(parents=True)
    assert set(one_of_each(many_disks(machine, *mounted), PATHS)) == places


def test_a_link_to_a_directory_counts_with_both_of_its_ends(machine: Machine) -> None:
    for directory in ("/var/lib", "/big/kubelet"):
        machine.path(directory).mkdir(parents=True)
    machine.path("/var/lib/kubelet").symlink_to(machine.path("/big/kubelet"))
    host = many_disks(machine, "/var", "/big")
    host.links = {"/var/lib/kubelet": "/big/kubelet"}
    assert one_of_each(host, ["/var/lib/kubelet"]) == ["/var/lib", "/var/lib/kubelet"]


def test_only_what_is_named_by_a_path_is_a_place_and_the_store_is_one(machine: Machine) -> None:
    names = {"file": "/srv/a", "unit": "kubelet.service", "sysctl": "net/ipv4/ip_forward", "swap": "active"}
    entries = [Entry(kind, name, {}, "") for kind, name in names.items()]
    paths = changed_paths(entries, store_of(machine.host, "/data/flex"))
    assert {"/srv/a", "/data/flex", "/etc/aks-flex-node"} <= set(paths)
    assert all(path.startswith("/") for path in paths)
