# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""The status document of a machine."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR, Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.errors import (
    ApiUnreachable,
    StateCorrupt,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import (
    store_config,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.reasons import Verdict, verdict_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.words import in_words, is_right
from tests.unit.node.fake_api import a_node
from tests.unit.node.fakes import Machine
from tests.unit.node.sites import IDENTITY, KUBELET, TOKEN, Site


def test_the_status_of_a_machine_that_is_no_node(debian: Machine) -> None:
    before = debian.snapshot("/")
    status = status_of(debian.host)
    assert (status["phase"], status["reason"], status["node"]["ready"]) == ("NotStarted", "NotJoined", False)
    assert status["node"]["status"] == "NotConfigured"  # for programs; people read:
    joins, left = (
        "To join it, run playbook aks.flexnode.bootstrap",
        "If you removed it on purpose, remove it from",
    )
    new = "this machine is not joined to a cluster (it is new, or unbootstrap removed it)"
    assert status["message"] == f"{new}. {joins}. {left} the inventory"
    assert in_words(status) == {
        "status": "NotJoined",
        "drift": "-",
        "config": "-",
        "follows": "off",
        "pull": "-",
        "reason": "NotJoined",
        "right": "no",
    }
    assert status["timestamp"] == "2027-01-15T08:00:00+00:00"
    assert debian.snapshot("/") == before


def test_the_command_is_advised_where_it_is_installed(debian: Machine) -> None:
    debian.put("/usr/local/bin/aks-flex-node")
    advice = "run playbook aks.flexnode.bootstrap, or run `sudo aks-flex-node join` on the machine. If you"
    assert advice in status_of(debian.host)["message"]


def test_the_status_of_a_good_node(site: Site) -> None:
    site.join()
    store_config(site.machine.host, Inline({"config": site.document, "configVersion": "17"}), {})
    status = status_of(site.machine.host)
    assert status["node"]["status"] == "Ready"
    assert in_words(status) == {
        "status": "Ready",
        "drift": "none",
        "config": "17 (applied)",
        "follows": "off",
        "pull": "-",
        "reason": "NodeJoined",
        "right": "yes",
    }
    assert status["node"]["cluster"] == "plant"
    assert status["node"]["units"] == {"containerd.service": True, "kubelet.service": True}
    assert status["node"]["certificate"]["issued"] < status["node"]["certificate"]["expires"]
    assert status["versions"]["kubernetes"] == "1.34.4"
    assert (status["node"]["kubeletVersion"], status["node"]["labels"]["site"]) == ("1.34.4", "lab-1")
    assert status["config"] == {"version": "17", "appliedVersion": "17"}
    assert (status["drift"], status["phase"], status["reason"]) == ([], "NodeJoined", "NodeJoined")
    assert TOKEN not in json.dumps(status)


@pytest.mark.parametrize(
    ("happens", "reason", "node"),
    [
        (lambda site: site.machine.put("/etc/default/kubelet", "x"), "Drift", "Ready"),
        (lambda site: site.machine.commands.units.update({KUBELET: "failed"}), "FLEX-1501", "Ready"),
        (lambda site: site.api.nodes.update({"edge-1": a_node(ready=False)}), "FLEX-1502", "NotReady"),
        (lambda site: site.api.nodes.clear(), "FLEX-1502", "NotRegistered"),
        (lambda site: site.api.refuse.update({"GET": 503}), "FLEX-1504", "Unknown"),
        (lambda site: site.machine.path(IDENTITY).unlink(), "FLEX-1502", "NotJoined"),
    ],
)
def test_the_status_says_what_is_wrong(site: Site, happens: Any, reason: str, node: str) -> None:
    site.join()
    happens(site)
    before = site.machine.snapshot("/")
    status = status_of(site.machine.host)
    assert (status["reason"], status["node"]["status"]) == (reason, node)
    assert status["message"]
    assert not is_right(status)
    assert site.machine.snapshot("/") == before


def test_a_systemd_that_does_not_answer_makes_no_node_unready(site: Site) -> None:
    site.join()
    site.machine.commands.busy = 10**6
    status = status_of(site.machine.host)
    assert status["node"]["status"] == "Ready"
    assert "units" not in status["node"]


def test_the_status_after_a_failed_join(site: Site) -> None:
    site.api.refuse["GET /version"] = 503
    with pytest.raises(ApiUnreachable):
        site.join()
    status = status_of(site.machine.host)
    assert (status["phase"], status["node"]["ready"]) == ("NodeFailed", False)
    assert status["reason"] == "FLEX-1504"


def test_a_damaged_state_file_is_an_error(site: Site) -> None:
    site.machine.put(f"{DATA_DIR}/state.json", "{")
    with pytest.raises(StateCorrupt):
        status_of(site.machine.host)


def recorded(machine: Machine, *items: dict[str, Any]) -> None:
    machine.put(f"{DATA_DIR}/drift.json", json.dumps({"schema": 2, "checked": 1.0, "items": items}), 0o600)


def an_item(item: str, class_: str, state: str) -> dict[str, Any]:
    return {
        "item": item,
        "class": class_,
        "what": f"{item} is wrong",
        "state": state,
        "since": "2027-01-15T08:00:00+00:00",
        "returns": [],
    }


def test_the_status_adds_what_only_a_drift_check_sees(site: Site) -> None:
    site.join()
    site.machine.put("/etc/systemd/system/kubelet.service.d/99-site.conf", "[Service]\n")
    recorded(
        site.machine,
        an_item("label:gone", "repair", "repaired"),
        an_item("file:/etc/default/kubelet", "repair", "found"),  # right again since the check
    )
    status = status_of(site.machine.host)
    drop_in = "drop-in:/etc/systemd/system/kubelet.service.d/99-site.conf"
    assert [item["item"] for item in status["drift"]] == [drop_in]
    # Another owner's drop-in is listed, and is no reason to do anything.
    assert (status["reason"], in_words(status)["drift"], is_right(status)) == ("NodeJoined", "1 item", True)
    site.api.nodes["edge-1"]["metadata"]["labels"]["site"] = "elsewhere"
    status = status_of(site.machine.host)
    assert (status["reason"], in_words(status)["drift"], is_right(status)) == ("Drift", "2 items", False)
    assert status["message"] == "label site=lab-1: it is elsewhere at the API server"
    site.api.refuse["GET"] = 503  # what the last check saw there stays, until somebody can look again
    recorded(site.machine, an_item("label:site", "repair", "found"))
    assert [item["item"] for item in status_of(site.machine.host)["drift"]] == [drop_in, "label:site"]


def test_an_item_that_another_process_changes_back_is_the_reason(site: Site) -> None:
    site.join()
    site.machine.put("/etc/default/kubelet", "x")
    recorded(site.machine, an_item("file:/etc/default/kubelet", "restart", "contended"))
    status = status_of(site.machine.host)
    assert (status["reason"], len(status["drift"])) == ("DriftContended", 1)
    site.machine.put(f"{DATA_DIR}/drift.json", "{", 0o600)  # damaged: what can be observed counts
    assert status_of(site.machine.host)["reason"] == "Drift"


def test_a_source_that_does_not_answer_is_known_beside_a_node_that_works(site: Site) -> None:
    site.join()
    store = site.machine.store
    store.set_source({"url": "https://example.org/bundle?sig=s3cret", "settled": True})
    store.set_monitoring({"ok": False, "code": "FLEX-1103", "message": "timed out", "since": "2027"})
    status = status_of(site.machine.host)
    assert (status["reason"], verdict_of(status)) == ("FLEX-1103", Verdict.UNKNOWN)
    assert "s3cret" not in json.dumps(status)
    site.machine.put("/etc/default/kubelet", "x")  # what differs on the machine is worse
    status = status_of(site.machine.host)
    assert (status["reason"], verdict_of(status)) == ("Drift", Verdict.WRONG)


def test_a_machine_that_is_leaving_says_so(site: Site) -> None:
    site.join()
    site.machine.store.enter(Phase.RESETTING)
    status = status_of(site.machine.host)
    assert (status["phase"], status["reason"], verdict_of(status)) == (
        "Resetting",
        "Resetting",
        Verdict.WRONG,
    )
