# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Old versions go; the current one, the previous one and what is not ours stay."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.catalogue.artifacts import Artifact
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.prune import (
    clear_staging,
    prune,
    versions_behind,
    versions_in,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import AGENT_DIR, VERSIONS_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.paths import File, Link
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.program import Program
from ansible_collections.aks.flexnode.plugins.module_utils.node.resources.tree import Tree, place_of
from tests.unit.node.fakes import Machine

LINK = "/usr/local/bin/tool"


def a_tree(build: str) -> Tree:
    artifact = Artifact("tool", "1.0.0", "amd64", "https://x.example/tool", build * 64, "binary")
    return Tree(place_of(artifact), artifact, (("", "tool"),))


def a_program(content: str) -> Program:
    return Program(AGENT_DIR, {"run": content.encode()}, "run")


OLD, PREVIOUS, CURRENT = (a_tree(build) for build in "abc")


def install(machine: Machine, *resources: Tree | Program) -> None:
    machine.path("/usr/local/bin").mkdir(parents=True, exist_ok=True)
    machine.store.journal.record(resources)
    for resource in resources:
        machine.put(f"{resource.path}/tool")


def journaled(machine: Machine) -> set[str]:
    return {entry.name for entry in machine.store.journal.entries()}


def test_only_the_current_and_the_previous_generation_stay(machine: Machine) -> None:
    programs = [a_program(content) for content in ("old", "previous", "current")]
    install(machine, OLD, PREVIOUS, CURRENT, *programs)
    keep = {PREVIOUS.path, CURRENT.path, programs[1].path, programs[2].path}
    assert prune(machine.host, machine.store, keep) == [OLD.path, programs[0].path]
    found = {f"{VERSIONS_DIR}/tool/{name}" for name in machine.host.names(f"{VERSIONS_DIR}/tool")}
    found |= {f"{AGENT_DIR}/{name}" for name in machine.host.names(AGENT_DIR)}
    assert found == keep == journaled(machine)
    assert prune(machine.host, machine.store, keep) == []


def test_what_is_not_of_this_collection_stays(machine: Machine) -> None:
    install(machine, OLD)
    machine.put(f"{VERSIONS_DIR}/tool/mine/tool", "of an administrator")
    machine.put("/opt/aks-flex-node/venv/bin/ansible-pull", "of another feature")
    machine.put("/elsewhere/tool", "behind a link")
    machine.path(f"{VERSIONS_DIR}/linked").symlink_to(machine.path("/elsewhere"))
    machine.path(f"{VERSIONS_DIR}/tool/2.0.0-linked.staging").symlink_to(machine.path("/elsewhere"))
    before = machine.snapshot("/elsewhere", "/opt/aks-flex-node/venv", f"{VERSIONS_DIR}/tool/mine")
    assert prune(machine.host, machine.store, ()) == [OLD.path]
    assert machine.snapshot("/elsewhere", "/opt/aks-flex-node/venv", f"{VERSIONS_DIR}/tool/mine") == before
    assert machine.path(f"{VERSIONS_DIR}/linked").is_symlink()
    assert machine.path(f"{VERSIONS_DIR}/tool/2.0.0-linked.staging").is_symlink()


def test_a_version_that_was_replaced_by_a_link_is_not_followed(machine: Machine) -> None:
    install(machine, OLD)
    machine.host.remove_tree(OLD.path)
    machine.put("/elsewhere/tool", "behind a link")
    machine.path(OLD.path).symlink_to(machine.path("/elsewhere"))
    assert prune(machine.host, machine.store, ()) == []
    assert machine.text("/elsewhere/tool") == "behind a link"


def test_a_version_that_a_link_points_to_always_stays(machine: Machine) -> None:
    install(machine, OLD, CURRENT)
    link = Link(LINK, f"{CURRENT.path}/tool")
    machine.store.journal.record([link])
    link.apply(machine.host)
    assert prune(machine.host, machine.store, ()) == [OLD.path]
    assert machine.host.exists(f"{CURRENT.path}/tool")


def test_a_run_that_was_killed_while_pruning_is_finished_by_the_next(machine: Machine) -> None:
    install(machine, OLD, CURRENT)
    machine.host.remove_tree(OLD.path)  # removed, but still in the journal
    prune(machine.host, machine.store, [CURRENT.path])
    assert journaled(machine) == {CURRENT.path}


def test_a_version_with_a_mount_in_it_stays_in_the_journal(machine: Machine) -> None:
    install(machine, OLD)
    machine.put(f"{OLD.path}/data/file")
    machine.mount(f"{OLD.path}/data")
    assert prune(machine.host, machine.store, ()) == []
    assert journaled(machine) == {OLD.path}


def test_downloads_and_unpacked_versions_of_failed_runs_go_and_other_files_stay(machine: Machine) -> None:
    install(machine, CURRENT)
    machine.put(f"{OLD.staging}/tool")
    machine.put(f"{machine.store.cache}/{'a' * 64}")
    machine.put(f"{machine.store.cache}/{'b' * 64}.part")
    machine.put(f"{machine.store.cache}/azcmagent-0123.deb")
    prune(machine.host, machine.store, [CURRENT.path])
    assert machine.host.names(machine.store.cache) == ("azcmagent-0123.deb",)
    assert machine.host.stat(OLD.staging).absent


def test_an_unpacked_version_that_is_needed_is_kept(machine: Machine) -> None:
    machine.put(f"{OLD.staging}/tool")
    machine.put(f"{CURRENT.staging}/tool")
    clear_staging(machine.host, keep={CURRENT.staging})
    assert machine.host.names(f"{VERSIONS_DIR}/tool") == (CURRENT.staging.rpartition("/")[2],)


def test_the_versions_of_a_generation_by_its_resources() -> None:
    program = a_program("one")
    resources = [CURRENT, Link(LINK, f"{CURRENT.path}/tool"), File("/etc/app", "x"), program]
    assert versions_in(resources) == {CURRENT.path, program.path}


@pytest.mark.parametrize(
    ("target", "version"),
    [
        (f"{CURRENT.path}/tool", CURRENT.path),
        (f"{a_program('one').path}/run", a_program("one").path),
        ("/usr/bin/tool", None),
        (f"{VERSIONS_DIR}/tool", None),
        (f"{VERSIONS_DIR}-of-someone/tool/1.0.0/tool", None),
        ("tool", None),
    ],
)
def test_the_version_behind_a_link(machine: Machine, target: str, version: str | None) -> None:
    machine.path("/usr/local/bin").mkdir(parents=True)
    machine.path(LINK).symlink_to(target)
    machine.put("/usr/local/bin/file", target)
    links = [LINK, "/usr/local/bin/file", "/usr/local/bin/absent"]
    assert versions_behind(machine.host, links) == ({version} if version else frozenset())
