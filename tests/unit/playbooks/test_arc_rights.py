# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights of machines of Azure Arc: given by what the inventory says, taken back after the join."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request
from tests.unit.playbooks.stage import AKS, IN_ARC, Stage, arc_hosts, hosts


def joins(stage: Stage, fleet: dict[str, dict[str, Any]], **variables: Any) -> None:
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0, **variables)
    assert stage.status == 0, stage.output


LIE = {
    "azure": {
        "arc": {
            "enabled": True,
            "autoRoleAssignment": True,
            "resourceGroup": "other",
            "machineName": "other",
        },
        "targetCluster": {"resourceId": f"{AKS}-2", "location": "westeurope"},
        "tenantId": "t",
    },
    "kubernetesAuth": {"profile": "token"},
}


@pytest.mark.parametrize("source", ["inline", "url"])
def test_what_a_machine_returns_gives_it_no_rights(stage: Stage, source: str) -> None:
    other = IN_ARC["resource_id"].replace("/rg/", "/other/").replace("edge", "other")
    stage.answer(
        arc_register={**IN_ARC, "resource_id": other},
        flexnode_config_fetch={"config": LIE, "arc": arc_request(LIE)},
    )
    joins(stage, arc_hosts("a", source=source))
    names = [name for name, _given in stage.calls]
    assert "arc_register" in names
    assert not {"flexnode_role_assignment", "flexnode_identity_binding"} & set(names)
    (registered,) = [given for name, given in stage.calls if name == "arc_register" and "cloud" in given]
    assert registered["resource_group"] == ("other" if source == "url" else "rg")


def test_a_configuration_url_gives_what_the_inventory_says(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": LIE, "arc": arc_request(LIE)})
    joins(stage, arc_hosts("a", source="url", autoRoleAssignment=True))
    bound = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert [(one.get("state", ""), one["nodes"][0]["cluster_id"]) for one in bound] == [
        ("", AKS),
        ("absent", AKS),
    ]
    roles = [given["nodes"] for name, given in stage.calls if name == "flexnode_role_assignment"]
    assert all(set(node["roles"]) and node["cluster_id"] == AKS for nodes in roles for node in nodes)
    assert len(roles) == 1, "those of a kubelet with tokens are surplus, and were not given"


def test_a_configuration_is_not_stored_before_preflight(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, arc_hosts("a"))
    fetched = [given for name, given in stage.calls if name == "flexnode_config_fetch"]
    assert [given["_ansible_check_mode"] for given in fetched] == [True]


@pytest.mark.parametrize(("changed", "logins"), [(True, 1), (False, 0)])
def test_a_right_of_an_earlier_run_is_taken_back_by_the_join(
    stage: Stage, changed: bool, logins: int
) -> None:
    """The earlier run gave it and failed; this one finds it there. An unchanged one needs no login."""
    stage.answer(arc_register={**IN_ARC, "missing_roles": []}, flexnode_config_fetch={"config": {}})
    stage.answer(flexnode_reconcile={"changed": changed})
    joins(stage, arc_hosts("a", "b", autoRoleAssignment=True), flexnode_arc_kubeconfig="/admin")
    calls = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert [(given["state"], given["kubeconfig"]) for given in calls] == [("absent", "/admin")] * logins


def test_the_kubeconfig_that_deletes_nodes_binds_nobody(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, arc_hosts("a", autoRoleAssignment=True), flexnode_kubeconfig="/k")
    calls = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    assert len(calls) == 2
    assert all("kubeconfig" not in given for given in calls)


@pytest.mark.parametrize("source", ["inline", "url"])
def test_the_password_of_a_proxy_is_in_no_output(stage: Stage, source: str) -> None:
    shown = {"azure": LIE["azure"], "proxy": {"https": "<minted at apply>"}}
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": shown, "arc": arc_request(shown)})
    fleet = arc_hosts("a", source=source)
    if source == "inline":
        fleet["a"]["flexnode_config"]["proxy"] = {"https": "http://user:pw-very-secret@proxy:3128"}
    stage.verbosity = 2
    joins(stage, fleet)
    assert "pw-very-secret" not in stage.output
    told = [given.get("proxy") for name, given in stage.calls if name == "arc_register" and "cloud" in given]
    assert told == (["http://user:pw-very-secret@proxy:3128"] if source == "inline" else [None])


def test_who_reads_a_cluster_need_not_be_its_administrator_where_nobody_wants_a_token(stage: Stage) -> None:
    stage.answer(
        arc_register=IN_ARC,
        flexnode_cluster_info={"clusters": []},
        flexnode_bootstrap_token={"failed": True, "msg": "FLEX-1702: not allowed"},
        flexnode_config_fetch={"config": {}},
    )
    joins(stage, arc_hosts("a", source="cluster"))
    assert re.search(r"were not\s+checked: FLEX-1702", stage.output)
    stage.play("aks.flexnode.bootstrap", {**arc_hosts("a", source="cluster"), **hosts("b", source="cluster")})
    assert stage.status != 0
    assert re.search("fatal: .*FLEX-1702", stage.output)
    (nodes,) = [given["nodes"] for name, given in stage.calls if name == "flexnode_bootstrap_token"][1:]
    assert [(node["name"], node["token"]) for node in nodes] == [("a", False), ("b", True)]


def test_one_machine_that_names_another_stops_no_other(stage: Stage) -> None:
    stage.answer(arc_info=IN_ARC, arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    fleet = arc_hosts("a", autoRoleAssignment=True)
    fleet["b"] = arc_hosts("b", autoRoleAssignment=True, machineName="another")["b"]
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0)
    assert re.search(r"fatal: \[b\].*not the machine of the inventory", stage.output), stage.output
    assert [params for name, params in stage.calls if name == "flexnode_reconcile"], "a joins"
