# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A machine that has the name of another node: it does not become that Node, and does not remove it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.check import check_drift
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import REPORTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.reporter import (
    BOOT_ID,
    NodeOfAnother,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.annotation import STATUS
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.publish import publish
from tests.unit.node.fake_api import a_pod
from tests.unit.node.node_object.test_reporter import ANOTHER, BOOT, MACHINE, by
from tests.unit.node.servers import Pki
from tests.unit.node.sites import KUBELET, Site


@pytest.fixture
def named(site: Site) -> Site:
    """A machine whose kubelet can be told from others."""
    site.machine.put(BOOT_ID, f"{BOOT}\n")
    site.machine.put("/etc/machine-id", f"{MACHINE}\n")
    return site


def reports(site: Site, pki: Pki, *, then_other: float | None = None) -> Callable[[], None]:
    """A kubelet that starts, and reports; the one of another machine does the same some seconds later."""

    def starts() -> None:
        site.kubelet_starts(pki)
        labels = site.api.nodes["edge-1"]["metadata"]["labels"]
        site.api.nodes["edge-1"] = by(labels=labels)
        began = site.machine.clock.time

        def passes() -> None:
            turn = then_other is not None and (site.machine.clock.time - began) % 10 >= then_other
            if site.machine.commands.units[KUBELET] != "active" or turn:
                site.api.nodes["edge-1"] = by("other-boot", labels=labels)
            else:
                site.api.nodes["edge-1"] = by(labels=labels)

        site.machine.clock.then = passes if then_other is not None else lambda: None

    return starts


def test_a_first_join_under_the_name_of_another_node_fails_and_stops_the_kubelet(
    named: Site, pki: Pki
) -> None:
    named.machine.commands.on_start[KUBELET] = reports(named, pki, then_other=3)
    with pytest.raises(NodeOfAnother) as caught:
        named.join()
    assert ANOTHER in caught.value.what
    assert "kubelet is stopped" in caught.value.why
    assert named.machine.commands.units[KUBELET] == "inactive"
    assert not named.machine.path("/etc/systemd/system/multi-user.target.wants/kubelet.service").exists()
    status = status_of(named.machine.host)
    assert (status["reason"], status["node"]["ready"]) == (NodeOfAnother.code, False)
    assert STATUS not in named.api.nodes["edge-1"]["metadata"].get("annotations", {}), "not its Node"
    left = leave(named.machine.host)
    assert (left.node_remains, list(named.api.nodes)) == ("", ["edge-1"])
    named.machine.commands.on_start[KUBELET] = reports(named, pki)
    named.join()  # the other one has another name now
    assert named.machine.store.state()["phase"] == "NodeJoined"


def test_leaving_neither_drains_nor_deletes_the_node_of_another_machine(named: Site, pki: Pki) -> None:
    named.machine.commands.on_start[KUBELET] = reports(named, pki)
    named.join()
    named.api.pods = [a_pod("theirs")]
    others = by("other-boot")
    named.machine.clock.then = lambda: named.api.nodes.update({"edge-1": others})
    report = leave(named.machine.host)
    assert (list(named.api.nodes), [pod["metadata"]["name"] for pod in named.api.pods]) == (
        ["edge-1"],
        ["theirs"],
    )
    assert named.api.nodes["edge-1"] == others, "neither cordoned nor patched"
    assert report.remains == [
        f"Node edge-1 is reported by another machine ({ANOTHER}): it is left to that machine"
    ]
    assert report.complaints == [f"left: {report.remains[0]}"], "nobody is told to delete it"
    assert (report.node, report.node_remains) == ("edge-1", ""), "a playbook does not delete it either"
    assert named.machine.commands.units[KUBELET] == "inactive"
    assert not named.machine.path("/etc/systemd/system/kubelet.service").exists()


def test_two_machines_that_take_turns_are_reported_for_as_long_as_both_do(named: Site, pki: Pki) -> None:
    machine, host, store = named.machine, named.machine.host, named.machine.store
    machine.commands.on_start[KUBELET] = reports(named, pki)
    named.join()
    ours = named.api.nodes["edge-1"]
    labels = ours["metadata"]["labels"]
    assert check_drift(host, store, machine.clock.now()).record.items == ()
    named.api.nodes["edge-1"] = by("other-boot", labels=labels)
    found = check_drift(host, store, machine.clock.now())
    (item,) = found.record.items
    assert (item.item, item.state, found.repairs) == ("machine:edge-1", REPORTED, frozenset())
    assert ANOTHER in item.what
    assert "agent.nodeName" in item.what
    found.record.keep(store, machine.clock.now())
    status = publish(host, store)
    assert (status["reason"], status["node"]["ready"]) == (NodeOfAnother.code, False)
    assert "agent.nodeName" in status["fix"]
    assert [one["item"] for one in status["drift"]] == ["machine:edge-1"]
    # This one reported last, the other one does so a moment later: it is no news, and still true.
    named.api.nodes["edge-1"] = ours
    machine.clock.then = lambda: named.api.nodes.update({"edge-1": by("other-boot", labels=labels)})
    assert check_drift(host, store, machine.clock.now()).record.same(found.record)
    named.api.nodes["edge-1"] = ours
    machine.clock.then = lambda: None
    assert check_drift(host, store, machine.clock.now()).record.items == ()
