# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, aks.flexnode contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""A node whose host name changes: its Node keeps the name of its certificate, and the change is reported."""

from __future__ import annotations

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.node.cli import main
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.parse import parse
from ansible_collections.aks.flexnode.plugins.module_utils.node.drift.record import REPORTED
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.name import own_name
from ansible_collections.aks.flexnode.plugins.module_utils.node.engine.records.state import DATA_DIR, Phase
from ansible_collections.aks.flexnode.plugins.module_utils.node.node_object.this_node import ThisNode
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.leave import leave
from ansible_collections.aks.flexnode.plugins.module_utils.node.operations.obtain import obtain, store_config
from ansible_collections.aks.flexnode.plugins.module_utils.node.sources.source import Inline
from ansible_collections.aks.flexnode.plugins.module_utils.node.status.document import status_of
from tests.unit.node.drift.conftest import Drifting
from tests.unit.node.sites import KUBELET

HOSTNAME = "/proc/sys/kernel/hostname"
FLAGS = "/etc/default/kubelet"
RENAMED = "plant-7-line-2"


def rename(on: Drifting, name: str = RENAMED) -> None:
    """A new host name. A kubelet under a name that its certificate does not have would register nothing."""
    on.machine.commands.on_start[KUBELET] = lambda: None
    on.machine.put(HOSTNAME, f"{name}\n")


def restarts(on: Drifting) -> int:
    return on.machine.commands.times("systemctl", "restart")


@pytest.mark.parametrize("name", [RENAMED, "localhost"])
def test_a_new_host_name_is_reported_and_changes_nothing(drifting: Drifting, name: str) -> None:
    flags, before = drifting.machine.text(FLAGS), restarts(drifting)
    rename(drifting, name)
    status, said = drifting.check()
    assert status == 0
    assert "agent.nodeName to edge-1" in said
    assert "unbootstrap" in said
    assert (drifting.machine.text(FLAGS), restarts(drifting)) == (flags, before)
    assert drifting.item(f"host-name:{name}").state == REPORTED
    assert drifting.machine.store.state()["phase"] == Phase.NODE_JOINED.value
    assert status_of(drifting.machine.host)["node"]["ready"], "it is asked for by the name of its Node"
    drifting.machine.put(HOSTNAME, "edge-1\n")
    assert drifting.check() == (0, "")
    assert drifting.record.items == ()


def test_an_administrator_who_updates_a_renamed_machine_keeps_its_node(drifting: Drifting) -> None:
    flags = drifting.machine.text(FLAGS)
    rename(drifting)
    assert drifting.plan() == "nothing to do\n"
    assert main(["update"], drifting.machine.host) == 0
    assert drifting.machine.text(FLAGS) == flags
    assert drifting.machine.store.state()["phase"] == Phase.NODE_JOINED.value


def test_the_present_name_in_the_configuration_ends_the_report(drifting: Drifting) -> None:
    rename(drifting)
    assert drifting.check()[0] == 0
    store_config(drifting.machine.host, Inline(drifting.site.document), {"agent": {"nodeName": "edge-1"}})
    before = restarts(drifting)
    assert main(["update"], drifting.machine.host) == 0
    assert restarts(drifting) == before
    assert drifting.check() == (0, "")
    assert drifting.record.items == ()


def test_a_node_of_an_earlier_release_has_the_name_that_its_kubelet_runs_with(drifting: Drifting) -> None:
    store = drifting.machine.store
    facts = store.state()["facts"]
    assert facts.pop("hostname") == "edge-1"
    store.note(facts=facts)
    rename(drifting)
    assert main(["update"], drifting.machine.host) == 0
    assert store.state()["facts"]["hostname"] == "edge-1", "from now on it is stored"
    assert "--hostname-override=edge-1 " in drifting.machine.text(FLAGS)


def test_after_it_has_left_a_machine_has_its_host_name_again(drifting: Drifting) -> None:
    rename(drifting)
    config = parse(drifting.site.document)
    left = leave(drifting.machine.host, drain_seconds=0)
    assert left.node == "edge-1", "the Node that is deleted is the one that it was"
    drifting.machine.put(FLAGS, 'KUBELET_FLAGS="--hostname-override=of-another-owner"\n')
    assert ThisNode.of(drifting.machine.host, config).name == RENAMED


def test_a_damaged_state_is_not_reported_by_the_name(drifting: Drifting) -> None:
    drifting.machine.put(f"{DATA_DIR}/state.json", "{")
    assert own_name(drifting.machine.host) == "edge-1"


def test_who_has_left_joins_under_the_new_name(drifting: Drifting) -> None:
    """Also if something could not be restored, and the next unbootstrap tries that again."""
    machine = drifting.machine
    count = machine.path("/sys/module/overlay/refcnt")
    count.unlink()
    count.mkdir()  # its state can't be read
    assert leave(machine.host, drain_seconds=0).remains
    machine.put(HOSTNAME, "plant-7\n")
    document = drifting.site.document
    assert obtain(machine.host, Inline(document), {}).node.name == "plant-7"
    named = {"agent": {"nodeName": "plant-8"}}
    assert obtain(machine.host, Inline(document), named).node.name == "plant-8"


@pytest.mark.parametrize("content", ["{", None])
def test_a_lost_state_does_not_hide_the_name(drifting: Drifting, content: str | None) -> None:
    machine = drifting.machine
    machine.put(HOSTNAME, "plant-7\n")
    if content is None:
        machine.path(f"{DATA_DIR}/state.json").unlink()
        assert drifting.plan() == "nothing to do\n"
    else:
        machine.put(f"{DATA_DIR}/state.json", content)
    left = leave(machine.host, drain_seconds=0)
    assert (left.node, left.node_remains) == ("edge-1", "")
    assert drifting.site.api.nodes == {}
