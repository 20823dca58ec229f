# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The collections that a repository requires: exactly these are found, and never half of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.run import NOT_RUN
from tests.unit.node.pull.test_run import Node
from tests.unit.node.pull.test_run import node as node  # the fixture

REQUIREMENTS = "collections/requirements.yml"
COLLECTIONS = "/var/lib/aks-flex-node/pull/collections"
# One collection per word. As the real one: what is there stays; what is new is unpacked, MANIFEST.json first.
GALAXY = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in --requirements-file) file=$2 ;; --collections-path) path=$2 ;; esac
  shift
done
for name in $(cat $file); do
  to=$path/ansible_collections/$name
  [ -e $to/MANIFEST.json ] && echo "$name is there" && continue
  echo "$name is downloaded"
  mkdir -p $to && touch $to/MANIFEST.json
  [ ! -e {root}/cut ] || kill -KILL $$
  touch $to/plugin.py
done
"""
# What a playbook would find, by the path that Ansible was started with.
FINDS = """#!/bin/sh
for path in $(echo $ANSIBLE_COLLECTIONS_PATH | tr : ' '); do
  [ ! -d $path/ansible_collections ] || (cd $path/ansible_collections && find . -name '*.py' | sort)
done > {root}/found
cat {root}/says
"""


@pytest.fixture
def requires(node: Node) -> Node:
    """A machine with an ansible-galaxy that installs."""
    for name, text in (("ansible-galaxy", GALAXY), ("ansible-pull", FINDS)):
        script = text.replace("{root}", str(node.machine.root))
        node.machine.put(f"/opt/aks-flex-node/ansible/bin/{name}", script, 0o755)
    return node


def found(node: Node) -> list[str]:
    return [Path(line).parent.name for line in node.machine.text("/found").splitlines()]


def downloaded(node: Node) -> list[str]:
    return [line.split()[0] for line in node.said if line.endswith("is downloaded")]


def test_a_collection_that_is_no_longer_required_is_not_found(requires: Node) -> None:
    requires.team.push({"local.yml": "[]", REQUIREMENTS: "a.one b.two\n"})
    assert requires.pull() == 0
    assert found(requires) == ["a.one", "b.two"]
    requires.team.push({REQUIREMENTS: "b.two\n"})
    assert requires.pull() == 0
    assert found(requires) == ["b.two"]
    assert len(list(requires.machine.path(COLLECTIONS).iterdir())) == 1
    requires.team.git("rm", "--quiet", REQUIREMENTS)
    requires.team.push({})
    assert requires.pull() == 0
    assert found(requires) == []
    assert not requires.machine.path(COLLECTIONS).exists()


def test_what_is_installed_is_not_downloaded_again_but_newer_versions_are_asked_for(requires: Node) -> None:
    requires.team.push({"local.yml": "[]", REQUIREMENTS: "a.one\n"})
    assert requires.pull() == 0
    assert downloaded(requires) == ["a.one"]
    requires.team.push({"local.yml": "[1]"})
    assert requires.pull() == 0
    assert "a.one is there" in requires.said
    assert downloaded(requires) == []
    assert found(requires) == ["a.one"]


def test_another_ansible_cfg_may_name_another_server(requires: Node) -> None:
    requires.team.push({"local.yml": "[]", REQUIREMENTS: "a.one\n"})
    assert requires.pull() == 0
    requires.team.push({"ansible.cfg": "[galaxy]\nserver_list = own\n"})
    assert requires.pull() == 0
    assert downloaded(requires) == ["a.one"]


@pytest.mark.parametrize("before", ["", "a.one"], ids=["first installation", "update"])
def test_what_a_cut_left_half_installed_is_installed_again(requires: Node, before: str) -> None:
    """Its MANIFEST.json is there, so that ansible-galaxy would take it for installed."""
    requires.team.push({"local.yml": "[]", REQUIREMENTS: f"{before or 'a.one'}\n"})
    if before:
        assert requires.pull() == 0
        for path in requires.machine.path(COLLECTIONS).rglob("a.one/*"):  # a newer version replaces it
            path.unlink()
    requires.machine.put("/cut", "")
    assert requires.pull() == NOT_RUN
    assert requires.status()["code"] == "FLEX-2005"
    requires.machine.path("/cut").unlink()
    assert requires.pull() == 0
    assert found(requires) == ["a.one"]


def test_the_collections_of_an_earlier_release_are_removed(requires: Node) -> None:
    """They were in one directory for all commits."""
    requires.machine.put(f"{COLLECTIONS}/ansible_collections/old/one/plugin.py", "")
    requires.team.push({"local.yml": "[]", REQUIREMENTS: "a.one\n"})
    assert requires.pull() == 0
    assert found(requires) == ["a.one"]
    assert not requires.machine.path(f"{COLLECTIONS}/ansible_collections").exists()
