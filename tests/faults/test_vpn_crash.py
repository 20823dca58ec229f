# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Killed anywhere while the VPN of a node changes, run again: never a machine that stays cut off.

The same method as the crash matrix: a copy of the machine from every moment of an undisturbed run. And as
there, the gate kills at the boundaries of effects, the proof between system calls too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge
from tests.faults.crashes import (
    CLOSELY,
    COUNTED,
    Command,
    Run,
    ends_in,
    gives_back,
    has_nothing_to_do,
    would_give_back,
)
from tests.faults.lab import Lab, Photo, World, differences
from tests.faults.test_crash_matrix import without_words
from tests.unit.node.tunnels import Gateway, a_profile, with_vpn

SHORT = {"upgrade": {"gateSeconds": 10}}


@dataclass(frozen=True)
class Nodes:
    """Nodes with and without a VPN, and the commands that change it."""

    origin: Photo
    plain: World
    private: World
    without: Command
    first: Command
    second: Command
    wrong: Command


@pytest.fixture(scope="module")
def nodes(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Nodes:
    directory = tmp_path_factory.mktemp("vpn")
    document = merge(json.loads(Path(lab.join[-1]).read_text()), SHORT)

    def command(name: str, change: dict[str, Any]) -> Command:
        file = directory / f"{name}.json"
        file.write_text(json.dumps(merge(document, change)))
        return ("join", "--config", str(file))

    without = command("without", {})
    first, second = command("first", with_vpn()), command("second", with_vpn(a_profile("second.example")))
    wrong = command("wrong", with_vpn(a_profile("wrong.example")))
    plain = lab.fresh()
    plain.machine.path("/usr/sbin").mkdir(parents=True, exist_ok=True)
    plain.tunnel = Gateway(plain.machine, refuses={"wrong.example"})
    origin = plain.photo(times=True)
    assert plain.command(*without)[0] == 0
    private = plain.copy()
    status, said = private.command(*first)
    assert status == 0, said
    return Nodes(origin, plain, private, without, first, second, wrong)


OPERATIONS = ("a VPN", "another profile", "no VPN any more")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("closely", CLOSELY)
def test_killed_and_run_again(
    nodes: Nodes, operation: str, closely: str, record_property: Callable[[str, object], None]
) -> None:
    start, command = {
        "a VPN": (nodes.plain, nodes.first),
        "another profile": (nodes.private, nodes.second),
        "no VPN any more": (nodes.private, nodes.without),
    }[operation]
    run = Run.of(start, command, closely)

    def completes(trying: World) -> None:
        would_give_back(trying, nodes.origin, ends_in(trying, command, run.end))

    def leaves(trying: World) -> None:
        gives_back(trying, nodes.origin)

    record_property(f"{COUNTED}{operation}, {closely}", run.counts)
    run.survives(completes, leaves)


@pytest.mark.parametrize("closely", CLOSELY)
def test_a_profile_that_is_rolled_back_killed_and_run_again(
    nodes: Nodes, closely: str, record_property: Callable[[str, object], None]
) -> None:
    """Whenever it is killed, the next run ends with the profile that worked."""
    run = Run.of(nodes.private, nodes.wrong, closely, ends=1)
    end = without_words(run.end)
    has_nothing_to_do(run.after, run.end)

    def has_the_old_one(trying: World) -> None:
        assert trying.tunnel is not None
        assert trying.tunnel.running == "gateway.example"

    def is_rolled_back(trying: World) -> None:
        status, said = trying.command(*nodes.wrong)
        assert status == 1, said
        assert differences(end, without_words(trying.photo())) == []
        has_the_old_one(trying)
        assert "FLEX-1508" in trying.command(*nodes.wrong)[1], "it is not tried again"
        would_give_back(trying, nodes.origin, trying.photo(times=True))

    def returns(trying: World) -> None:
        status, said = trying.command(*nodes.first)
        assert status == 0, said
        has_the_old_one(trying)
        has_nothing_to_do(trying, trying.photo())

    record_property(f"{COUNTED}VPN rollback, {closely}", run.counts)
    run.survives(is_rolled_back, returns)
