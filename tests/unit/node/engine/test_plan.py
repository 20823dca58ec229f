# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Plans: what differs, in which order."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.plan import (
    make_plan,
    with_parents,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import version_dir
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.base import Resource, key_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.kernel.modules import KernelModule
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import Directory, File
from tests.unit.node.engine.an_app import (
    APP,
    UNIT_FILE,
    an_app,
    run,
)
from tests.unit.node.fakes import Machine


@pytest.fixture
def host(machine: Machine) -> Host:
    machine.path("/etc/systemd/system").mkdir(parents=True)
    return machine.host


def test_what_is_so_makes_an_empty_plan_and_looking_changes_nothing(machine: Machine, host: Host) -> None:
    machine.put("/etc/app/config", "one")
    before = machine.snapshot("/")
    plan = make_plan([File("/etc/app/config", "one")], host, machine.store)
    assert (plan.changed, plan.sentences, plan.diff, plan.trees) == (False, [], [], [])
    assert machine.snapshot("/") == before
    assert machine.commands.changing() == []


def test_a_second_run_has_nothing_to_do_and_restarts_nothing(machine: Machine, host: Host) -> None:
    run(machine, an_app())
    calls = machine.commands.changing()
    state = machine.snapshot("/")
    plan, told = run(machine, an_app())
    assert (plan.changed, told) == (False, [])
    assert machine.commands.changing() == calls
    assert machine.snapshot("/") == state


def test_a_plan_reads_in_the_order_it_is_done(machine: Machine, host: Host) -> None:
    plan = make_plan(an_app(), host, machine.store)
    assert plan.sentences == [
        "create directory /opt",
        "create directory /opt/aks-flex-node",
        "create directory /opt/aks-flex-node/versions",
        "create directory /opt/aks-flex-node/versions/tool",
        "install tool 1.0.0",
        "create directory /usr",
        "create directory /usr/bin",
        "link /usr/bin/tool to /opt/aks-flex-node/versions/tool/1.0.0-tttttttttttt/tool",
        "create directory /etc/app",
        "create /etc/app/config",
        "create /etc/app/second",
        f"create {UNIT_FILE}",
        f"start {APP}",
    ]
    assert [tree.name for tree in plan.trees] == [version_dir("tool", "1.0.0", "t" * 64)]
    assert plan.diff[9] == {
        "before_header": "file:/etc/app/config",
        "after_header": "file:/etc/app/config",
        "before": "",
        "after": "mode 0644, owner 0:0\none",
    }


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
RESOURCES = st.lists(
    PATHS.map(Directory) | PATHS.map(lambda path: File(path + "/file", "x")) | st.just(KernelModule("m")),
    unique_by=key_of,
)


@given(RESOURCES)
def test_every_parent_comes_before_its_first_child_and_nothing_twice(resources: list[Resource]) -> None:
    listed = with_parents(resources)
    names = [resource.name for resource in listed]
    assert len({key_of(resource) for resource in listed}) == len(listed)
    assert [resource for resource in listed if not isinstance(resource, Directory)] == [
        resource for resource in resources if not isinstance(resource, Directory)
    ]
    assert set(resources) <= set(listed)  # those given are kept, with their modes
    for place, name in enumerate(names):
        parent = posixpath.dirname(name)
        assert not name.startswith("/") or parent == "/" or parent in names[:place]
