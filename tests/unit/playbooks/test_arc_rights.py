# SPDX-License-Identifier: GPL-3.0-or-later
"""Rights of machines of Azure Arc: given by what the inventory says, taken back after the join."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import arc_request
from tests.unit.playbooks.stage import AKS, IN_ARC, Stage, arc_hosts, hosts, touched


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
    other = IN_ARC["resource_id"].replace("/rg/", "/other/").replace("{host}", "other")
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


# --- which machine a host is in Arc -------------------------------------------------------------------------


def joined(stage: Stage) -> list[str]:
    return sorted(given["host"] for name, given in stage.calls if name == "flexnode_reconcile")


def granted(stage: Stage) -> list[str]:
    """The machines whose roles were assigned, by the last part of their ids."""
    asked = [given for name, given in stage.calls if name == "flexnode_role_assignment"]
    nodes = [node for given in asked if "state" not in given for node in given["nodes"]]
    return [node["machine_id"].rpartition("/")[2] for node in nodes]


ROLES = {"autoRoleAssignment": True}


def follows(*names: str, **of_arc: Any) -> dict[str, dict[str, Any]]:
    """Machines that need a role in Azure."""
    fleet = arc_hosts(*names, **of_arc)
    for one in fleet.values():
        one["flexnode_config"]["continuousMonitoring"] = True
    return fleet


def test_the_controller_names_a_machine_that_the_document_does_not_name(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}, "arc": arc_request({})})
    fleet = follows("a", "b", **ROLES)
    fleet["b"]["flexnode_host_config"] = {"agent": {"nodeName": "b"}, "azure": {"arc": {"machineName": "B"}}}
    fleet |= follows("c", source="url", **ROLES)
    document = {"azure": {"arc": {"enabled": True}}, "agent": {"nodeName": "of-the-url"}}
    stage.answer(flexnode_config_fetch={"config": {}, "arc": arc_request(document)})
    joins(stage, fleet)
    named = {given["host"]: given["machine_name"] for name, given in stage.calls if name == "arc_register"}
    assert named == {"a": "a", "b": "B", "c": "c"}
    assert granted(stage) == ["a", "b", "c"]


def test_a_machine_that_is_registered_under_another_name_gets_no_rights(stage: Stage) -> None:
    """A copy of a disk, or a machine that lies: it could name any machine of the resource group."""
    another = {**IN_ARC, "resource_id": IN_ARC["resource_id"].replace("{host}", "another")}
    stage.answer(flexnode_config_fetch={"config": {}})
    for module in ("arc_info", "arc_register"):
        stage.answer_by_host(module, IN_ARC, b=another)
    stage.play("aks.flexnode.bootstrap", follows("a", "b", **ROLES), flexnode_arc_wait_seconds=0)
    assert re.search(r"fatal: \[b\].*set azure.arc.machineName: another for b in the inventory", stage.output)
    assert (granted(stage), joined(stage)) == (["a"], ["a"])


def test_copies_of_one_disk_get_no_rights(stage: Stage) -> None:
    """Also if the copy has failed before: it has the same identity."""
    a = {**IN_ARC, "resource_id": IN_ARC["resource_id"].replace("{host}", "a")}
    stage.answer(flexnode_config_fetch={"config": {}})
    stage.answer_by_host("arc_info", IN_ARC, b=a)
    stage.answer_by_host("arc_register", IN_ARC, b={"failed": True, "msg": "FLEX-1813: registered as a"})
    stage.play("aks.flexnode.bootstrap", follows("a", "b", "c", **ROLES), flexnode_arc_wait_seconds=0)
    assert re.search(r"fatal: \[a\].*a, b report to be the same.*force-local-only", stage.output), (
        stage.output
    )
    assert re.search(r"fatal: \[b\].*FLEX-1813: registered as a", stage.output)
    assert (granted(stage), joined(stage)) == (["c"], ["c"])


@pytest.mark.parametrize("name", ["192.0.2.7", "a" * 55])
def test_a_host_that_can_not_lend_its_name_is_refused_before_anything_is_asked(
    stage: Stage, name: str
) -> None:
    stage.play("aks.flexnode.bootstrap", arc_hosts(name, **ROLES))
    assert stage.status != 0
    assert "set azure.arc.machineName" in stage.output, stage.output
    assert stage.calls == []


# --- failures are those of single machines ------------------------------------------------------------------

FAILS_FOR_B = """
if "state" not in given:
    answer = {"failed": True, "msg": "all", "error": {"code": "FLEX-1703"}, "failures": [
        {"machine_id": node["machine_id"], "code": "FLEX-1703", "msg": "FLEX-1703: no machine b"}
        for node in given["nodes"] if node["machine_id"].endswith("/b")]}
"""


@pytest.mark.parametrize("module", ["flexnode_role_assignment", "flexnode_identity_binding"])
def test_a_machine_whose_rights_can_not_be_granted_stops_no_other(stage: Stage, module: str) -> None:
    """Neither other machines of Arc nor those without it."""
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    stage.answer_by_code(module, FAILS_FOR_B)
    fleet = {**follows("a", "b", **ROLES), **hosts("c", source="inline")}
    fleet["c"].pop("flexnode_cluster_id")
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0)
    assert re.search(r"fatal: \[b\].*FLEX-1703: no machine b", stage.output), stage.output
    assert not re.search(r"fatal: \[[ac]\]", stage.output), stage.output
    assert joined(stage) == ["a", "c"]


def test_a_login_that_fails_is_the_failure_of_those_who_need_it(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    stage.answer(flexnode_role_assignment={"failed": True, "msg": "FLEX-1701: nobody is signed in"})
    fleet = {**follows("a", "b", **ROLES), **arc_hosts("c")}
    stage.play("aks.flexnode.bootstrap", fleet, flexnode_arc_wait_seconds=0)
    for host in "ab":
        assert re.search(rf"fatal: \[{host}\].*FLEX-1701: nobody is signed in", stage.output), stage.output
    assert joined(stage) == ["c"]


# --- one time limit for all machines ------------------------------------------------------------------------


def test_machines_wait_for_roles_within_one_time_limit(stage: Stage) -> None:
    """With fewer forks than machines, the last ones look when the time of all is up: once, and shortly."""
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    lacks = """
import time
if given.get("wait_roles_seconds"):
    time.sleep(given["wait_roles_seconds"])
    msg = f"FLEX-1816: lacks Reader, after {given['wait_roles_seconds']} s\\nfix: az role assignment create"
    answer = {"failed": True, "error": {"code": "FLEX-1816"}, "msg": msg}
"""
    stage.answer_by_code("arc_register", lacks, IN_ARC)
    parts = json.dumps({"flexnode_arc_wait_seconds": 8, "__arc_part_seconds": 3})
    stage.play("aks.flexnode.bootstrap", arc_hosts("a", "b", "c"), "-f", "1", "-e", parts)
    asked = [given for name, given in stage.calls if name == "arc_register"]
    waits = [(given["host"], given["wait_roles_seconds"]) for given in asked if "wait_roles_seconds" in given]
    assert waits[:2] == [("a", 3), ("a", 3)], stage.output
    assert [one for one in waits if one[0] != "a"] == [("b", 1), ("c", 1)]
    assert "FAILED - RETRYING: [a]" in stage.output
    for host in "abc":
        assert re.search(rf"fatal: \[{host}\].*lacks Reader, after 8 s.*az role assignment", stage.output)


# --- variables of the role ----------------------------------------------------------------------------------


def wrapped(stage: Stage, **variables: Any) -> str:
    """A playbook of a team that imports bootstrap and sets variables there, not in the inventory."""
    book = stage.directory / "book.yml"
    play = {
        "import_playbook": "aks.flexnode.bootstrap",
        "vars": {"flexnode_arc_wait_seconds": 0, **variables},
    }
    book.write_text(yaml.safe_dump([play]))
    return str(book)


@pytest.mark.parametrize("roles", [[], ["reader"]])
def test_roles_that_a_play_sets_are_those_that_are_assigned(stage: Stage, roles: list[str]) -> None:
    """`hostvars` lacks them: every machine got the roles of its profile, administrators of the cluster."""
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    fleet = arc_hosts("a", autoRoleAssignment=True)
    fleet["a"]["flexnode_config"]["kubernetesAuth"] = {"profile": "token"}
    stage.play(wrapped(stage, flexnode_arc_roles=roles), fleet)
    assert stage.status == 0, stage.output
    asked = [given for name, given in stage.calls if name == "flexnode_role_assignment"]
    assigned = [node["roles"] for given in asked if "state" not in given for node in given["nodes"]]
    assert assigned == ([roles] if roles else [])


def two_clusters(*kubeconfigs: str) -> dict[str, dict[str, Any]]:
    fleet = arc_hosts("a", "b", autoRoleAssignment=True)
    fleet["b"]["flexnode_cluster_id"] = f"{AKS}-2"
    for one, path in zip(fleet.values(), kubeconfigs, strict=True):
        one["flexnode_arc_kubeconfig"] = path
    return fleet


def test_each_machine_is_bound_with_the_kubeconfig_of_its_cluster(stage: Stage) -> None:
    stage.answer(arc_register=IN_ARC, flexnode_config_fetch={"config": {}})
    joins(stage, two_clusters("/plant", "/depot"))
    calls = [given for name, given in stage.calls if name == "flexnode_identity_binding"]
    bound = [
        (one["kubeconfig"], node["name"]) for one in calls for node in one["nodes"] if "state" not in one
    ]
    assert bound == [("/plant", "a"), ("/depot", "b")]


def test_one_kubeconfig_is_not_used_for_machines_of_two_clusters(stage: Stage) -> None:
    fleet = two_clusters("/plant", "/x/../plant")
    for playbook in ("prepare", "proof", "update"):  # they grant nothing
        stage.play(f"aks.flexnode.{playbook}", fleet, flexnode_kubeconfig="/k")
        assert "flexnode_arc_kubeconfig" not in stage.output, playbook
        assert stage.calls != [], playbook
        (stage.directory / "calls").unlink()
    stage.play("aks.flexnode.bootstrap", fleet)
    assert stage.status != 0
    assert stage.calls == []
    assert "flexnode_arc_kubeconfig /plant is of one cluster, and these machines belong to 2" in stage.output
    for one in fleet.values():  # then nobody uses it
        one["flexnode_config"]["azure"]["arc"] = {"enabled": True}
    stage.answer(arc_register={**IN_ARC, "missing_roles": []}, flexnode_config_fetch={"config": {}})
    stage.play("aks.flexnode.bootstrap", fleet)
    assert "flexnode_arc_kubeconfig" not in stage.output
    assert touched(stage) == 2, stage.output
