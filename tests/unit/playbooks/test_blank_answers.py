# SPDX-License-Identifier: GPL-3.0-or-later
"""A blank answer of a survey means the default: the same run as if the variable were not set at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.variables import VARIABLES
from ansible_collections.aks.flexnode.plugins.plugin_utils.findings import OF_PLAYS
from tests.unit.controller.fleets import an_answer
from tests.unit.node.tunnels import a_profile
from tests.unit.playbooks.stage import IN_ARC, Stage, arc_hosts, hosts
from tests.unit.playbooks.test_pools import FACTS, INFO, JOINED, machine
from tests.unit.playbooks.test_pools import hosts as pool_hosts

ARC = arc_hosts("arc", autoRoleAssignment=True)
ARC["arc"]["flexnode_config"]["kubernetesAuth"] = {"profile": "token"}  # which needs roles
# One machine for each way through the roles; all variables that it does not name are left open.
FLEET: dict[str, dict[str, Any]] = {
    "bare": {},
    "tunnel": {"flexnode_config": {"azure": {"vpn": {"enabled": True, "profile": a_profile()}}}},
    **ARC,
    **hosts("resource", source="rp"),
    **hosts("clustered", source="cluster"),
    **pool_hosts("pooled"),
}
DATA = {"changed": True, "notes": [], "obtained": 1, "document": {"kubernetes": {"version": "1.34.4"}}}
ALL_AT_ONCE = ("-e", "flexnode_serial=100%")
# Modules that get what these variables say.
REACHED = {
    "bootstrap": {
        "arc_register",
        "flexnode_bootstrap_token",
        "flexnode_config",
        "flexnode_preflight_info",
        "flexnode_reconcile",
        "flexnode_role_assignment",
    },
    "update": {"flexnode_bootstrap_token", "flexnode_config", "flexnode_reconcile"},
    "unbootstrap": {"flexnode_arc_machine", "flexnode_reconcile"},
}
BLANK = dict.fromkeys(sorted(VARIABLES), "")


def answers(stage: Stage) -> None:
    """What lets each machine get to the end of each playbook."""
    left = {"remains": [], "node_name": "gone", "node_remains": "refused"}
    stage.answer(
        arc_register=IN_ARC,
        flexnode_bootstrap_data=DATA,
        flexnode_bootstrap_token={"nodes": []},
        flexnode_cluster_info={"clusters": [FACTS]},
        flexnode_config={"nodes": []},
        flexnode_config_fetch={"config": {}},
        flexnode_machine={"changed": True, "machines": [machine("pooled")]},
        flexnode_pool_info=INFO,
        flexnode_preflight_info={"ok": True, "joined": False, "config_version": "", "table": []},
        flexnode_reconcile={**JOINED, **left},
        flexnode_role_assignment={"assignments": []},
        flexnode_status_info=an_answer("gone"),
    )


def seen(stage: Stage, playbook: str, **variables: Any) -> tuple[list[str], list[str]]:
    """All that modules are asked for, and how each machine ends; sorted, because machines take turns."""
    (stage.directory / "calls").unlink(missing_ok=True)
    of_plays = {name: variables.pop(name) for name in OF_PLAYS if name in variables}
    # A Node that remains fails, and would end the run after the first batch.
    options = (
        "--limit",
        "all",
        "-e",
        json.dumps(of_plays),
        *(ALL_AT_ONCE if playbook == "unbootstrap" else ()),
    )
    stage.play(f"aks.flexnode.{playbook}", FLEET, *options, **variables)
    hidden = ("_ansible", "progress_file")
    calls = [
        json.dumps([name, {key: one for key, one in given.items() if not key.startswith(hidden)}])
        for name, given in stage.calls
    ]
    ends = [line for line in stage.output.splitlines() if line.startswith("fatal: ") or " ok=" in line]
    return sorted(calls), sorted(ends)


@pytest.mark.parametrize("playbook", ["bootstrap", "update", "unbootstrap"])
def test_a_blank_answer_is_the_same_as_none(stage: Stage, playbook: str) -> None:
    answers(stage)
    calls, ends = seen(stage, playbook)
    assert {json.loads(call)[0] for call in calls} >= REACHED[playbook], stage.output
    blank_calls, blank_ends = seen(stage, playbook, **BLANK)
    assert blank_calls == calls, stage.output
    assert blank_ends == ends


@pytest.mark.parametrize(
    ("variables", "playbook", "module", "expected"),
    [
        ({"flexnode_preflight": False}, "bootstrap", "flexnode_reconcile", {"preflight": False}),
        ({"flexnode_preflight": None}, "bootstrap", "flexnode_reconcile", {"preflight": True}),
        ({"flexnode_drain_seconds": 0}, "unbootstrap", "flexnode_reconcile", {"drain_seconds": 0}),
        ({"flexnode_drain_seconds": None}, "unbootstrap", "flexnode_reconcile", {"drain_seconds": 120}),
    ],
    ids=str,
)
def test_no_and_zero_are_answers(
    stage: Stage, variables: dict[str, Any], playbook: str, module: str, expected: dict[str, Any]
) -> None:
    stage.answer(flexnode_reconcile={"changed": False})
    stage.play(f"aks.flexnode.{playbook}", {"a": variables}, "--limit", "a")
    (given,) = (given for name, given in stage.calls if name == module)
    # Before 2.19 Ansible makes texts of numbers and switches.
    assert {name: str(given[name]) for name in expected} == {name: str(one) for name, one in expected.items()}


def test_a_blank_answer_leaves_no_check_out_before_azure_is_asked(stage: Stage) -> None:
    answers(stage)
    stage.answer(flexnode_preflight_info={"ok": False, "table": ["swap: on"]})
    stage.play("aks.flexnode.bootstrap", pool_hosts("pooled", flexnode_preflight=""))
    assert stage.status != 0
    assert "flexnode_machine" not in {name for name, _given in stage.calls}


def test_blank_answers_about_azure_and_test_pods(stage: Stage) -> None:
    stage.answer(flexnode_config={"nodes": []}, flexnode_reconcile={"changed": False})
    blank = {"flexnode_update_secret": "", "flexnode_token_hours": "", "flexnode_proof_timeout": ""}
    fleet = hosts("a", source="rp")
    stage.play("aks.flexnode.config_put", fleet, **blank)
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_proof=True, flexnode_kubeconfig="/k", **blank)
    given = dict(stage.calls)
    assert given["flexnode_config"]["update_secret"] == "on_create"
    assert str(given["flexnode_proof"]["timeout"]) == "120"


def test_no_roles_and_no_wait_are_answers(stage: Stage) -> None:
    answers(stage)
    none = {"flexnode_arc_roles": [], "flexnode_arc_wait_seconds": 0}
    stage.play("aks.flexnode.bootstrap", {"arc": {**ARC["arc"], **none}})
    assert stage.status == 0, stage.output
    # It is called once, so that it does not wait.
    assert [given["roles"] for name, given in stage.calls if name == "arc_register"] == [[]]
    assigned = [given for name, given in stage.calls if name == "flexnode_role_assignment"]
    assert [given["state"] for given in assigned] == ["absent"]  # those of earlier runs
