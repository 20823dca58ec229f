# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The phases of a registration with Azure Arc: in state.json before the first change and after the last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR, Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc import agent
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import (
    ArcElsewhere,
    ArcFailed,
    ArcUnhealthy,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.publish import publish
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.reasons import reason_of
from tests.unit.node.procedures.test_arc import Site, site
from tests.unit.node.sites import Killed

__all__ = ["site"]


def phase(site: Site) -> str:
    return str(site.store.state()["phase"])


def test_a_registration_passes_its_phases(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    connect = agent.connect

    def watched(*arguments: Any) -> None:
        seen.append(phase(site))
        connect(*arguments)

    monkeypatch.setattr(agent, "connect", watched)
    site.register()
    assert [*seen, phase(site)] == ["ArcRegistering", "ArcRegistered"]
    state = site.machine.path(f"{DATA_DIR}/state.json").stat()
    site.register()  # nothing to do: nothing is written
    assert site.machine.path(f"{DATA_DIR}/state.json").stat() == state


def test_a_registration_that_fails_says_why_and_the_next_one_continues(site: Site) -> None:
    site.trouble(connect={"status": 1, "stderr": "AZCM0042: forbidden"})
    with pytest.raises(ArcFailed):
        site.register()
    state = site.store.state()
    assert (state["phase"], state["code"]) == ("ArcFailed", ArcFailed.code)
    assert publish(site.host, site.store)["reason"] == ArcFailed.code
    assert json.loads(site.machine.text(f"{DATA_DIR}/status.json"))["phase"] == "ArcFailed"
    site.trouble()
    site.register()
    assert (phase(site), "code" in site.store.state()) == ("ArcRegistered", False)
    status = publish(site.host, site.store)
    assert (status["reason"], status["message"]) == (
        "ArcRegistered",
        "this machine is registered with Azure Arc, and is not a node yet",
    )


def test_a_registration_that_is_killed_stays_in_its_phase(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_arguments: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(agent, "connect", dies)
        with pytest.raises(Killed):
            site.register()
    assert phase(site) == "ArcRegistering"
    status = status_of(site.host)
    assert reason_of(status, site.store.state(), None).code == "ArcRegistering"
    site.register()
    assert phase(site) == "ArcRegistered"


def test_what_was_never_begun_leaves_no_state(site: Site) -> None:
    site.is_registered(resourceName="another")
    with pytest.raises(ArcElsewhere):
        site.register()
    assert not site.machine.path(DATA_DIR).exists()


def test_a_node_stays_a_node(site: Site) -> None:
    """It registers again, as after somebody removed it from Azure Arc."""
    store = site.store
    store.set_applied_config({"node": {}}, None)
    store.enter(Phase.NODE_JOINED, join={"token": "abcdef", "outcome": "joined"})
    site.machine.commands.units["himdsd.service"] = "failed"
    with pytest.raises(ArcUnhealthy):
        site.register(services_seconds=3)
    assert phase(site) == "ArcFailed"
    site.machine.commands.units["himdsd.service"] = "active"
    site.register()
    assert (phase(site), store.join()["outcome"]) == ("NodeJoined", "joined")


def test_a_leave_that_was_interrupted_is_not_forgotten(site: Site) -> None:
    site.store.enter(Phase.RESETTING)
    site.register()
    assert site.store.state()["leaving"] is True


def test_a_machine_that_is_not_registered_any_more_has_no_phase_left(site: Site) -> None:
    site.register()
    publish(site.host, site.store)
    site.unregister()
    assert not site.machine.path(DATA_DIR).exists()
    site.register()
    site.store.set_current_config({"node": {}}, None)
    site.unregister()
    assert phase(site) == "NotStarted"
    site.register()
    site.store.set_applied_config({"node": {}}, None)
    site.store.enter(Phase.ARC_FAILED)
    site.unregister()
    assert phase(site) == "NodeJoined"
