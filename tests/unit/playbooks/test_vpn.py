# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks for machines behind a VPN gateway, with modules that only write down what they are asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.playbooks.stage import CLUSTER, LEFT, NAMED, Stage

PASSPHRASE = "Pl4nted-vpn-passphrase"
PROFILE = "client <key>Pl4nted-vpn-key</key>"
JOINED = {"changed": True, "summary": "joined", "timings": {}, "drains": False, "actions": []}
NODE = {
    "node": {"kubeletVersion": "1.34.4", "containerRuntime": "containerd 2.2.9"},
    "vpn_certificate": "AA",
}
VPN = {
    "flexnode_cluster_id": CLUSTER,
    "flexnode_config_source": "inline",
    "flexnode_vpn_passphrase": PASSPHRASE,
    "flexnode_config": {"azure": {"vpn": {"enabled": True, "autoProvision": True}}},
}


def hosts(*names: str, **variables: Any) -> dict[str, dict[str, Any]]:
    return {name: {**VPN, **variables} for name in names}


def answer(*names: str, **more: Any) -> dict[str, Any]:
    row = {"action": "issued", "profile": PROFILE, "replaced": False, "thumbprint": "AA", "expires": "later"}
    rows = [{"name": name, **row, **more} for name in names]
    gateway = {"name": "flexnode-vpn", "sku": "VpnGw2AZ", "provisioning_state": "Succeeded"}
    certificates = [{"node": name, "state": "active", "expires": "later"} for name in names]
    return {
        "changed": True,
        "actions": ["create VPN gateway flexnode-vpn"],
        "machines": rows,
        "gateway": gateway,
        "certificates": certificates,
    }


def asked(stage: Stage, module: str = "flexnode_vpn_gateway") -> list[dict[str, Any]]:
    return [given for name, given in stage.calls if name == module]


def joins(stage: Stage) -> list[dict[str, Any]]:
    """The calls that join machines; single components are others."""
    return [given for given in asked(stage, "flexnode_reconcile") if not given.get("components")]


def document(given: dict[str, Any]) -> dict[str, Any]:
    found = given["document"]
    loaded: dict[str, Any] = json.loads(found) if isinstance(found, str) else found
    return loaded


@pytest.fixture
def vpn(stage: Stage) -> Stage:
    stage.answer(flexnode_reconcile={**JOINED, **NODE}, flexnode_vpn_gateway=answer("a", "b"))
    return stage


def test_all_machines_are_one_call_and_each_gets_its_profile(vpn: Stage) -> None:
    vpn.verbosity = 3
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert vpn.status == 0, vpn.output
    (given,) = asked(vpn)
    assert (given["machines"], given["cluster_id"], given["passphrase"]) == (["a", "b"], CLUSTER, PASSPHRASE)
    assert given["directory"] == str(vpn.directory / "flexnode_vpn"), "beside the inventory"
    order = [name for name, _given in vpn.calls]
    assert order.index("flexnode_vpn_gateway") < order.index("flexnode_reconcile")
    for one in joins(vpn):
        assert document(one)["azure"]["vpn"]["profile"] == PROFILE
    assert "Pl4nted" not in vpn.output


def test_the_machines_of_another_owner_s_gateway_know_its_addresses(vpn: Stage) -> None:
    """Else their checks would compare a range that nobody uses."""
    given = answer("a", "b")
    given["gateway"] |= {"created_by_collection": False, "address_pool": ["10.9.0.0/24"]}
    vpn.answer(flexnode_vpn_gateway=given)
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert vpn.status == 0, vpn.output
    assert {document(one)["azure"]["vpn"]["p2sGatewayCIDR"] for one in joins(vpn)} == {"10.9.0.0/24"}


def test_the_gateway_is_there_before_a_token_is_created(vpn: Stage) -> None:
    """It may take an hour, and tokens expire."""
    cluster = {"id": CLUSTER, "kubernetes_version": "1.34.4", "document": {}}
    vpn.answer(
        flexnode_cluster_info={"clusters": [cluster]},
        flexnode_bootstrap_token={
            "nodes": [{"name": "a", "cluster_id": CLUSTER, "token": "abcdef.0123456789abcdef"}]
        },
        flexnode_vpn_gateway=answer("a"),
    )
    vpn.play("aks.flexnode.bootstrap", hosts("a", flexnode_config_source="cluster"))
    assert vpn.status == 0, vpn.output
    order = [name for name, _given in vpn.calls]
    assert order.index("flexnode_vpn_gateway") < order.index("flexnode_bootstrap_token")
    (given,) = joins(vpn)
    assert document(given)["azure"]["vpn"]["profile"] == PROFILE


def test_machines_without_it_ask_for_nothing(vpn: Stage) -> None:
    vpn.play("aks.flexnode.bootstrap", {"a": {}, "b": {"flexnode_vpn_profile": PROFILE}})
    assert asked(vpn) == []
    assert vpn.status == 0, vpn.output


def test_a_replaced_certificate_is_revoked_when_its_machine_has_joined(vpn: Stage) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("a", "b", action="renewed", replaced=True))
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b", flexnode_vpn_renew=True))
    assert vpn.status == 0, vpn.output
    first, second = asked(vpn)
    assert first["renew"] == ["a", "b"]
    assert (second["confirmed"], second.get("machines")) == (["a", "b"], None)


def test_a_machine_that_did_not_get_its_new_certificate_keeps_the_old_one(vpn: Stage) -> None:
    """Its run succeeded all the same: its source could not be read, and it works on with what it has."""
    vpn.answer(
        flexnode_vpn_gateway=answer("a", "b", action="renewed", replaced=True),
        flexnode_reconcile={**JOINED, **NODE, "vpn_certificate": "BB"},
    )
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert vpn.status == 0, vpn.output
    assert len(asked(vpn)) == 1
    assert "a does not use its new VPN certificate yet" in " ".join(vpn.output.split())


def test_a_machine_that_did_not_join_keeps_its_old_certificate(vpn: Stage) -> None:
    vpn.answer(
        flexnode_vpn_gateway=answer("a", action="renewed", replaced=True),
        flexnode_reconcile={"failed": True, "msg": "FLEX-1504: no"},
    )
    vpn.play("aks.flexnode.bootstrap", hosts("a"))
    assert vpn.status != 0
    assert len(asked(vpn)) == 1


def test_an_update_confirms_too(vpn: Stage) -> None:
    status = {
        "phase": "NodeJoined",
        "node": {"name": "a", "joined": True, "status": "Ready", "certificate": {}},
    }
    vpn.answer(
        flexnode_status_info={"status": {**status, "config": {"version": "1"}}},
        flexnode_vpn_gateway=answer("a", action="renewed", replaced=True),
    )
    vpn.play("aks.flexnode.update", hosts("a"))
    assert vpn.status == 0, vpn.output
    assert [one.get("confirmed") for one in asked(vpn)] == [None, ["a"]]


def test_an_update_in_batches_revokes_once_at_its_end(vpn: Stage) -> None:
    status = {"phase": "NodeJoined", "node": {"joined": True, "status": "Ready", "certificate": {}}}
    vpn.answer(
        flexnode_status_info={"status": {**status, "config": {"version": "1"}}},
        flexnode_vpn_gateway=answer("a", "b", action="renewed", replaced=True),
    )
    vpn.play("aks.flexnode.update", hosts("a", "b"), "-e", "flexnode_serial=1")
    assert vpn.status == 0, vpn.output
    assert [one.get("confirmed") for one in asked(vpn)] == [None, None, ["a", "b"]]


def test_check_mode_asks_and_then_knows_no_profile(vpn: Stage) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("a", profile=""))
    vpn.play("aks.flexnode.bootstrap", hosts("a"), "--check")
    assert vpn.status == 0, vpn.output
    assert asked(vpn)[0]["_ansible_check_mode"] is True
    assert joins(vpn) == []
    assert "would create the configuration of this machine" in vpn.output


def test_check_mode_compares_a_machine_that_has_its_profile(vpn: Stage) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("a", profile="", action="unchanged"))
    vpn.play("aks.flexnode.bootstrap", hosts("a"), "--check")
    (given,) = joins(vpn)
    assert document(given)["azure"]["vpn"]["profile"] == "<minted at apply>"


def test_leaving_revokes_in_one_call_and_keeps_the_gateway(vpn: Stage) -> None:
    vpn.answer(flexnode_reconcile={"changed": True, "remains": []})
    vpn.play("aks.flexnode.unbootstrap", hosts("a", "b"), *NAMED)
    assert vpn.status == 0, vpn.output
    (given,) = asked(vpn)
    assert (given["left"], given.get("state"), given.get("machines")) == (["a", "b"], None, None)
    assert "no VPN certificate" not in vpn.output


BATCHES = ("-e", "flexnode_hosts=all", "-e", "flexnode_serial=1")


def leaving(stage: Stage, *names: str) -> dict[str, dict[str, Any]]:
    """Machines of which c can't leave."""
    answers: dict[str, dict[str, Any]] = {name: {**LEFT, "node_name": name} for name in names}
    stage.answer_by_host(
        "flexnode_reconcile", **{**answers, "c": {"failed": True, "msg": "FLEX-1309: in use"}}
    )
    return stage.machines(*names, **VPN)


def test_machines_of_all_batches_are_one_change_of_the_gateway(vpn: Stage) -> None:
    vpn.play("aks.flexnode.unbootstrap", leaving(vpn, "a", "b"), *BATCHES)
    assert vpn.status == 0, vpn.output
    assert [one["left"] for one in asked(vpn)] == [["a", "b"]]


def test_a_failure_in_a_later_batch_keeps_no_certificate_valid(vpn: Stage) -> None:
    vpn.play("aks.flexnode.unbootstrap", leaving(vpn, "a", "b", "c", "d"), *BATCHES)
    assert vpn.status != 0
    assert [one["left"] for one in asked(vpn)] == [["a", "b"]], vpn.output
    assert "FLEX-1309: in use" in vpn.output
    assert "Not attempted: d" in vpn.output


def test_a_machine_that_does_not_answer_is_reported_with_what_revokes_its_certificate(vpn: Stage) -> None:
    fleet = leaving(vpn, "a", "b")
    fleet["b"] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    vpn.play("aks.flexnode.unbootstrap", fleet, *NAMED)
    assert vpn.status != 0
    assert [one["left"] for one in asked(vpn)] == [["a"]], vpn.output
    said = " ".join(vpn.output.replace("\\n", " ").split())
    assert "The machine could not leave the cluster: it did not answer" in said
    assert "-i INVENTORY aks.flexnode.vpn_gateway -e flexnode_vpn_revoke=b" in said
    assert "a no Node to delete, 0 changes on the machine undone" in said


def test_a_machine_without_a_certificate_in_the_record_is_told(vpn: Stage) -> None:
    vpn.answer(flexnode_reconcile={"changed": True, "remains": []}, flexnode_vpn_gateway=answer("a"))
    vpn.play("aks.flexnode.unbootstrap", {**hosts("a", "b"), "c": {}}, *NAMED, "-e", "flexnode_serial=100%")
    assert vpn.status == 0, vpn.output
    assert "b: the record has no VPN certificate of Node b" in vpn.output
    for host in ("a", "c"):
        assert f"{host}: the record has no" not in vpn.output


def plant_record(stage: Stage, *nodes: str) -> None:
    """A record beside the inventory; nothing of it is secret here."""
    clients = [
        {"node": node, "thumbprint": "AA", "root": "BB", "expires": "2099-01-01T00:00:00+00:00"}
        for node in nodes
    ]
    directory = stage.directory / "flexnode_vpn"
    directory.mkdir(exist_ok=True)
    (directory / "flexnode-vpn-12345678.json").write_text(json.dumps({"version": 1, "clients": clients}))


OFF = {**VPN, "flexnode_config": {"azure": {"vpn": {"enabled": False}}}}


def test_a_certificate_is_revoked_although_the_document_has_no_vpn_any_more(vpn: Stage) -> None:
    vpn.answer(flexnode_reconcile={"changed": True, "remains": []})
    vpn.play("aks.flexnode.unbootstrap", {"a": OFF, "b": OFF}, *NAMED)
    assert asked(vpn) == [], "there is no record, so Azure is not asked"
    plant_record(vpn, "a")
    vpn.play("aks.flexnode.unbootstrap", {"a": OFF, "b": OFF}, *NAMED)
    assert vpn.status == 0, vpn.output
    (given,) = asked(vpn)
    assert (given["left"], given["cluster_id"]) == (["a"], CLUSTER)


def test_a_machine_that_was_renamed_is_revoked_by_all_of_its_names(vpn: Stage) -> None:
    vpn.answer(flexnode_reconcile={"changed": True, "remains": [], "node_name": "old"})
    renamed = hosts("a", flexnode_host_config={"agent": {"nodeName": "new"}})
    vpn.play("aks.flexnode.unbootstrap", renamed, *NAMED)
    assert asked(vpn)[-1]["left"] == ["new", "old", "a"]
    # Another machine has one of these names: its certificate stays.
    other = hosts("b", flexnode_host_config={"agent": {"nodeName": "old"}})
    vpn.play("aks.flexnode.unbootstrap", {**renamed, **other}, "--limit", "a")
    assert asked(vpn)[-1]["left"] == ["new", "a"]


def test_the_gateway_is_removed_although_no_document_has_a_vpn_any_more(vpn: Stage) -> None:
    gone = ("-e", "flexnode_vpn_state=absent")
    vpn.play("aks.flexnode.vpn_gateway", {"a": OFF}, *gone)
    assert (vpn.status != 0, asked(vpn)) == (True, [])
    assert "there is no record of VPN certificates" in vpn.output
    plant_record(vpn, "edge-9")
    vpn.play("aks.flexnode.vpn_gateway", {"a": OFF}, *gone)
    assert vpn.status == 0, vpn.output
    assert [(one["state"], one["cluster_id"]) for one in asked(vpn)] == [("absent", CLUSTER)]
    vpn.play("aks.flexnode.vpn_gateway", {"a": OFF})
    assert vpn.status != 0, "and none is made"


@pytest.mark.parametrize("value", ["flexnode_vpn_revoke=b,lost", '{"flexnode_vpn_revoke": ["b", "lost"]}'])
def test_a_lost_machine_is_revoked_without_it(vpn: Stage, value: str) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("a", "b", "lost"))
    vpn.play("aks.flexnode.vpn_gateway", hosts("a", "b"), "-e", value)
    assert vpn.status == 0, vpn.output
    assert [(one["left"], one.get("state")) for one in asked(vpn)] == [(["b", "lost"], None)]
    assert [name for name, _given in vpn.calls] == ["flexnode_vpn_gateway"], "no machine is asked"
    assert "Revoke VPN certificates" in vpn.output


def test_a_name_is_revoked_at_one_gateway_only(vpn: Stage) -> None:
    """A node of another cluster may have the same name, and would lose its cluster."""
    vpn.answer(flexnode_vpn_gateway=answer("a", "b"))
    fleet = hosts("a", "b")
    fleet["b"]["flexnode_cluster_id"] = f"{CLUSTER}-2"
    revoke = ("-e", "flexnode_vpn_revoke=b")
    vpn.play("aks.flexnode.vpn_gateway", fleet, *revoke)
    assert (vpn.status != 0, asked(vpn)) == (True, [])
    assert "this run has 2 gateways, or settings of one that differ: add --limit" in " ".join(
        vpn.output.split()
    )
    vpn.play("aks.flexnode.vpn_gateway", fleet, *revoke, "--limit", "b")
    assert vpn.status == 0, vpn.output
    assert [(one["left"], one["cluster_id"]) for one in asked(vpn)] == [(["b"], f"{CLUSTER}-2")]


SHARED = [{"flexnode_vpn_gateway_id": "/gateways/both"}, {"flexnode_vpn_vnet_id": "/vnets/hub"}]


@pytest.mark.parametrize("shared", SHARED, ids=["by its id", "by its VNet"])
def test_two_clusters_may_share_a_gateway(vpn: Stage, shared: dict[str, str]) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("a", "b"))
    fleet = hosts("a", "b", **shared)
    fleet["b"]["flexnode_cluster_id"] = f"{CLUSTER}-2"
    vpn.play("aks.flexnode.vpn_gateway", fleet, "-e", "flexnode_vpn_revoke=b")
    assert vpn.status == 0, vpn.output
    assert [one["left"] for one in asked(vpn)] == [["b"]]


@pytest.mark.parametrize("shared", SHARED, ids=["by its id", "by its VNet"])
@pytest.mark.parametrize("limit", [(), ("--limit", "b")], ids=["both", "the other is outside the run"])
def test_nodes_of_one_name_do_not_share_a_certificate(
    vpn: Stage, shared: dict[str, str], limit: tuple[str, ...]
) -> None:
    """The module knows names only: the second machine would get the first one's key, and lose it with it."""
    fleet = hosts("a", "b", **shared, flexnode_host_config={"agent": {"nodeName": "edge-1"}})
    fleet["b"]["flexnode_cluster_id"] = f"{CLUSTER}-2"
    vpn.play("aks.flexnode.bootstrap", fleet, *limit)
    assert (vpn.status != 0, asked(vpn)) == (True, [])
    told = " ".join(vpn.output.split())
    assert "these machines of one VPN gateway would share the certificate of edge-1" in told, vpn.output


def test_revoking_names_that_are_wrong_is_an_error(vpn: Stage) -> None:
    vpn.answer(flexnode_vpn_gateway=answer("edge-1", "edge-2"))
    vpn.play("aks.flexnode.vpn_gateway", hosts("a"), "-e", "flexnode_vpn_revoke=edge-1,egde-2")
    assert vpn.status != 0
    assert "flexnode_vpn_revoke is 'egde-2', did you mean edge-2?" in vpn.output
    assert asked(vpn)[0]["left"] == ["edge-1", "egde-2"], "what is known is revoked all the same"


def test_the_machines_of_the_limit_are_revoked_and_never_all_by_accident(vpn: Stage) -> None:
    revoke = ("-e", "flexnode_vpn_revoke=true")
    vpn.play("aks.flexnode.vpn_gateway", hosts("a", "b"), *revoke)
    assert (vpn.status != 0, asked(vpn)) == (True, [])
    assert "this run would revoke the VPN certificates of 2 machines: a, b" in " ".join(vpn.output.split())
    vpn.play("aks.flexnode.vpn_gateway", hosts("a", "b"), *revoke, "--limit", "b")
    assert vpn.status == 0, vpn.output
    assert [one["left"] for one in asked(vpn)] == [["b"]]
    vpn.play("aks.flexnode.vpn_gateway", hosts("a", "b"), "-e", "flexnode_vpn_revoke=")
    assert asked(vpn)[-1].get("left") is None, "a blank answer of a survey asks for nothing"


def test_what_was_not_revoked_is_reported_with_what_remains(vpn: Stage) -> None:
    vpn.answer(
        flexnode_reconcile={"changed": True, "remains": []},
        flexnode_vpn_gateway={"failed": True, "msg": "FLEX-1702: may not write"},
    )
    vpn.play("aks.flexnode.unbootstrap", hosts("a"), *NAMED)
    assert vpn.status != 0
    assert "in Azure: FLEX-1702: may not write" in vpn.output


def test_a_machine_that_could_not_leave_keeps_its_certificate(vpn: Stage) -> None:
    vpn.answer(flexnode_reconcile={"failed": True, "msg": "FLEX-1301: no"})
    vpn.play("aks.flexnode.unbootstrap", hosts("a"), *NAMED)
    assert asked(vpn) == []


def test_what_is_missing_is_found_before_anything_is_made(vpn: Stage) -> None:
    for playbook in ("bootstrap", "preflight", "vpn_gateway"):
        vpn.play(f"aks.flexnode.{playbook}", hosts("a", flexnode_vpn_passphrase=""))
        assert vpn.status != 0
        assert "needs flexnode_vpn_passphrase" in vpn.output
    assert asked(vpn) == []


def test_a_job_of_awx_needs_a_directory_that_stays(vpn: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWX_PRIVATE_DATA_DIR", "/tmp/awx_7")
    vpn.play("aks.flexnode.bootstrap", hosts("a"))
    assert "would be lost with this job" in vpn.output
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b", flexnode_vpn_directory="/var/lib/vpn"))
    assert vpn.status == 0, vpn.output
    assert asked(vpn)[0]["directory"] == "/var/lib/vpn"


def test_the_gateway_alone_is_made_and_removed(vpn: Stage) -> None:
    vpn.play("aks.flexnode.vpn_gateway", hosts("a", "b"))
    assert vpn.status == 0, vpn.output
    (given,) = asked(vpn)
    assert (given.get("machines"), given.get("state")) == (None, None)
    for text in ("create VPN gateway flexnode-vpn", "VpnGw2AZ", "active"):
        assert text in vpn.output
    gone = ("-e", "flexnode_vpn_state=absent", "-e", "flexnode_vpn_force=true")
    vpn.play("aks.flexnode.vpn_gateway", hosts("a"), *gone)
    assert vpn.status == 0, vpn.output
    assert (asked(vpn)[-1]["state"], asked(vpn)[-1]["force"]) == ("absent", True)
    assert PASSPHRASE not in vpn.output
    vpn.play("aks.flexnode.vpn_gateway", {"a": {}})
    assert vpn.status != 0
    assert "azure.vpn.autoProvision" in vpn.output


def test_what_somebody_revoked_in_azure_is_a_warning(vpn: Stage) -> None:
    vpn.answer(flexnode_vpn_gateway={**answer("a", "b"), "notes": ["the VPN certificate of a was revoked"]})
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert vpn.status == 0, vpn.output
    assert "[WARNING]: the VPN certificate of a was revoked" in vpn.output


def test_progress_is_shown_while_azure_works(vpn: Stage) -> None:
    tells = 'open(given["progress_file"], "a").write("flexnode-vpn: InProgress for 7 min\\n")'
    vpn.answer_by_code("flexnode_vpn_gateway", tells, answer("a", "b"))
    vpn.play("aks.flexnode.bootstrap", hosts("a", "b"))
    assert "flexnode-vpn: InProgress for 7 min" in vpn.output
