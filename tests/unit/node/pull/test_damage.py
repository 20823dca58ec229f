# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""What a power cut or a bad sector leaves does not stop ansible-pull for good. All git is real."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.command import (
    TIMED_OUT,
    Completed,
    run_command,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.run import NOT_RUN, pull_once
from tests.unit.node.pull.test_repository import bad_sector, lost_pack
from tests.unit.node.pull.test_run import Node, signs
from tests.unit.node.pull.test_run import node as node  # the fixture

BARE = "/var/lib/aks-flex-node/pull/repository.git"
MUCH = "".join(str(number) for number in range(5000))  # most of the pack, so that its middle is there
CLONES = """#!/bin/sh
# What ansible-pull does with git: clone, then check out.
while [ $# -gt 0 ]; do
  case $1 in --url) url=$2 ;; --checkout) commit=$2 ;; --directory) to=$2 ;; esac
  last=$1
  shift
done
git clone --quiet $url $to && git -C $to checkout --quiet --force $commit || exit 1
echo "$last $(cat $to/local.yml)" >> {root}/ran
cat {root}/says
"""


@pytest.fixture
def clones(node: Node) -> Node:
    """A machine whose ansible-pull clones its copy for real."""
    text = CLONES.format(root=node.machine.root)
    node.machine.put("/opt/aks-flex-node/ansible/bin/ansible-pull", text, 0o755)
    return node


def stale_lock(bare: Path) -> None:
    (bare / "refs/heads/flexnode.lock").write_text("")


def stale_head_lock(bare: Path) -> None:
    (bare / "HEAD.lock").write_text("")


def empty_ref(bare: Path) -> None:
    (bare / "refs/heads/flexnode").write_text("")


@pytest.mark.parametrize("cut", [stale_lock, stale_head_lock, empty_ref, bad_sector, lost_pack])
@pytest.mark.parametrize("pushed", [True, False], ids=["after a push", "nothing new"])
def test_the_next_run_works_with_a_new_copy(clones: Node, cut: Callable[[Path], None], pushed: bool) -> None:
    key = signs(clones)
    clones.team.push({"local.yml": "first", "roles/big": MUCH}, signed_by=key)
    assert clones.pull() == 0
    cut(clones.machine.path(BARE))
    if pushed:
        clones.team.push({"local.yml": "second"}, signed_by=key)
    assert clones.pull() == 0
    ran = clones.machine.text("/ran").splitlines()
    assert ran == ["local.yml first", f"local.yml {'second' if pushed else 'first'}"]
    assert clones.status()["commit"] == clones.team.git("rev-parse", "HEAD")
    assert clones.pull() == 0


def test_a_new_copy_is_verified_like_the_first(clones: Node) -> None:
    """The server may have another commit by then: nothing that was verified before counts for it."""
    key = signs(clones)
    clones.team.push({"local.yml": "good"}, signed_by=key)
    assert clones.pull() == 0
    stale_lock(clones.machine.path(BARE))
    clones.team.push({"local.yml": "signed"}, signed_by=key)

    def runner(argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        done = run_command(argv, data, timeout)
        if "update-ref" in argv and done.status != 0:
            clones.team.push({"local.yml": "unsigned"})
        return done

    host = Host(root=str(clones.machine.root), runner=runner, clock=clones.machine.clock)
    assert pull_once(host, clones.store, clones.config, print) == NOT_RUN
    assert clones.status()["code"] == "FLEX-2003"
    assert clones.machine.text("/ran") == "local.yml good\n"


@pytest.mark.parametrize(
    ("step", "status"), [("verify-pack", 1), ("ls-tree", TIMED_OUT), ("update-ref", 128)]
)
def test_a_disk_that_damages_each_copy_is_reported(clones: Node, step: str, status: int) -> None:
    """A git that fails is no answer: neither is the default playbook run, nor are submodules let in."""
    clones.team.push({"local.yml": "first"})
    fetches: list[str] = []

    def runner(argv: Sequence[str], data: bytes | None, timeout: float) -> Completed:
        if "fetch" in argv:
            fetches.append(argv[-1])
        if step in argv:
            return Completed(tuple(argv), status, "", "error: Input/output error\n")
        return run_command(argv, data, timeout)

    host = Host(root=str(clones.machine.root), runner=runner, clock=clones.machine.clock)
    assert pull_once(host, clones.store, clones.config, print) == NOT_RUN
    shown = clones.status()
    assert (shown["status"], shown["code"]) == ("Failed", "FLEX-2009")
    assert "Input/output error" in shown["message"]
    assert len(fetches) == 2, "one new copy, and not one after the other"
    assert not clones.machine.path("/ran").exists()
