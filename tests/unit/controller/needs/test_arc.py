# SPDX-License-Identifier: GPL-3.0-or-later
"""What role arc decides on the controller."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.aks.flexnode.plugins.module_utils.controller.inventory.machines import machine_of
from ansible_collections.aks.flexnode.plugins.module_utils.controller.needs.arc import (
    ArcMachine,
    arc_findings,
    binding_nodes,
    failed_hosts,
    notes,
    refusals,
    registered,
    request_of,
    role_nodes,
    roles_of_others,
)
from ansible_collections.aks.flexnode.plugins.module_utils.node.config.document import merge, redact
from ansible_collections.aks.flexnode.plugins.module_utils.node.procedures.arc.errors import ArcElsewhere
from ansible_collections.aks.flexnode.plugins.module_utils.on_machine.arc_request import (
    arc_proxy,
    arc_request,
)

SUBSCRIPTION = "12345678-1234-1234-1234-123456789abc"
PLANT = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.ContainerService"
    "/managedClusters/plant"
)
PRINCIPAL = "99999999-8888-7777-6666-555555555555"
MACHINE = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/rg/providers/Microsoft.HybridCompute/machines/edge-1"


def test_what_the_document_leaves_out_is_the_clusters() -> None:
    document = {"azure": {"arc": {"enabled": True}, "targetCluster": {"location": "westeurope"}}}
    request = arc_request(document, PLANT, "edge-1")
    assert (request["enabled"], request["assign_roles"], request["profile"]) == (True, False, "certificate")
    assert (request["subscription_id"], request["resource_group"]) == (SUBSCRIPTION, "rg")
    assert (request["location"], request["node"], request["cluster_id"]) == ("westeurope", "edge-1", PLANT)
    assert (request["machine_name"], request["tenant_id"]) == ("", "")


def test_what_the_document_says_goes_first() -> None:
    document: dict[str, Any] = {
        "agent": {"nodeName": "first"},
        "azure": {
            "cloud": "AzureChinaCloud",
            "tenantId": "t",
            "subscriptionId": "s",
            "targetCluster": {"resourceId": PLANT.upper()},
            "arc": {
                "autoRegister": True,
                "autoRoleAssignment": True,
                "machineName": "m",
                "resourceGroup": "edge",
                "location": "chinaeast",
                "tags": {"site": "lab"},
            },
        },
        "kubernetesAuth": {"profile": "token"},
        "mirror": {"caCert": "PEM"},
        "node": {"kubelet": {"serverURL": "https://api", "caCertData": "Q0E="}},
        "paths": {"kubernetes": {"kubeletDir": "/srv/kubelet"}},
    }
    request = arc_request(document, "", "edge-1")
    assert request == {
        "pool": "",
        "enabled": True,
        "assign_roles": True,
        "node": "first",
        "cluster_id": request["cluster_id"],
        "subscription_id": "s",
        "resource_group": "edge",
        "machine_name": "m",
        "location": "chinaeast",
        "tenant_id": "t",
        "cloud": "AzureChinaCloud",
        "resource_manager_endpoint": "",
        "tags": {"site": "lab"},
        "ca_cert": "PEM",
        "profile": "token",
        "kubelet": True,
        "server_url": "https://api",
        "ca_cert_data": "Q0E=",
        "kubelet_dir": "/srv/kubelet",
        "roles": ["reader", "rbac-cluster-admin", "cluster-admin"],
    }
    assert request["cluster_id"].lower() == PLANT.lower()


@pytest.mark.parametrize(
    ("spelled", "plain"),
    [
        ({"kubernetesAuth": {"profile": "Token"}}, {"kubernetesAuth": {"profile": "token"}}),
        ({"kubernetesAuth": {"method": "Arc"}}, {"kubernetesAuth": {"method": "arc"}}),
        ({"continuousMonitoring": "false"}, {"continuousMonitoring": False}),
        ({"continuousMonitoring": "True"}, {"continuousMonitoring": True}),
        ({"azure": {"cloud": "azurechinacloud"}}, {"azure": {"cloud": "AzureChinaCloud"}}),
        (
            {"azure": {"arc": {"autoRoleAssignment": "false"}}},
            {"azure": {"arc": {"autoRoleAssignment": False}}},
        ),
    ],
    ids=str,
)
def test_a_request_does_not_depend_on_the_spelling(spelled: dict[str, Any], plain: dict[str, Any]) -> None:
    """The node needs what the parsed document says: with fewer roles it can't join."""
    base = {"azure": {"arc": {"enabled": True, "autoRoleAssignment": True}}}
    assert arc_request(merge(base, spelled), PLANT) == arc_request(merge(base, plain), PLANT)


def test_what_is_not_valid_is_left_to_the_checks_of_the_document() -> None:
    document = {
        "azure": {"targetCluster": {"resourceId": 5}, "arc": {"enabled": True}},
        "proxy": {"https": 5},
    }
    assert (arc_request(document)["cluster_id"], arc_proxy(document)) == ("", "5")


def test_the_early_form_is_read_too() -> None:
    azure = {
        "subscriptionId": SUBSCRIPTION,
        "resourceGroup": "rg",
        "location": "westeurope",
        "arc": {"enabled": True, "targetCluster": {"name": "plant"}},
    }
    request = arc_request({"azure": azure})
    assert (request["cluster_id"], request["location"]) == (PLANT, "westeurope")


@pytest.mark.parametrize("document", [{}, {"azure": {}}, {"azure": {"arc": {"enabled": False}}}])
def test_who_does_not_ask_for_arc_gets_nothing(document: dict[str, Any]) -> None:
    assert not arc_request(document)["enabled"]
    assert arc_request(document)["cluster_id"] == ""


def host(
    *, enabled: bool = True, assign: bool = True, by_us: bool = True, registered: bool = True, **more: Any
) -> dict[str, Any]:
    arc = {"enabled": enabled, "autoRoleAssignment": assign}
    seen = {"resource_id": MACHINE if registered else "", "principal_id": "", "registered_by_us": by_us}
    request = request_of({"azure": {"arc": arc}, "continuousMonitoring": True}, PLANT, "edge-1")
    return {"request": request, "__arc_seen": seen, **more}


def machine(variables: dict[str, Any]) -> ArcMachine:
    return ArcMachine.of_host("a", variables.get("request", {}), variables, variables)


@pytest.mark.parametrize(
    ("variables", "present", "absent"),
    [
        pytest.param(host(), True, True, id="ours"),
        pytest.param(host(assign=False), False, True, id="roles-by-hand"),
        pytest.param(host(assign=False, by_us=False), False, False, id="nothing-of-ours"),
        pytest.param(host(by_us=False), True, True, id="agent-of-others-roles-of-ours"),
        pytest.param(host(enabled=False), False, True, id="not-any-more"),
        pytest.param(host(registered=False), False, False, id="not-registered"),
        pytest.param({**host(), "__arc_seen": {"skipped": True}}, False, False, id="skipped"),
        pytest.param({}, False, False, id="nothing-known"),
    ],
)
def test_whose_roles_are_ours(variables: dict[str, Any], present: bool, absent: bool) -> None:
    assert bool(role_nodes([machine(variables)])) == present
    assert bool(role_nodes([machine(variables)], "absent")) == absent


LACKS = {
    "resource_id": MACHINE,
    "missing_roles": [{"kind": "kubernetes", "role": "system:node-bootstrapper"}],
}
HAS = {"resource_id": MACHINE, "missing_roles": [{"kind": "azure", "role": "Reader"}]}


@pytest.mark.parametrize(
    ("variables", "present", "absent"),
    [
        pytest.param(host(__arc_registered=LACKS), True, True, id="lacks-it"),
        pytest.param(host(__arc_registered=HAS), False, True, id="has-it"),
        pytest.param(host(__arc_registered=LACKS, assign=False), False, False, id="by-hand"),
        pytest.param(host(), False, True, id="not-asked"),
        pytest.param(host(registered=False), False, False, id="not-registered"),
        pytest.param({}, False, False, id="nothing-known"),
        pytest.param(host(__arc_registered=LACKS, enabled=False), False, False, id="not-any-more"),
    ],
)
def test_who_is_let_ask_for_a_certificate(variables: dict[str, Any], present: bool, absent: bool) -> None:
    node = {"name": "edge-1", "machine_id": MACHINE, "cluster_id": PLANT}
    assert binding_nodes([machine(variables)]) == ([node] if present else [])
    assert binding_nodes([machine(variables)], "absent") == ([node] if absent else [])


@pytest.mark.parametrize(("key", "value"), [("profile", "token"), ("kubelet", False), ("cluster_id", "")])
def test_who_obtains_no_certificate_with_it_is_let_do_nothing(key: str, value: Any) -> None:
    variables = host(__arc_registered=LACKS)
    variables["request"][key] = value
    assert binding_nodes([machine(variables)]) == binding_nodes([machine(variables)], "absent") == []


def test_a_machine_that_says_it_is_another_one_gets_no_certificate() -> None:
    variables = host(__arc_registered={**LACKS, "resource_id": MACHINE.replace("/rg/", "/other/")})
    assert binding_nodes([machine(variables)]) == []
    with pytest.raises(ArcElsewhere, match="not the machine of the inventory"):
        machine(variables).require_requested()


@pytest.mark.parametrize("state", ["surplus", "absent"])
def test_nothing_is_taken_back_from_whom_nothing_was_given(state: str) -> None:
    """It must not keep the others of a run from being taken back, either."""
    elsewhere = host(__arc_registered={**LACKS, "resource_id": MACHINE.replace("/rg/", "/other/")})
    unusable = host(__arc_registered={"resource_id": "x"})
    fleet = {"a": elsewhere, "b": host(__arc_registered=LACKS), "c": unusable}
    assert [node["machine_id"] for node in binding_nodes(map(machine, fleet.values()), state)] == [MACHINE]


@pytest.mark.parametrize(
    ("said", "joined", "taken"),
    [
        pytest.param(LACKS, {"changed": True}, True, id="given-and-joined"),
        pytest.param(HAS, {"changed": True}, True, id="given-by-a-run-that-failed"),
        pytest.param(LACKS, {"changed": False}, True, id="given-for-nothing"),
        pytest.param(HAS, {"changed": False}, False, id="unchanged"),
        pytest.param(HAS, {"skipped": True, "changed": False}, False, id="pending"),
        pytest.param(HAS, None, False, id="without-role-node"),
    ],
)
def test_when_the_right_is_taken_back(said: dict[str, Any], joined: Any, taken: bool) -> None:
    variables = host(__arc_registered=said, **({"__node_joined": joined} if joined else {}))
    assert bool(binding_nodes([machine(variables)], "surplus")) == taken
    assert bool(binding_nodes([machine(variables)])) == (said is LACKS), "only who lacks it is given it"


@pytest.mark.parametrize(
    ("asked", "chosen", "missing", "by_hand"),
    [
        pytest.param({"assign_roles": False}, None, ["system:node", "Reader"], "all", id="by-hand"),
        pytest.param({}, None, ["system:node-bootstrapper", "Reader"], [], id="all-given"),
        pytest.param({}, [], ["system:node-bootstrapper"], [], id="bound"),
        pytest.param({"profile": "token"}, [], ["system:node"], "all", id="token-without-roles"),
        pytest.param({"profile": "token"}, None, ["system:node"], "all", id="roles-without-effect"),
        pytest.param({}, None, ["system:node"], "all", id="only-its-document-says-token"),
        pytest.param({"enabled": False}, None, ["Reader"], "all", id="only-its-document-says-arc"),
        pytest.param({"cluster_id": ""}, None, ["Reader"], "all", id="only-its-document-knows-the-cluster"),
        pytest.param({}, ["AKS Flex Node"], ["Reader"], [], id="a-role-of-the-users-own"),
        pytest.param({}, ["cluster-admin"], ["Reader"], "all", id="another-role"),
    ],
)
def test_what_this_run_does_not_give_is_shown(
    asked: dict[str, Any], chosen: Any, missing: list[str], by_hand: Any
) -> None:
    lacks = [
        {"kind": "azure", "role": name, "role_id": "acdd72a7-3385-48ef-bd42-f606fba81ae7"}
        if name == "Reader"
        else {"kind": "kubernetes", "role": name}
        for name in missing
    ]
    variables = host(__arc_registered={"resource_id": MACHINE, "missing_roles": lacks})
    variables["request"].update(asked)
    if chosen is not None:
        variables["flexnode_arc_roles"] = chosen
    assert roles_of_others(machine(variables)) == (lacks if by_hand == "all" else by_hand)
    assert roles_of_others(machine({})) == []


def test_a_proxy_is_in_no_fact_and_a_mark_is_no_proxy() -> None:
    document = {"proxy": {"http": "http://p:1", "https": "http://user:password@p:2"}}
    assert "proxy" not in arc_request(document)
    assert "password" not in str(arc_request(document))
    assert arc_proxy(document) == "http://user:password@p:2"
    assert arc_proxy(redact(document)) == ""
    assert arc_proxy({"proxy": {"http": "http://p:1"}}) == "http://p:1"
    assert arc_proxy({}) == ""


def test_booleans_may_be_text_as_everywhere() -> None:
    request = arc_request({"azure": {"arc": {"enabled": "true", "autoRoleAssignment": "false"}}})
    assert (request["enabled"], request["assign_roles"]) == (True, False)


def test_without_a_cluster_roles_can_only_be_taken_back() -> None:
    variables = host()
    variables["request"]["cluster_id"] = ""
    assert role_nodes([machine(variables)]) == []
    (node,) = role_nodes([machine(variables)], "absent")
    assert (node["cluster_id"], node["machine_id"]) == (None, MACHINE)


def test_what_the_registration_said_counts_more_than_what_was_seen_before() -> None:
    said = {"resource_id": MACHINE, "principal_id": PRINCIPAL, "registered_by_us": True}
    variables = host(registered=False, __arc_registered=said, flexnode_arc_roles=["AKS Flex Node"])
    assert role_nodes([machine(variables)], "absent")[0]["roles"] is None
    assert role_nodes([machine(variables)]) == [
        {
            "name": "edge-1",
            "principal_id": None,
            "machine_id": MACHINE,
            "cluster_id": PLANT,
            "profile": "certificate",
            "roles": ["AKS Flex Node"],
        }
    ]


def test_roles_go_to_whom_azure_names_and_not_to_whom_the_machine_does() -> None:
    said = {"resource_id": MACHINE, "principal_id": PRINCIPAL, "registered_by_us": True}
    (node,) = role_nodes([machine(host(__arc_registered=said))])
    assert (node["principal_id"], node["machine_id"]) == (None, MACHINE)
    only_a_principal = {"resource_id": "", "principal_id": PRINCIPAL, "registered_by_us": True}
    assert role_nodes([machine(host(__arc_registered=only_a_principal))]) == []
    (node,) = role_nodes([machine(host(__arc_registered=said))], "absent")
    assert node["principal_id"] is None, "a machine that leaves could name anybody"


@pytest.mark.parametrize(
    "claimed",
    [
        MACHINE.replace("/rg/", "/other/"),
        MACHINE.replace(SUBSCRIPTION, "22345678-1234-1234-1234-123456789abc"),
        MACHINE.replace("edge-1", "edge-2"),
        "/subscriptions/x",
    ],
)
@pytest.mark.parametrize("state", ["present", "surplus", "absent"])
def test_a_machine_that_says_it_is_another_one_is_refused(claimed: str, state: str) -> None:
    said = {"resource_id": claimed, "principal_id": "", "registered_by_us": True}
    variables = host(__arc_registered=said)
    assert role_nodes([machine(variables)], state) == []
    with pytest.raises(ArcElsewhere, match="not the machine of the inventory"):
        machine(variables).require_requested()


PRINCIPAL_OF_A_SITE = {"clientId": "c", "clientTenant": "t"}
TOKENS = {"profile": "token"}
ALL = ["reader", "rbac-cluster-admin", "cluster-admin"]


@pytest.mark.parametrize(
    ("document", "profile", "roles"),
    [
        pytest.param({}, "certificate", [], id="nothing-to-follow"),
        pytest.param({"continuousMonitoring": True}, "certificate", ["reader"], id="follows"),
        pytest.param({"kubernetesAuth": TOKENS}, "token", ALL, id="tokens"),
        pytest.param({"kubernetesAuth": {**TOKENS, "method": "arc"}}, "token", ALL, id="chosen"),
        pytest.param(
            {
                "azure": {"servicePrincipal": PRINCIPAL_OF_A_SITE},
                "kubernetesAuth": {**TOKENS, "method": "servicePrincipal"},
                "azureAuth": {"method": "arc"},
                "continuousMonitoring": True,
            },
            "certificate",
            ["reader"],
            id="kubelet-by-principal",
        ),
        pytest.param(
            {"azure": {"bootstrapToken": {"token": "a.b"}}, "kubernetesAuth": TOKENS},
            "certificate",
            [],
            id="kubelet-by-bootstrap-token",
        ),
        pytest.param(
            {
                "azure": {"servicePrincipal": PRINCIPAL_OF_A_SITE},
                "kubernetesAuth": {**TOKENS, "method": "arc"},
                "azureAuth": {"method": "servicePrincipal"},
            },
            "token",
            ["rbac-cluster-admin", "cluster-admin"],
            id="node-by-principal",
        ),
        pytest.param(
            {"azure": {"servicePrincipal": PRINCIPAL_OF_A_SITE}, "kubernetesAuth": TOKENS},
            "token",
            ALL,
            id="principal-only-registers",
        ),
    ],
)
def test_arcs_identity_gets_what_it_serves(document: dict[str, Any], profile: str, roles: list[str]) -> None:
    whole = {**document, "azure": {**document.get("azure", {}), "arc": {"enabled": True}}}
    request = arc_request(whole, PLANT)
    assert (request["profile"], request["roles"]) == (profile, roles)


def test_what_is_no_longer_needed_is_surplus() -> None:
    assert role_nodes([machine(host())], "surplus")[0]["roles"] == ["rbac-cluster-admin", "cluster-admin"]
    chosen = host(flexnode_arc_roles=["Reader", "AKS Flex Node", "cluster-admin"])
    assert role_nodes([machine(chosen)], "surplus")[0]["roles"] == ["rbac-cluster-admin"]
    assert role_nodes([machine(host(assign=False))], "surplus") == []
    assert role_nodes([machine(host(flexnode_arc_roles=ALL))], "surplus") == []


def test_a_machine_of_a_pool_gets_the_role_of_the_pool_and_nothing_in_the_cluster() -> None:
    document = {
        "azure": {
            "targetAgentPoolName": "edge",
            "arc": {"enabled": True, "autoRoleAssignment": True},
            "targetCluster": {"resourceId": PLANT},
        }
    }
    request = request_of(document, PLANT, "edge-1")
    assert (request["pool"], request["roles"], request["kubelet"]) == ("edge", ["flex-node-agent"], False)
    said = {"resource_id": MACHINE, "missing_roles": [{"kind": "kubernetes", "role": "any"}]}
    one = ArcMachine("edge-1", request, said)
    (node,) = role_nodes([one])
    assert (node["pool"], node["roles"], node["cluster_id"]) == ("edge", ["flex-node-agent"], PLANT)
    assert binding_nodes([one]) == [], "the kubelet's token comes from the pool"
    (gone,) = role_nodes([one], "absent")
    assert (gone["pool"], gone["roles"]) == ("edge", None)
    (surplus,) = role_nodes([one], "surplus")
    assert "pool" not in surplus
    assert surplus["roles"] == ["reader", "rbac-cluster-admin", "cluster-admin"], "of an earlier source"


# -- registrations end with the leave ------------------------------------------------------------------------

REPORTED = {"resource_id": MACHINE, "registered_by_us": True, "vm_id": "v1"}


def leaving(reported: dict[str, Any], **request: Any) -> ArcMachine:
    variables = host(__arc_registered=None, __arc_seen=reported)
    variables["request"].update(request)
    return machine(variables)


def test_a_registration_of_ours_ends_with_the_leave() -> None:
    node = {"name": "a", "machine_id": MACHINE, "vm_id": "v1"}
    assert registered([leaving(REPORTED)]) == ([node], {})


@pytest.mark.parametrize(
    ("reported", "request_"),
    [
        pytest.param({**REPORTED, "registered_by_us": False}, {}, id="of-another-owner"),
        pytest.param({**REPORTED, "resource_id": ""}, {}, id="none"),
        pytest.param(REPORTED, {"enabled": False}, id="not-in-the-inventory"),
    ],
)
def test_which_registrations_stay(reported: dict[str, Any], request_: dict[str, Any]) -> None:
    assert registered([leaving(reported, **request_)]) == ([], {})


def test_a_machine_that_reports_another_ones_registration_deletes_nothing() -> None:
    nodes, refused = registered([leaving(REPORTED, machine_name="edge-7")])
    assert nodes == []
    assert list(refused) == ["a"]
    assert "set azure.arc.machineName: edge-1 for a in the inventory" in refused["a"]
    assert "azcmagent disconnect --force-local-only" in refused["a"]


@pytest.mark.parametrize(
    ("value", "roles"),
    [(None, None), ("", None), ([], []), ("reader, Flex", ["reader", "Flex"]), (["a,b"], ["a,b"])],
)
def test_roles_of_the_inventory_are_a_list_none_at_all_or_not_said(value: Any, roles: Any) -> None:
    assert ArcMachine.of_host("a", {}, {}, {"flexnode_arc_roles": value}).roles == roles


# -- which Arc machine a host is ----------------------------------------------------------------------------

ARC: dict[str, Any] = {"enabled": True, "autoRoleAssignment": True}


@pytest.mark.parametrize(
    ("document", "name", "expected"),
    [
        pytest.param({}, "edge-1", "edge-1", id="of-the-inventory"),
        pytest.param({"agent": {"nodeName": "n1"}}, "edge-1", "n1", id="of-the-node"),
        pytest.param({"azure": {"arc": {"machineName": "m1"}}}, "edge-1", "m1", id="chosen"),
        pytest.param({}, "edge_1.lab", "edge_1.lab", id="as-azure-allows"),
        pytest.param({}, "192.0.2.7", "", id="an-address"),
        pytest.param({}, "2001:db8::7", "", id="an-address-of-ipv6"),
        pytest.param({}, "a" * 55, "", id="too-long"),
    ],
)
def test_the_controller_decides_the_name_in_arc(document: dict[str, Any], name: str, expected: str) -> None:
    """The machine must not: it could name any other one, and get its rights."""
    assert request_of(merge({"azure": {"arc": ARC}}, document), PLANT, name)["machine_name"] == expected


def test_arc_machines_are_compared_without_regard_to_case() -> None:
    assert machine(host(__arc_registered={**LACKS, "resource_id": MACHINE.upper()})).is_requested


def test_a_machine_of_a_place_that_the_inventory_does_not_know_is_not_requested() -> None:
    """It could name one of any subscription; nothing of it is deleted by its word alone."""
    bare = ArcMachine("edge-1", request_of({}, "", "edge-1"), {**REPORTED, "registered_by_us": True})
    assert role_nodes([bare], "absent") == []
    (note,) = notes([bare], [])["edge-1"]
    assert note.startswith(f"roles of {MACHINE} were not looked for: the inventory does not name it")


def test_who_is_refused_is_told_what_confirms_it() -> None:
    said = {**LACKS, "resource_id": MACHINE.replace("edge-1", "edge-7")}
    (why,) = refusals([machine(host(__arc_registered=said))], {}).values()
    assert "set azure.arc.machineName: edge-7 for a in the inventory;" in why
    said = {**LACKS, "resource_id": MACHINE.replace("/rg/", "/other/")}
    (why,) = refusals([machine(host(__arc_registered=said))], {}).values()
    assert "set azure.arc.resourceGroup: other for a in the inventory;" in why


@pytest.mark.parametrize("assign", [True, False])
def test_machines_that_report_the_same_registration_are_refused(assign: bool) -> None:
    """One disk is a copy of the other: both have the identity that the rights are for."""
    original = machine(host(__arc_registered=LACKS, assign=assign))
    reported = {"a": MACHINE, "b": "", "c": "", "clone": MACHINE.upper()}
    (why,) = refusals([original], reported).values()
    assert why.startswith(f"FLEX-1813: a, clone report to be the same machine in Azure Arc ({MACHINE})")
    assert "azcmagent disconnect --force-local-only" in why
    assert refusals([original], {"a": MACHINE, "b": ""}) == {}
    assert refusals([machine({})], {"a": "", "b": ""}) == {}


def found(*hosts: str, **variables: Any) -> list[tuple[tuple[str, ...], str]]:
    given = {"flexnode_config": {"azure": {"arc": ARC}}, "flexnode_cluster_id": PLANT, **variables}
    machines = [machine_of(name, given, lambda _path: {}) for name in hosts]
    return [(one.hosts, one.what) for one in arc_findings(machines)]


def test_a_name_that_arc_does_not_take_is_found_before_anything_is_asked() -> None:
    assert found("edge-1", "edge-2") == []
    ((hosts, what),) = found("edge-1", "192.0.2.7", "a" * 55)
    assert hosts == ("192.0.2.7", "a" * 55)
    assert "can't be the name of a machine in Azure Arc" in what
    named = {"azure": {"arc": {**ARC, "machineName": "m"}}}
    assert found("192.0.2.7", flexnode_config=named) == []
    assert found("192.0.2.7", flexnode_config={}) == []
    from_url = {"azure": {"arc": {"enabled": True}}}
    assert found("192.0.2.7", flexnode_config=from_url, flexnode_config_source="url") == []
    assert found("192.0.2.7", flexnode_config_source="url"), "it is to get rights"


def test_one_name_of_two_machines_is_found_before_anything_is_asked() -> None:
    named = {"azure": {"arc": {**ARC, "machineName": "M"}}}
    assert found("edge-1", "edge-2", flexnode_config=named) == [
        (("edge-1", "edge-2"), "all of these would be m in Azure Arc")
    ]


# -- whose failure it is ------------------------------------------------------------------------------------


def named(name: str) -> ArcMachine:
    resource_id = MACHINE.replace("edge-1", name)
    return ArcMachine(name, request_of({"azure": {"arc": ARC}}, PLANT, name), {"resource_id": resource_id})


def test_a_failure_concerns_the_machine_that_it_names() -> None:
    machines = [named("a"), named("b"), named("c"), ArcMachine("d", {})]
    nodes = [{"machine_id": one.resource_id} for one in machines[:2]]
    single = {"machine_id": nodes[1]["machine_id"].upper(), "code": "FLEX-1703", "msg": "m"}
    failed = {"failed": True, "msg": "all", "error": {"code": "FLEX-1703"}}
    assert failed_hosts(machines, nodes, {**failed, "failures": [single]}) == {"b": single}
    whole = failed_hosts(machines, nodes, failed)
    assert {host: (one["code"], one["msg"]) for host, one in whole.items()} == dict.fromkeys(
        "ab", ("FLEX-1703", "all")
    )
    assert set(failed_hosts(machines, nodes, {"failed": True})) == {"a", "b"}, "it crashed"
    assert failed_hosts(machines, nodes, {"changed": True}) == {}


def test_what_is_left_of_a_registration_that_someone_deleted_is_told() -> None:
    gone = [{"machine_id": named("a").resource_id, "command": command} for command in ("list x", "list y")]
    told = notes([named("a"), named("b")], [{"gone": gone}])
    assert list(told) == ["a"]
    assert told["a"][0].startswith(f"{named('a').resource_id} does not exist in Azure")
    assert told["a"][1:] == ["list x", "list y"]
