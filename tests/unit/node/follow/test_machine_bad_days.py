# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node of a pool when things come together: a failure in an upgrade, a reboot in a deletion, a push."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.node import sites
from tests.unit.node.fake_api import a_node
from tests.unit.node.fake_arm import arm_error
from tests.unit.node.fake_pool import GET, LIST_DATA, Edge, an_edge
from tests.unit.node.fakes import Machine
from tests.unit.node.follow.test_machine import NEW, TAINT, deleted_by_aks, registers
from tests.unit.node.servers import Pki
from tests.unit.node.sites import IDENTITY, also


@pytest.fixture
def joined(debian: Machine, pki: Pki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Edge]:
    """Joined, and seen once in Azure."""
    with an_edge(debian, pki, tmp_path, monkeypatch) as edge:
        edge.settings(
            {"mirror": {"catalogue": also(NEW)["mirror"]["catalogue"]}, "drift": {"mode": "report"}}
        )
        assert edge.join() == 0
        assert edge.poll() == 0
        edge.arm.server.requests.clear()
        yield edge


def test_an_upgrade_that_a_mirror_delayed_is_installed_without_a_second_deletion(
    joined: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AKS deletes the Node once, and waits until it is back with the new version."""
    etag = joined.arm.goal(orchestratorVersion=NEW)
    assert joined.later() == 0
    del joined.site.api.nodes["edge-1"]
    with monkeypatch.context() as cut:
        cut.delitem(sites.FILES, "kubelet")
        assert joined.later(30) == 3
    assert joined.source()["blocked"]["retryAt"], "it is tried again"
    assert joined.later(30) == 0
    assert "edge-1" in joined.site.api.nodes, "meanwhile the node works as before"
    registers(joined, NEW)
    assert joined.later(60) == 0
    assert joined.current()["kubernetes"]["version"] == NEW
    assert (joined.source()["configVersion"], joined.source()["settled"]) == (etag, True)


# -- a lost certificate ------------------------------------------------------------------------------------


def test_a_new_certificate_does_not_make_a_failed_version_the_applied_one(joined: Edge) -> None:
    applied = joined.source()["configVersion"]
    etag = joined.arm.goal(orchestratorVersion="9.9.9")
    del joined.site.api.nodes["edge-1"]
    assert joined.later(30) == 3
    code = joined.trouble()["code"]
    joined.machine.path(IDENTITY).unlink()
    assert joined.later(30) == 0
    assert joined.machine.path(IDENTITY).exists()
    assert joined.machine.store.config_version() == applied
    assert joined.machine.store.state()["appliedVersion"] == applied
    assert joined.source()["configVersion"] == applied
    assert joined.source()["blocked"]["configVersion"] == etag
    assert joined.trouble()["code"] == code
    assert joined.later() == 0
    assert joined.source()["blocked"]["configVersion"] == etag, "and it is not tried once more"


def test_a_machine_that_was_deleted_while_the_host_was_off_gets_no_new_certificate(joined: Edge) -> None:
    deleted_by_aks(joined, taint=False)
    del joined.site.api.nodes["edge-1"]
    joined.machine.path(IDENTITY).unlink()
    for _ in range(3):
        joined.later(301)
    assert joined.arm.asked(LIST_DATA) == 0
    assert "edge-1" not in joined.site.api.nodes
    assert joined.is_node
    assert joined.trouble()["code"] == "FLEX-1116"


def test_a_node_that_aks_deletes_leaves_without_its_certificate(joined: Edge) -> None:
    deleted_by_aks(joined, machine=False)
    assert joined.later(30) == 0
    joined.machine.path(IDENTITY).unlink()
    deleted_by_aks(joined, taint=False)
    assert joined.later(30) == 0
    assert joined.is_node
    joined.later(30)
    assert not joined.is_node
    assert joined.arm.asked(LIST_DATA) == 0


def test_a_throttled_renewal_does_not_wait_while_it_holds_the_lease(joined: Edge) -> None:
    joined.machine.path(IDENTITY).unlink()
    joined.arm.answers[LIST_DATA] = arm_error(429, "TooManyRequests")
    before = joined.machine.clock.time
    assert joined.later(30) == 3
    assert joined.machine.clock.time < before + 60
    assert joined.arm.asked(LIST_DATA) == 1
    del joined.arm.answers[LIST_DATA]
    assert joined.later(301) == 0
    assert joined.machine.path(IDENTITY).exists()


def test_a_missing_resource_group_is_not_a_deleted_machine(joined: Edge) -> None:
    """A kubelet without its certificate asks whether its machine is there."""
    joined.machine.path(IDENTITY).unlink()
    about = "Resource group 'rg' could not be found."
    joined.arm.answers[GET] = arm_error(404, "ResourceGroupNotFound", about)
    assert joined.later(30) == 3
    assert joined.is_node
    trouble = joined.trouble()
    assert trouble["code"] == "FLEX-1111"
    assert f"ResourceGroupNotFound: {about}" in trouble["message"]


# -- a boot while AKS deletes the node ---------------------------------------------------------------------


def booted_while_deleted(edge: Edge) -> None:
    """AKS marks the Node and removes it; a boot registers another one, which has no mark."""
    edge.node["metadata"]["uid"] = "first"
    edge.node["spec"]["taints"] = [TAINT]
    assert edge.later(30) == 0
    edge.site.api.nodes["edge-1"] = a_node(labels={"site": "lab-1"})
    edge.node["metadata"]["uid"] = "second"


def test_a_boot_does_not_make_a_deleted_machine_stay(
    joined: Edge, capsys: pytest.CaptureFixture[str]
) -> None:
    booted_while_deleted(joined)
    deleted_by_aks(joined, taint=False)
    joined.site.api.refuse["DELETE /api/v1/nodes"] = 403
    assert joined.later(30) == 0
    assert joined.is_node
    joined.later(30)
    assert not joined.is_node
    assert "kubectl delete node edge-1" in capsys.readouterr().out, "AKS does not know the new Node"


def test_a_deletion_that_was_called_off_is_forgotten_after_a_boot(joined: Edge) -> None:
    booted_while_deleted(joined)
    assert joined.later(30) == 0
    assert "deleting" not in joined.source()
    assert "marked" not in joined.source()
    deleted_by_aks(joined, taint=False)
    for _ in range(3):
        assert joined.later() == 0
    assert joined.is_node, "the machine alone is missing, as long as nothing is marked again"


def test_a_mark_that_someone_removed_is_no_mark(joined: Edge) -> None:
    joined.node["metadata"]["uid"] = "first"
    joined.node["spec"]["taints"] = [TAINT]
    assert joined.later(30) == 0
    joined.node["spec"]["taints"] = []
    deleted_by_aks(joined, taint=False)
    for _ in range(4):
        assert joined.later(301) == 0
    assert joined.is_node


# -- a push --------------------------------------------------------------------------------------------------


def test_a_document_that_was_pushed_during_a_poll_is_not_undone(
    joined: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll has read the stored document, and asks Azure; meanwhile a push stores and applies another."""
    etag = joined.arm.goal(nodeLabels={"site": "lab-2"})
    pushed = {**joined.current(), "upgrade": {"drain": "always"}}

    shown = joined.arm.shown

    def meanwhile(name: str) -> dict[str, Any]:
        joined.machine.store.set_current_config(pushed, joined.source()["configVersion"])
        joined.machine.store.set_applied_config(pushed, joined.source()["configVersion"])
        return shown(name)

    with monkeypatch.context() as push:
        push.setattr(joined.arm, "shown", meanwhile)
        assert joined.later() == 0
    assert joined.current()["upgrade"] == {"drain": "always"}
    assert joined.later() == 0
    assert joined.current()["upgrade"] == {"drain": "always"}
    assert joined.current()["node"]["labels"] == {"site": "lab-2"}
    assert joined.source()["configVersion"] == etag
