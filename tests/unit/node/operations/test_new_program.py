# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A new release replaces the installed command only if it can plan on this machine."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components import agent
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.update import ProgramUnusable
from tests.unit.node.sites import Site

LINK = "/usr/local/bin/aks-flex-node"
BROKEN = {"aks-flex-node": b"#!/bin/false\n", "flexnode/machine/program.py": b'VERSION = "9.9.9"\n'}


def test_a_release_that_can_not_plan_here_does_not_replace_the_old_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.join()
    before = site.machine.path(LINK).readlink()
    monkeypatch.setattr(agent, "sources", lambda: BROKEN)
    calls = site.machine.commands.calls
    run = type(site.machine.commands).__call__

    def with_broken(argv: list[str], data: bytes | None, timeout: float) -> object:
        done = run(site.machine.commands, argv, data, timeout)
        if argv[-1] == "plan":
            assert site.machine.path(argv[0]).exists()
            site.machine.commands.statuses[argv[0]] = 1
            done = run(site.machine.commands, argv, data, timeout)
        return done

    monkeypatch.setattr(site.machine.host, "_runner", with_broken)
    with pytest.raises(ProgramUnusable, match="can't plan on this machine") as caught:
        site.join()
    assert "The installed one stays" in caught.value.why
    assert site.machine.path(LINK).readlink() == before
    assert len(list(site.machine.path("/opt/aks-flex-node/agent").iterdir())) == 1
    assert [call for call in calls if call[-1] == "plan"]


def test_a_first_join_and_an_unchanged_one_ask_nothing(site: Site) -> None:
    site.join()
    site.join()
    assert not [call for call in site.machine.commands.calls if call[-1] == "plan"]


def test_a_release_that_can_plan_replaces_the_old_one(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.join()
    before = site.machine.path(LINK).readlink()
    monkeypatch.setattr(agent, "sources", lambda: BROKEN)
    site.join()
    after = site.machine.path(LINK).readlink()
    assert after != before
    assert (f"{after}", "plan") in site.machine.commands.calls
