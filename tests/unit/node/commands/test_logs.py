# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""logs: the log file with its older files, or the journal."""

from __future__ import annotations

import os

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from tests.unit.node.sites import MORE, Site

Captured = pytest.CaptureFixture[str]
LOG = "/var/log/aks-flex-node/agent.log"


def printed(site: Site, capsys: Captured, *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["logs", *options], site.machine.host) == 0
    return capsys.readouterr().out.splitlines()


def test_the_last_lines_across_files(site: Site, capsys: Captured) -> None:
    site.join()
    everything = printed(site, capsys, "--lines", "0")
    assert "begins" in everything[0]
    assert "joined" in everything[-1]
    os.rename(site.machine.path(LOG), site.machine.path(f"{LOG}.1"))
    site.join(MORE)  # it is created again
    later = printed(site, capsys, "--lines", "0")
    assert later[: len(everything)] == everything
    assert "updated (maxPods)" in later[-1]
    assert printed(site, capsys, "--lines", "2") == later[-2:]
    assert len(printed(site, capsys)) == min(50, len(later))


def test_the_journal_of_a_machine_that_is_no_node(site: Site, capsys: Captured) -> None:
    site.machine.commands.logs["aks-flex-node"] = "2027-01-15T08:00:00 edge-1 aks-flex-node: completed\n"
    assert main(["logs"], site.machine.host) == 0
    shown = capsys.readouterr()
    assert shown.out.endswith("aks-flex-node: completed\n")
    assert "no log file" in shown.err
    call = ("journalctl", "-t", "aks-flex-node", "-o", "short-iso", "--no-pager", "-n", "50")
    assert site.machine.commands.calls[-1] == call
    site.join()
    assert printed(site, capsys, "--journal", "--lines", "3")[-1].endswith("completed")
    assert site.machine.commands.calls[-1][-2:] == ("-n", "3")


def test_following_ends_in_the_journal(site: Site, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    site.join()
    became: list[list[str]] = []

    def become(_name: str, argv: list[str]) -> None:
        became.append(argv)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "execvp", become)
    assert main(["logs", "--follow", "--lines", "1"], site.machine.host) == 130
    assert "joined" in capsys.readouterr().out
    assert became == [["journalctl", "-t", "aks-flex-node", "-o", "short-iso", "-f", "-n", "0"]]
