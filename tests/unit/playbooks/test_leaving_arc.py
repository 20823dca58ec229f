# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of Azure Arc that leave: rights and registrations are removed by the controller."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.unit.playbooks.stage import IN_ARC, LEFT, NAMED, Stage, arc_hosts

REFUSED = {"failed": True, "msg": "FLEX-1701: nobody is signed in", "error": {"code": "FLEX-1701"}}


def deleted(*hosts_: str, action: str = "deleted") -> dict[str, Any]:
    return {
        "machines": [{"name": host, "machine_id": "/m", "action": action, "reason": "r"} for host in hosts_]
    }


def in_arc(host: str) -> str:
    return str(IN_ARC["resource_id"]).replace("{host}", host)


@pytest.mark.parametrize("module", ["flexnode_role_assignment", "flexnode_arc_machine"])
def test_what_is_refused_once_is_told_of_each_machine_and_stops_none(stage: Stage, module: str) -> None:
    stage.answer(
        flexnode_reconcile={"changed": True, "remains": [], "node_name": "gone", "node_remains": "refused"},
        arc_register=IN_ARC,
        flexnode_role_assignment={"assignments": []},
        flexnode_config_blob={"nodes": []},
        flexnode_node={"changed": True},
    )
    stage.answer(**{module: REFUSED})
    fleet = arc_hosts("a", "b", "c", source="blob", autoRoleAssignment=True)
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED, flexnode_kubeconfig="/k")
    assert stage.asked("flexnode_config_blob") == [["a", "b", "c"]], stage.output
    assert sorted(stage.asked("flexnode_node")) == [["a"], ["b"], ["c"]]
    for host in ("a", "b", "c"):
        assert re.search(rf"fatal: \[{host}\].*this remains:.*in Azure Arc: FLEX-1701", stage.output)
    assert stage.status != 0


@pytest.mark.parametrize("module", ["flexnode_role_assignment", "flexnode_arc_machine"])
def test_role_arc_alone_fails_with_the_reason(stage: Stage, module: str) -> None:
    stage.answer(**{"arc_register": IN_ARC, "flexnode_role_assignment": {"assignments": []}, module: REFUSED})
    book = stage.directory / "book.yml"
    task = {"ansible.builtin.import_role": {"name": "aks.flexnode.arc", "tasks_from": "absent"}}
    book.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    stage.play(str(book), arc_hosts("a", "b"))
    assert stage.status != 0
    for host in ("a", "b"):
        assert re.search(rf"fatal: \[{host}\].*FLEX-1701", stage.output), stage.output
    gave_back = [
        given for name, given in stage.calls if name == "arc_register" and given["state"] == "absent"
    ]
    assert gave_back == []


def test_the_controller_deletes_a_registration_and_the_machine_gets_no_token(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register={**IN_ARC, "remains": ["/m: delete it in Azure"]})
    stage.answer(flexnode_arc_machine=deleted("a", "b"))
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", "b"), *NAMED)
    assert stage.status == 0, stage.output
    (asked,) = [given["machines"] for name, given in stage.calls if name == "flexnode_arc_machine"]
    assert asked == [{"name": host, "machine_id": in_arc(host), "vm_id": "v1"} for host in "ab"]
    gone = [given for name, given in stage.calls if name == "arc_register"]
    assert [(given["local_only"], given.get("access_token")) for given in gone] == [(True, None)] * 2
    assert "delete it in Azure" not in stage.output


@pytest.mark.parametrize("action", ["kept", "failed"])
def test_a_registration_that_stays_is_told_of_its_machine_alone(stage: Stage, action: str) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register=IN_ARC)
    answers = [*deleted("a")["machines"], *deleted("b", action=action)["machines"]]
    stage.answer(flexnode_arc_machine={"failed": action == "failed", "msg": "all", "machines": answers})
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", "b"), *NAMED)
    assert re.search(r"fatal: \[b\].*registration /m was not deleted: r", stage.output), stage.output
    assert not re.search(r"fatal: \[a\]", stage.output)


def test_a_leaving_machine_deletes_nothing_by_its_own_word(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_info=IN_ARC)
    stage.play("aks.flexnode.unbootstrap", {"a": {}}, *NAMED)
    assert not [params for name, params in stage.calls if name == "flexnode_arc_machine"]
    (left,) = [params for name, params in stage.calls if name == "arc_register"]
    assert left["local_only"] is True


# --- what fails is the machine's own ------------------------------------------------------------------------

FAILS_FOR_B = """
failures = [{"machine_id": node["machine_id"], "code": "FLEX-1704", "msg": "FLEX-1704: roles of b stay"}
            for node in given["nodes"] if node["machine_id"].endswith("/b")]
if failures:
    answer = {"failed": True, "msg": "all", "error": {"code": "FLEX-1704"}, "failures": failures}
"""


def unregistered(stage: Stage) -> list[list[str]]:
    """The hosts whose registrations were deleted, per call."""
    asked = [given["machines"] for name, given in stage.calls if name == "flexnode_arc_machine"]
    return [[one["name"] for one in machines] for machines in asked]


def test_roles_that_stay_keep_the_registration_of_no_other_machine(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register=IN_ARC, flexnode_arc_machine=deleted("a", "c"))
    stage.answer_by_code("flexnode_role_assignment", FAILS_FOR_B, {"assignments": []})
    fleet = arc_hosts("a", "b", "c", autoRoleAssignment=True)
    stage.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert unregistered(stage) == [["a", "c"]], stage.output
    assert re.search(r"fatal: \[b\].*this remains:.*in Azure Arc: FLEX-1704: roles of b stay", stage.output)
    assert not re.search(r"fatal: \[[ac]\].*this remains", stage.output)
    left = [given["host"] for name, given in stage.calls if name == "arc_register"]
    assert sorted(left) == ["a", "c"]


def test_a_batch_cleans_up_its_own_machines(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT, arc_register=IN_ARC, flexnode_arc_machine=deleted("a", "b", "c"))
    stage.answer(flexnode_role_assignment={"assignments": []}, flexnode_identity_binding={"nodes": []})
    fleet = arc_hosts("a", "b", "c", autoRoleAssignment=True)
    stage.play("aks.flexnode.unbootstrap", fleet, "-e", "flexnode_hosts=all", "-e", "flexnode_serial=1")
    assert stage.status == 0, stage.output
    assert unregistered(stage) == [["a"], ["b"], ["c"]]
    for module in ("flexnode_role_assignment", "flexnode_identity_binding"):
        assert stage.asked(module) == [["a"], ["b"], ["c"]]


def test_a_copy_that_leaves_takes_nothing_from_the_original(stage: Stage) -> None:
    stage.answer(flexnode_reconcile=LEFT)
    stage.answer(arc_info={**IN_ARC, "resource_id": in_arc("original")})
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", autoRoleAssignment=True), *NAMED)
    assert re.search(r"fatal: \[a\].*not the machine of the inventory.*force-local-only", stage.output)
    asked = {name for name, _given in stage.calls}
    assert not asked & {"flexnode_role_assignment", "flexnode_identity_binding", "flexnode_arc_machine"}


def test_what_may_be_left_of_a_registration_that_someone_deleted_is_shown(stage: Stage) -> None:
    stage.answer(
        flexnode_reconcile=LEFT, arc_register=IN_ARC, flexnode_arc_machine=deleted("a", action="absent")
    )
    gone = [{"name": "a", "machine_id": in_arc("a"), "command": "az role assignment list --scope x"}]
    stage.answer(flexnode_role_assignment={"assignments": [], "gone": gone})
    stage.play("aks.flexnode.unbootstrap", arc_hosts("a", autoRoleAssignment=True), *NAMED)
    assert stage.status == 0, stage.output
    assert "az role assignment list --scope x" in stage.output
