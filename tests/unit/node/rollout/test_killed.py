# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""An update with a slot, killed at each of its writes, on the disk and at the API server, and run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.host import Host
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.kube import KubeClient
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.local import Local
from ansible_collections.aks.flexnode.plugins.module_utils.node.rollout.software import software
from tests.unit.node.rollout.rollouts import LIMIT, create, shared
from tests.unit.node.sites import Killed, Site

MOST = 80  # writes of one update, at most


def settings(number: int) -> dict[str, Any]:
    """A change of the fleet's software, a different one each time."""
    return {"kubelet": {"configOverrides": {"syncFrequency": f"{60 + number}s"}}}


class Death:
    """The process dies right before, or right after, its n-th write."""

    def __init__(self, moment: int, *, after: bool) -> None:
        self.left, self.after = moment, after

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if not self.after:
                self.strike()
            result = real(*arguments, **options)
            if self.after:
                self.strike()
            return result

        return call

    def strike(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_the_slot_is_never_lost(site: Site, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    create(site.api)
    site.join(LIMIT)
    for moment in range(MOST):
        wanted = settings(moment)
        death = Death(moment, after=after)
        survived = False
        with monkeypatch.context() as patched:
            patched.setattr(Host, "write", death.around(Host.write))
            patched.setattr(KubeClient, "replace_config_map", death.around(KubeClient.replace_config_map))
            try:
                site.join(LIMIT, wanted)
                survived = True
            except Killed:
                pass
        held, changing = dict(shared(site.api).holders), site.machine.store.transaction() is not None
        if changing and site.machine.store.applied_config() != site.machine.store.current_config():
            assert "edge-1" in held, f"write {moment}: it is in the middle of a change without a slot"
        site.join(LIMIT, wanted)
        record, local = shared(site.api), Local.of(site.machine.store)
        assert dict(record.holders) == {}, f"write {moment}"
        assert (local.slot, local.waiting, local.pending) == (None, None, False), f"write {moment}"
        present = software(parse(site.machine.store.applied_config() or {}))
        assert record.nodes["edge-1"].software == local.software == present, f"write {moment}"
        if survived:
            break
    assert survived, "an update has more writes than this test expects"
    assert moment > 10
