# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Rollouts and ansible-pull on one node: a new release takes its turn, and a pull never waits for it."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.components import agent
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import ApiUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import stored_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.update import ProgramUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.install import install
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull.playbook import MARK, patience_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout import turn
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.errors import RolloutWaits
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.local import DONE, Local
from tests.unit.node.rollout.rollouts import LIMIT, create, held_by, put, shared
from tests.unit.node.sites import CONFIG, Site, also

LINK = "/usr/local/bin/aks-flex-node"
RELEASE = {"aks-flex-node": b"#!/bin/sh\n", "flexnode/machine/program.py": b'VERSION = "9.9.9"\n'}


@pytest.fixture
def node(site: Site) -> Site:
    """A joined node of a cluster that has a record."""
    create(site.api)
    site.join(LIMIT)
    return site


@pytest.fixture
def release(node: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new release that writes the kubelet's file differently; the link of the old one."""
    monkeypatch.setattr(agent, "sources", lambda: RELEASE)
    node.machine.put(CONFIG, "{}", 0o600)
    return str(node.machine.path(LINK).readlink())


def plans(site: Site) -> int:
    return sum(call[-1] == "plan" for call in site.machine.commands.calls)


def test_a_new_release_that_waited_is_still_one_when_its_turn_comes(node: Site, release: str) -> None:
    """The first try has placed its files: only the link says that it is not in use yet."""
    held_by(node.api, "edge-7")
    for _try in range(2):
        with pytest.raises(RolloutWaits, match="edge-7"):
            node.join(LIMIT, patience=0)
        waiting = Local.of(node.machine.store).waiting or {}
        assert waiting["what"].startswith("aks.flexnode ")
        assert waiting["rollout"]
        assert str(node.machine.path(LINK).readlink()) == release
    put(node.api, lambda now: now.without_holder("edge-7"))
    asked = plans(node)
    node.join(LIMIT, patience=0)
    assert plans(node) == asked + 1, "it must be able to plan at the moment when it replaces the old one"
    assert str(node.machine.path(LINK).readlink()) != release
    (rollout,) = shared(node.api).rollouts.values()
    assert rollout.what.startswith("aks.flexnode ")
    assert rollout.done[""].nodes == 1


def test_a_release_that_can_not_plan_takes_no_slot(
    node: Site, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[object] = []
    monkeypatch.setattr(turn.Turn, "take", lambda self, _progress: taken.append(self))
    run = type(node.machine.commands).__call__

    def broken(argv: list[str], data: bytes | None, timeout: float) -> object:
        if argv[-1] == "plan":
            node.machine.commands.statuses[argv[0]] = 1
        return run(node.machine.commands, argv, data, timeout)

    monkeypatch.setattr(node.machine.host, "_runner", broken)
    with pytest.raises(ProgramUnusable):
        node.join(LIMIT, patience=0)
    assert taken == []
    assert dict(shared(node.api).holders) == {}
    assert Local.of(node.machine.store).slot is None
    assert str(node.machine.path(LINK).readlink()) == release


def test_installing_ansible_pull_does_not_change_what_is_still_to_be_reported(
    node: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The update worked, and the API server did not answer when the node was to say so."""
    real = turn.change_shared

    def cut(api: Any, step: Any) -> Any:
        if "edge-1" in shared(node.api).holders:
            raise ApiUnreachable("the line was cut")
        return real(api, step)

    node.api.nodes["edge-1"]["status"]["nodeInfo"]["kubeletVersion"] = "v1.34.5"
    with monkeypatch.context() as patched:
        patched.setattr(turn, "change_shared", cut)
        node.join(LIMIT, also("1.34.5"))
        install(stored_config(node.machine.host), machine="x86_64")
        slot = Local.of(node.machine.store).slot
        assert slot is not None
        assert slot.outcome == DONE
    install(stored_config(node.machine.host), machine="x86_64")
    assert dict(shared(node.api).holders) == {}
    assert [one.done[""].nodes for one in shared(node.api).rollouts.values()] == [1]


def test_only_ansible_pull_does_not_wait_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert patience_of(None) is None
    assert patience_of(30) == 30
    monkeypatch.setenv(MARK, "1")
    assert patience_of(None) == 0
    assert patience_of(30) == 30


def test_the_command_does_not_wait_in_a_playbook_of_ansible_pull(
    node: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node.machine.put(CONFIG, "{}", 0o600)
    held_by(node.api, "edge-7")
    monkeypatch.setenv(MARK, "1")
    naps = len(node.machine.clock.naps)
    assert main(["update"], node.machine.host) == 1
    assert "FLEX-1522" in capsys.readouterr().err
    assert len(node.machine.clock.naps) == naps
