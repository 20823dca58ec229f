# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A status that was published in the middle of an outage does not outlive it: the next check corrects it."""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    NodeNotReady,
    UnitFailed,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.certificates import validity
from ansible_collections.aks.flexnode.plugins.module_utils.node.machine.layout import TEXTFILE_DIRECTORIES
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.annotation import CONDITION, STATUS
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.publish import publish
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.textfile import NAME
from tests.unit.node.drift.conftest import Drifting
from tests.unit.node.drift.test_drift_table import TOML, write
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY, KUBELET

TEXTFILE = f"{TEXTFILE_DIRECTORIES[1]}/{NAME}"
GET, PATCH = "GET /api/v1/nodes/edge-1", "PATCH /api/v1/nodes/edge-1/status"


def ready_is(on: Drifting, value: str) -> None:
    next(one for one in on.node["status"]["conditions"] if one["type"] == "Ready")["status"] = value


def told(on: Drifting) -> tuple[str, str]:
    """The status of the condition at the Node, and the reason in its annotation."""
    condition = next(one for one in on.node["status"]["conditions"] if one["type"] == CONDITION)
    return condition["status"], json.loads(on.node["metadata"]["annotations"][STATUS])["reason"]


def published(on: Drifting) -> str:
    return str((on.machine.store.status() or {})["reason"])


def requests(on: Drifting) -> list[str]:
    """What a check asks the API server, beginning with the next one."""
    on.site.api.server.requests.clear()
    assert on.check()[0] == 0
    return [f"{request.method} {request.path}" for request in on.site.api.server.requests]


def test_a_node_that_reports_again_after_the_status_was_published(
    drifting: Drifting, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line is back, the poll publishes, and the kubelet reports some seconds later."""
    drifting.machine.put(f"{TEXTFILE_DIRECTORIES[1]}/apt.prom", "")
    host, store = drifting.machine.host, drifting.machine.store
    ready_is(drifting, "Unknown")
    publish(host, store)
    assert (published(drifting), told(drifting)) == (NodeNotReady.code, ("False", NodeNotReady.code))
    ready_is(drifting, "True")
    assert drifting.check() == (0, "")
    assert (published(drifting), told(drifting)) == ("NodeJoined", ("True", "NodeJoined"))
    assert "\naks_flex_node_configured 1\n" in drifting.machine.text(TEXTFILE)
    assert main(["problem"], host) == 0
    ready_is(drifting, "False")
    drifting.check()
    assert published(drifting) == NodeNotReady.code, "and the other way round"


def test_an_api_server_that_did_not_answer_when_the_status_was_published(drifting: Drifting) -> None:
    drifting.site.api.refuse[GET] = 503
    publish(drifting.machine.host, drifting.machine.store)
    assert published(drifting) == ApiUnreachable.code
    drifting.check()
    assert published(drifting) == ApiUnreachable.code
    drifting.site.api.refuse.clear()
    ready_is(drifting, "Unknown")
    drifting.check()
    assert published(drifting) == NodeNotReady.code, "it answers; the kubelet has not reported yet"
    ready_is(drifting, "True")
    drifting.check()
    assert (published(drifting), told(drifting)) == ("NodeJoined", ("True", "NodeJoined"))


@pytest.mark.parametrize("refused", [GET, PATCH])
def test_drift_that_could_not_be_told_to_the_api_server_is_told_later(
    drifting: Drifting, refused: str
) -> None:
    drifting.site.join({"drift": {"mode": "report"}})
    drifting.site.api.refuse[refused] = 503
    write(TOML)(drifting)
    assert "reported only" in drifting.check()[1]
    assert told(drifting) == ("True", "NodeJoined")
    drifting.site.api.refuse.clear()
    assert drifting.check() == (0, ""), "nothing else differs"
    assert told(drifting) == ("False", "Drift")
    assert requests(drifting) == [GET], "it has been told"


def test_a_unit_that_was_only_restarting_when_the_status_was_published(drifting: Drifting) -> None:
    commands = drifting.machine.commands
    commands.units[KUBELET] = "inactive"
    publish(drifting.machine.host, drifting.machine.store)
    assert published(drifting) == UnitFailed.code
    commands.units[KUBELET] = "active"
    drifting.check()
    assert published(drifting) == "NodeJoined"


def test_an_item_that_was_right_again_before_a_check_saw_it(drifting: Drifting) -> None:
    before = drifting.machine.text(TOML)
    write(TOML)(drifting)
    publish(drifting.machine.host, drifting.machine.store)  # by a poll that failed, for example
    assert published(drifting) == "Drift"
    drifting.machine.put(TOML, before, 0o644)
    drifting.check()
    assert published(drifting) == "NodeJoined"


def test_a_status_that_is_gone_or_damaged_is_written_again(drifting: Drifting) -> None:
    path = drifting.machine.path("/var/lib/aks-flex-node/status.json")
    for damage in (path.unlink, lambda: path.write_text("{")):
        damage()
        assert drifting.check() == (0, "")
        assert published(drifting) == "NodeJoined"


def test_a_certificate_that_the_kubelet_has_renewed(drifting: Drifting, tmp_path: Path) -> None:
    """Nothing else changes then, and an alert on the old date would be false."""
    drifting.machine.put(f"{TEXTFILE_DIRECTORIES[1]}/apt.prom", "")
    publish(drifting.machine.host, drifting.machine.store)
    before = drifting.machine.text(TEXTFILE)
    renewed = Pki.make(tmp_path, client_days=4000).client.read_bytes()
    drifting.machine.put(IDENTITY, renewed, 0o600)
    # The API server of this test does not know its CA: that must not matter.
    drifting.site.api.refuse[GET] = 503
    assert drifting.check() == (0, "")
    valid = validity(renewed)
    assert valid
    name = "aks_flex_node_certificate_expiry_timestamp_seconds"
    assert f"\n{name} {valid.expires:.0f}\n" not in before
    assert f"\n{name} {valid.expires:.0f}\n" in drifting.machine.text(TEXTFILE)


def test_an_expired_certificate_is_published_once(drifting: Drifting) -> None:
    """By a clock that is wrong: the API server still answers."""
    drifting.machine.clock.time += 11 * 365 * 86400
    drifting.check()
    publish(drifting.machine.host, drifting.machine.store)
    before = drifting.machine.snapshot()
    assert requests(drifting) == [GET]
    assert drifting.machine.snapshot() == before


def test_an_api_server_that_does_not_answer_now_is_no_news(drifting: Drifting) -> None:
    """A single lost request is not written down twice, once for its failure and once for its end."""
    before = drifting.machine.snapshot()
    drifting.site.api.refuse[GET] = 503
    assert drifting.check() == (0, "")
    assert drifting.machine.snapshot() == before


def differing(on: Drifting) -> None:
    """Drift that stays: it is only reported."""
    on.site.join({"drift": {"mode": "report"}})
    write(TOML)(on)
    on.check()


def not_ready(on: Drifting) -> None:
    ready_is(on, "False")
    on.check()


@pytest.mark.parametrize("state", [lambda on: None, differing, not_ready])
def test_what_is_true_is_not_published_again(drifting: Drifting, state: Any) -> None:
    state(drifting)
    before = drifting.machine.snapshot()
    assert requests(drifting) == [GET]
    assert drifting.machine.snapshot() == before


def test_the_reports_of_another_machine_are_not_published_in_turns(drifting: Drifting) -> None:
    machine = drifting.machine
    machine.put("/proc/sys/kernel/random/boot_id", "this-boot\n")
    info = drifting.node["status"]["nodeInfo"]
    info |= {"bootID": "another-boot", "machineID": "another-machine"}
    drifting.check()
    turns = cycle(("this-boot", "another-boot"))
    drifting.site.api.arrives = lambda _request: info.update(bootID=next(turns))
    before = machine.snapshot("/var")
    drifting.check()
    assert machine.snapshot("/var") == before
