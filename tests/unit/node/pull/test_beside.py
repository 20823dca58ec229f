# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A pull and a poll beside another run: neither removes the files that it is writing."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.lease import held, new_operation
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import LeaseHeld
from ansible_collections.aks.flexnode.plugins.module_utils.node.pull import run as pull_run
from tests.unit.node.follow.test_tick import Followed
from tests.unit.node.pull.test_run import Node, node
from tests.unit.node.rollout.test_polls import polls

__all__ = ["node", "polls"]  # fixtures
HALF = "/var/lib/aks-flex-node/.applied-config.json.0123456789ab"  # as a run names it while it writes


def test_a_pull_waits_with_its_result_until_the_other_run_has_ended(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.team.push({"local.yml": "[]"})
    node.store.enter(Phase.NODE_JOINED)
    assert node.pull() == 0
    before = node.store.pulled()
    node.machine.put(HALF, "{")
    monkeypatch.setattr(pull_run, "RECORD_SECONDS", 0.3)
    with held(node.host, new_operation(), "Ansible"):
        with pytest.raises(LeaseHeld, match=r"Ansible \(process \d+\) holds the operation lease"):
            node.pull()
        assert node.machine.path(HALF).exists()
        assert node.store.pulled() == before
    assert node.pull() == 0
    assert not node.machine.path(HALF).exists(), "nobody is writing it any more"


def test_a_poll_does_not_publish_beside_another_run(polls: Followed) -> None:
    store = polls.machine.store
    status = store.status() or {}
    wrong = {**status, "monitoring": {**status["monitoring"], "code": "FLEX-1001"}}
    store.set_status(wrong)
    polls.machine.put(HALF, "{")
    with held(polls.machine.host, new_operation(), "Ansible"):
        assert polls.poll() == 0
        assert polls.machine.path(HALF).exists()
        assert store.status() == wrong
    assert polls.poll() == 0
    assert store.status() == status
