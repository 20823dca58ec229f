# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A run of an older release on a machine that a newer one has updated."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.components import agent
from tests.unit.node.sites import Site

LINK = "/usr/local/bin/aks-flex-node"
NEWER = {"aks-flex-node": b"#!/bin/false\n", "flexnode/machine/program.py": b'VERSION = "9.9.9"\n'}


def test_an_older_release_leaves_the_command_of_a_newer_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newer one was installed by its own run, which is in the journal: its link is no leftover."""
    site.join()
    with monkeypatch.context() as newer:
        newer.setattr(agent, "sources", lambda: NEWER)
        site.join()
    after = site.machine.path(LINK).readlink()
    run = site.join()
    assert "the newer command stays" in run.warnings[0]
    assert site.machine.path(LINK).readlink() == after
    assert not run.changed
    assert run.summary == "unchanged"
