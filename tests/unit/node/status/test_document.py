# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The status document of a machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    StateCorrupt,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import in_words, status_of
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import IDENTITY, KUBELET, TOKEN, Site


def test_the_status_of_a_machine_that_is_no_node(debian: Machine) -> None:
    before = debian.snapshot("/")
    status = status_of(debian.host)
    assert (status["phase"], status["reason"], status["node"]["ready"]) == ("NotStarted", "NotStarted", False)
    assert status["node"]["status"] == "NotConfigured"  # for programs; people read:
    assert in_words(status) == {"status": "NotJoined", "drift": "-", "reason": "-"}
    assert status["timestamp"] == "2027-01-15T08:00:00+00:00"
    assert debian.snapshot("/") == before


def test_the_status_of_a_good_node(site: Site) -> None:
    site.join()
    store_config(site.machine.host, Inline({"config": site.document, "configVersion": "17"}), {})
    status = status_of(site.machine.host, "x86_64")
    assert status["node"]["status"] == "Ready"
    assert in_words(status) == {"status": "Ready", "drift": "none", "reason": "-"}
    assert (status["node"]["kubeletVersion"], status["node"]["labels"]["site"]) == ("1.34.4", "lab-1")
    assert status["config"] == {"version": "17", "appliedVersion": "17"}
    assert (status["drift"], status["phase"], status["reason"]) == ([], "NodeJoined", "NodeJoined")
    assert TOKEN not in json.dumps(status)


@pytest.mark.parametrize(
    ("happens", "reason", "node"),
    [
        (lambda site: site.machine.put("/etc/default/kubelet", "x"), "Drift", "Ready"),
        (lambda site: site.machine.commands.units.update({KUBELET: "failed"}), "Drift", "Ready"),
        (lambda site: site.api.nodes.update({"edge-1": a_node(ready=False)}), "FLEX-1502", "NotReady"),
        (lambda site: site.api.nodes.clear(), "NodeJoined", "NotRegistered"),
        (lambda site: site.api.refuse.update({"GET": 503}), "FLEX-1504", "NotJoined"),
        (lambda site: site.machine.path(IDENTITY).unlink(), "NodeJoined", "NotJoined"),
    ],
)
def test_the_status_says_what_is_wrong(site: Site, happens: Any, reason: str, node: str) -> None:
    site.join()
    happens(site)
    before = site.machine.snapshot("/")
    status = status_of(site.machine.host, "x86_64")
    assert (status["reason"], status["node"]["status"]) == (reason, node)
    assert site.machine.snapshot("/") == before


def test_the_status_after_a_failed_join(site: Site) -> None:
    site.api.refuse["GET /version"] = 503
    with pytest.raises(ApiUnreachable):
        site.join()
    status = status_of(site.machine.host, "x86_64")
    assert (status["phase"], status["node"]["ready"]) == ("NodeFailed", False)
    assert status["reason"] == "FLEX-1504"


def test_a_damaged_state_file_is_an_error(site: Site) -> None:
    site.machine.put(f"{DATA_DIR}/state.json", "{")
    with pytest.raises(StateCorrupt):
        status_of(site.machine.host)
