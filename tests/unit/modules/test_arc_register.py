# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""arc_register and arc_info as Ansible runs them, on a machine without the agent, which stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.identity.errors import TokenSourceUnreachable
from ansible_collections.aks.flexnode.plugins.module_utils.node.net.answer import HttpFailure
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import ArmUnusable
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_machine import (
    PATIENCE,
    retried,
)
from tests.unit.modules.test_modules import assert_failure, run
from tests.unit.node.fakes import FakeClock

PLACE: dict[str, Any] = {
    "resource_group": "edge",
    "subscription_id": "11111111-2222-3333-4444-555555555555",
    "tenant_id": "66666666-7777-8888-9999-aaaaaaaaaaaa",
    "location": "westeurope",
    "machine_name": "edge-1",
}
TOKEN = "t0ken-of-the-installer"


@pytest.fixture(autouse=True)
def _no_agent() -> None:
    assert shutil.which("azcmagent") is None, "not on a machine that is in Azure Arc"


def test_a_machine_without_the_agent(tmp_path: Path) -> None:
    answer = run("arc_info", tmp_path, check=False)
    assert (answer["changed"], answer["installed"], answer["connected"]) == (False, False, False)
    assert (answer["resource_id"], answer["principal_id"], answer["services"]) == ("", "", {})
    assert (answer["progress"], "missing_roles" in answer) == ([], False)


def test_the_agent_is_needed(tmp_path: Path) -> None:
    answer = run("arc_register", tmp_path, access_token=TOKEN, data_dir=str(tmp_path / "data"), **PLACE)
    assert_failure(answer, "FLEX-1811")
    assert TOKEN not in str(answer)


def test_a_package_is_planned_and_not_fetched(tmp_path: Path) -> None:
    package: dict[str, Any] = {
        "package_url": "https://127.0.0.1:9/azcmagent.deb",
        "package_sha256": "ab" * 32,
    }
    answer = run("arc_register", tmp_path, data_dir=str(tmp_path / "data"), **PLACE, **package)
    assert answer["changed"]
    assert answer["actions"] == [
        "install the Arc agent from https://127.0.0.1:9/azcmagent.deb",
        "register this machine as /subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/edge"
        "/providers/Microsoft.HybridCompute/machines/edge-1",
    ]
    assert answer["diff"]["after"].splitlines() == answer["actions"]
    assert not (tmp_path / "data").exists()


def test_the_signature_of_a_package_is_nowhere_in_the_result(tmp_path: Path) -> None:
    """Neither in what would be done, nor in the arguments that Ansible repeats, and logs on the machine."""
    package: dict[str, Any] = {
        "package_url": "https://127.0.0.1:9/azcmagent.deb?sv=2024&sig=s1gnature",
        "package_sha256": "ab" * 32,
    }
    answer = run("arc_register", tmp_path, data_dir=str(tmp_path / "data"), **PLACE, **package)
    assert answer["actions"][0] == "install the Arc agent from https://127.0.0.1:9/azcmagent.deb?…"
    assert "s1gnature" not in str(answer)


def test_nothing_to_take_back(tmp_path: Path) -> None:
    answer = run("arc_register", tmp_path, state="absent", data_dir=str(tmp_path / "data"))
    assert (answer["changed"], answer["actions"], answer["remains"]) == (False, [], [])


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "resource_group"),
        ({**PLACE, "package_url": "https://x/y.deb"}, "package_sha256"),
        ({**PLACE, "cloud": "Mars"}, "cloud"),
        ({**PLACE, "roles": ["owner"]}, "roles"),
        ({"state": "gone"}, "state"),
        ({"state": "query"}, "state"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: dict[str, Any], complaint: str) -> None:
    answer = run("arc_register", tmp_path, **arguments)
    assert answer["failed"]
    assert complaint in answer["msg"]


def test_a_first_look_outlasts_troubles_that_pass() -> None:
    answers: list[Exception] = [TokenSourceUnreachable("no token", why="it starts"), ArmUnusable("no answer")]
    told: list[str] = []

    def look() -> str:
        if answers:
            raise answers.pop(0)
        return "seen"

    assert retried(look, FakeClock(), PATIENCE, told) == "seen"
    assert told[0] == "no token: it starts"
    assert len(told) == 2


@pytest.mark.parametrize(("status", "seconds"), [(404, 0), (503, PATIENCE)])
def test_a_first_look_ends(status: int, seconds: float) -> None:
    """At once where asking again can't help."""
    clock = FakeClock()
    began = clock.monotonic()

    def look() -> str:
        raise ArmUnusable("no answer") from HttpFailure("https://arm", "no", status=status)

    with pytest.raises(ArmUnusable):
        retried(look, clock, PATIENCE, [])
    assert clock.monotonic() - began == seconds
